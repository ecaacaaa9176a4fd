// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "fragility.h"

#include <ATen/ATen.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "../python_text.h"
#include "changed_arguments.h"
#include "last_part.h"
#include "msprobe/torch.h"
#include "msprobe/torch_perturb.h"
#include "native_type.h"

namespace py = pybind11;
namespace perturb = msprobe::perturb;
namespace adapter = msprobe::torch_adapter;

using msprobe::DType;
using perturb::Arithmetic;
using perturb::Change;

namespace {

constexpr std::size_t kMostFrames = 6;
constexpr double kTypicalUlp = 1.44;         // units of roundoff: of 1 to 2, the mean over all mantissas
constexpr double kWorthAFormula = 4;         // below, no condition number is asked for
constexpr double kNegligibleGradient = 0.1;  // of the typical one among those of a call: nothing but rounding

bool is_measurable(const at::Tensor& tensor) {
  return tensor.numel() > 0 && adapter::why_unperturbable(tensor).empty();
}

DType dtype_in(const at::Tensor& tensor) { return *adapter::dtype_of(tensor.scalar_type()); }

void take_coarser(std::optional<DType>& coarsest, const at::Tensor& tensor) {
  const DType dtype = dtype_in(tensor);
  if (!coarsest || perturb::digits_of(dtype) < perturb::digits_of(*coarsest)) coarsest = dtype;
}

// Rounded otherwise to the digits of `coarsest`. What lies in the same memory gets the same: x - x stays 0.
class OtherRounding {
 public:
  OtherRounding(DType coarsest, int attempt) : coarsest_(coarsest), attempt_(attempt) {}

  at::Tensor of(const at::Tensor& tensor) {
    for (const auto& [known, other] : known_) {
      if (known.const_data_ptr() == tensor.const_data_ptr() && known.sizes() == tensor.sizes() &&
          known.strides() == tensor.strides() && known.scalar_type() == tensor.scalar_type()) {
        return other;
      }
    }
    const int power = std::max(0, perturb::digits_of(dtype_in(tensor)) - perturb::digits_of(coarsest_));
    const std::uint64_t seed =
        0x9E3779B97F4A7C15U * (static_cast<std::uint64_t>(attempt_) + 1) + 0x51ED27U * known_.size();
    known_.emplace_back(tensor, adapter::with_random_ulps(tensor, seed, power));
    return known_.back().second;
  }

 private:
  DType coarsest_;
  int attempt_;
  std::vector<std::pair<at::Tensor, at::Tensor>> known_;
};

// Along which a softmax goes.
std::int64_t softmax_dim(const CallArguments& arguments, std::int64_t dimensions) {
  PyObject* given = arguments.positional > 1 ? arguments.values[1] : nullptr;
  arguments.for_each_keyword([&](PyObject* key, PyObject* value) {
    if (utf8(key) == "dim") given = value;
  });
  std::int64_t dim = dimensions - 1;
  if (given != nullptr && PyLong_Check(given) != 0) {
    dim = PyLong_AsLongLong(given);
    if (dim < 0) dim += dimensions;
  }
  return std::clamp<std::int64_t>(dim, 0, std::max<std::int64_t>(dimensions - 1, 0));
}

// The tensor that is divided by.
std::size_t place_of_divisor(std::string_view api, std::size_t tensors) {
  const std::string_view name = last_part(api);
  if (name == "__rtruediv__" || name == "__rdiv__") return 0;
  return tensors > 1 ? 1 : tensors;  // beyond the end: a number of Python
}

std::string module_of(std::string_view api) {  // "Module.layers.0.Linear"
  constexpr std::string_view kPrefix = "Module.";
  const std::size_t end = api.rfind('.');
  if (!api.starts_with(kPrefix) || end < kPrefix.size()) return {};
  return std::string(api.substr(kPrefix.size(), end - kPrefix.size()));
}

std::vector<std::string>& open_modules() {
  thread_local std::vector<std::string> paths;
  return paths;
}

const std::string& torch_folder() {
  static const std::string folder = [] {
    const auto file = py::module_::import("torch").attr("__file__").cast<std::string>();
    return "File " + file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

}  // namespace

void FragilityProbe::begin_step() {
  report_ = {};
  row_of_.clear();
  open_ = true;
  ++steps_begun_;
}

FragilityProbe::Report FragilityProbe::end_step() {
  open_ = false;
  ++steps_begun_;
  row_of_.clear();
  return std::exchange(report_, {});
}

PyObject* FragilityProbe::answer_module(const Call& call) {
  open_modules().push_back(module_of(call.api()));
  PyObject* result = call.make();
  open_modules().pop_back();
  return result;
}

PyObject* FragilityProbe::answer(const Call& call) {
  if (call.of_module()) return answer_module(call);
  if (!open_) return call.make();
  return report_.make_and_look(
      call,
      [&]() -> std::unique_ptr<Repetition> {
        ++report_.calls;
        if (perturb::arithmetic_of(call.api()) != Arithmetic::kNone)
          return std::make_unique<Repetition>(call);
        ++report_.without_rounding;
        return nullptr;
      },
      [&](std::unique_ptr<Repetition> repetition, PyObject* result, std::uint64_t first_node) {
        look(call, std::move(repetition), result, first_node);
      });
}

void FragilityProbe::look(const Call& call, std::unique_ptr<Repetition> repetition, PyObject* result,
                          std::uint64_t first_node) {
  switch (repetition->check(result)) {
    case Repetition::Verdict::kNoResult: ++report_.without_rounding; return;
    case Repetition::Verdict::kCannot: return report_.leave_out(call.api(), repetition->why_not());
    case Repetition::Verdict::kCan: break;
  }
  Row row;
  row.name = call.name();
  row.operator_name = call.api();
  if (!open_modules().empty()) row.module = open_modules().back();
  row.measure.arithmetic = perturb::arithmetic_of(call.api());
  measure_forward(call, *repetition, result, row);
  if (!row.has_arguments) return;  // there is nothing to be rounded otherwise
  row.stack = stack();
  report_.rows.push_back(std::move(row));
  if (!backward_) return;
  std::string name = call.name();
  name.replace(name.rfind("forward"), std::string_view("forward").size(), "backward");
  row_of_.insert_or_assign(std::move(name), report_.rows.size() - 1);
  const std::string reason =
      BackwardOfCall::watch(weak_from_this(), steps_begun_, call, std::move(repetition), result, first_node);
  if (!reason.empty()) report_.leave_out(call.api(), reason);
}

void FragilityProbe::measure_forward(const Call& call, Repetition& repetition, PyObject* result, Row& row) {
  std::vector<at::Tensor> results;
  std::optional<DType> coarsest;
  for (const at::Tensor& tensor : tensors_of(result)) {
    if (!is_measurable(tensor)) continue;
    results.push_back(tensor.detach());
    take_coarser(coarsest, tensor);
  }
  std::vector<at::Tensor> arguments;
  for (PyObject* tensor : repetition.tensors()) {
    const at::Tensor before = repetition.before(tensor).detach();
    if (!is_measurable(before)) continue;
    arguments.push_back(before);
    take_coarser(coarsest, before);
  }
  row.has_arguments = !results.empty() && !arguments.empty();
  if (!row.has_arguments) return;

  perturb::CallMeasure& measure = row.measure;
  measure.dtype = *coarsest;
  OtherRounding rounding(*coarsest, 0);
  std::vector<Change> changes;
  for (const at::Tensor& argument : arguments) {
    const Change change = adapter::change(argument, rounding.of(argument));
    measure.arguments_not_finite += change.not_finite;
    measure.largest_argument = std::max(measure.largest_argument, change.largest);
    if (change.difference > 0) row.input_change = kTypicalUlp * std::exp2(-perturb::digits_of(*coarsest));
    changes.push_back(change);
  }
  const std::size_t divisor = measure.arithmetic == Arithmetic::kQuotient
                                  ? place_of_divisor(call.api(), repetition.tensors().size())
                                  : 0;
  if (divisor < changes.size()) measure.least_argument = changes[divisor].least;
  for (const at::Tensor& tensor : results) {
    const Change size = adapter::change(tensor, tensor);
    measure.results_not_finite += size.not_finite;
    measure.largest_result = std::max(measure.largest_result, size.largest);
  }
  if (row.input_change == 0) return;  // all arguments are 0
  for (int attempt = 0; attempt < tries_; ++attempt) {
    const double relative = try_again(repetition, results, attempt, *coarsest);
    if (std::isnan(relative)) continue;
    const double amplification = relative / row.input_change;
    measure.forward = std::isnan(measure.forward) ? amplification : std::max(measure.forward, amplification);
  }
  if (repetition.has_changed_arguments()) {
    report_.note_fault(call.api(), "made again it changed its arguments");
    return;
  }
  measure.condition = condition_of(call, repetition, results, row);
}

// The largest relative change of a result; NaN: nothing can be said.
double FragilityProbe::try_again(Repetition& repetition, const std::vector<at::Tensor>& results, int attempt,
                                 DType coarsest) {
  OtherRounding rounding(coarsest, attempt);
  Repetition::Way way;
  way.replace = [&](PyObject* value) -> py::object {
    if (!THPVariable_Check(value)) return {};
    const at::Tensor before = repetition.before(value).detach();
    if (!is_measurable(before)) return {};
    const at::Tensor other = rounding.of(before);
    return python_tensor(repetition.is_changed(value) ? other.clone() : other);
  };
  double largest = std::numeric_limits<double>::quiet_NaN();
  const py::object again = repetition.again(way);
  if (!again) {
    PyErr_Clear();
    return largest;
  }
  std::size_t place = 0;
  for (const at::Tensor& other : tensors_of(again.ptr())) {
    if (!is_measurable(other)) continue;
    if (place >= results.size() || results[place].sizes() != other.sizes()) return largest;
    const double relative = adapter::change(results[place++], other.detach()).relative();
    if (!std::isnan(relative)) largest = std::isnan(largest) ? relative : std::max(largest, relative);
  }
  return largest;
}

// NaN where there is no formula, or no need of one.
double FragilityProbe::condition_of(const Call& call, Repetition& repetition,
                                    const std::vector<at::Tensor>& results, Row& row) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  perturb::CallMeasure& measure = row.measure;
  if (measure.arithmetic == Arithmetic::kSoftmax) {
    const std::vector<PyObject*> tensors = repetition.tensors();
    const at::Tensor logits = repetition.before(tensors.front()).detach();
    const auto state = adapter::softmax_state(logits, softmax_dim(repetition.arguments(), logits.dim()));
    measure.saturated = state.saturated;
    return std::max(state.condition, 1.0);
  }
  if (!(measure.forward >= kWorthAFormula)) return kNone;
  const Change result = adapter::change(results.front(), results.front());
  switch (measure.arithmetic) {
    case Arithmetic::kDifference: {
      double terms = 0;
      for (PyObject* tensor : repetition.tensors()) {
        const at::Tensor before = repetition.before(tensor).detach();
        if (!is_measurable(before)) return kNone;
        const Change size = adapter::change(before, before);
        terms += std::sqrt(size.size * static_cast<double>(result.count) / static_cast<double>(size.count));
      }
      return terms / std::sqrt(result.size);
    }
    case Arithmetic::kSum:
    case Arithmetic::kProduct: {
      // The same of magnitudes is the sum of the magnitudes of all terms.
      Repetition::Way way;
      way.replace = [&](PyObject* value) -> py::object {
        if (!THPVariable_Check(value)) return {};
        const at::Tensor before = repetition.before(value).detach();
        return is_measurable(before) ? python_tensor(before.abs()) : py::object();
      };
      const py::object terms = repetition.again(way);
      if (!terms) {
        PyErr_Clear();
        return kNone;
      }
      const std::vector<at::Tensor> sums = tensors_of(terms.ptr());
      if (sums.empty() || !is_measurable(sums.front())) return kNone;
      const Change size = adapter::change(sums.front().detach(), sums.front().detach());
      return size.not_finite > 0 ? kNone : std::sqrt(size.size / result.size);
    }
    case Arithmetic::kExponential: return std::max(1.0, std::abs(std::log(result.largest)));
    case Arithmetic::kLogarithm: return std::sqrt(static_cast<double>(result.count) / result.size);
    case Arithmetic::kQuotient:
    case Arithmetic::kRoot:
    case Arithmetic::kNorm: return 2;
    default: break;
  }
  (void)call;
  return kNone;
}

void FragilityProbe::check_backward(BackwardOfCall& call) {
  if (!open_ || call.step() != steps_begun_) return;
  report_.guard(call.api(), [&] {
    const auto place = row_of_.find(call.name());
    if (place == row_of_.end()) return;
    Row& row = report_.rows[place->second];
    if (!call.repetition().arguments_are_as_before()) {
      return report_.leave_out(call.api(), "an argument changed between forward and backward");
    }
    bool all_finite = true;
    for (const at::Tensor& arrived : call.arrived()) {
      if (arrived.defined() && is_measurable(arrived)) {
        all_finite = all_finite && adapter::change(arrived, arrived).not_finite == 0;
      }
    }
    const std::vector<at::Tensor> gradients = call.compute_changed({});
    double typical = 0;
    for (const at::Tensor& gradient : gradients) {
      if (!gradient.defined() || !is_measurable(gradient)) continue;
      const Change size = adapter::change(gradient, gradient);
      if (all_finite) row.measure.gradients_not_finite += size.not_finite;
      row.measure.largest_gradient = std::max(row.measure.largest_gradient, size.largest);
      typical = std::max(typical, std::sqrt(size.size / static_cast<double>(size.count)));
    }
    if (typical == 0 || row.input_change == 0) return;
    for (int attempt = 0; attempt < tries_; ++attempt) {
      OtherRounding rounding(row.measure.dtype, attempt);
      const std::vector<at::Tensor> others = call.compute_changed(
          [&](const at::Tensor& tensor) { return is_measurable(tensor) ? rounding.of(tensor) : tensor; });
      for (std::size_t i = 0; i < gradients.size() && i < others.size(); ++i) {
        if (!gradients[i].defined() || !others[i].defined() || !is_measurable(gradients[i])) continue;
        const Change change = adapter::change(gradients[i], others[i]);
        const auto count = static_cast<double>(change.count);
        const double floor = kNegligibleGradient * typical * std::sqrt(count);
        const double relative = std::sqrt(change.difference) / std::max(std::sqrt(change.size), floor);
        const double amplification = relative / row.input_change;
        double& backward = row.measure.backward;
        backward = std::isnan(backward) ? amplification : std::max(backward, amplification);
      }
    }
  });
}

// Where the program makes the call: the first frame outside of torch, and those that led there.
std::vector<const std::string*> FragilityProbe::stack() {
  std::vector<CodePosition> positions;
  for_each_frame([&](PyCodeObject* code, int instruction) {
    positions.push_back({code, instruction});
    return positions.size() < 200;
  });
  std::vector<const std::string*> frames;
  for (const CodePosition& position : positions) {
    const std::string* text = texts_.text_of(position);
    if (text == nullptr || (frames.empty() && text->starts_with(torch_folder()))) continue;
    frames.push_back(text);
    if (frames.size() == kMostFrames) break;
  }
  return frames;
}

// ---- Python

namespace {

py::object number_or_none(double value) {
  return std::isnan(value) ? py::object(py::none()) : py::object(py::float_(value));
}

py::dict row_to_dict(const FragilityProbe::Row& row, bool scaled) {
  perturb::CallMeasure measure = row.measure;
  if (scaled) measure.gradients_not_finite = 0;
  py::dict result;
  result["name"] = row.name;
  result["operator"] = row.operator_name;
  result["module"] = row.module;
  result["dtype"] = msprobe::dtype_name(measure.dtype);
  result["forward"] = number_or_none(measure.forward);
  result["backward"] = number_or_none(measure.backward);
  result["condition"] = number_or_none(measure.condition);
  const double margin = perturb::overflow_margin(measure.dtype, measure.largest_result);
  result["margin_bits"] = std::isfinite(margin) ? py::object(py::float_(margin)) : py::object(py::none());
  const double gradient_margin = perturb::overflow_margin(measure.dtype, measure.largest_gradient);
  result["gradient_margin_bits"] =
      std::isfinite(gradient_margin) ? py::object(py::float_(gradient_margin)) : py::object(py::none());
  const auto found = perturb::judge(measure);
  result["kind"] =
      found ? py::object(py::str(std::string(perturb::fragility_name(found->kind)))) : py::object(py::none());
  result["stage"] = found && found->backward ? "backward" : "forward";
  result["severity"] = found ? found->severity : 0.0;
  result["reason"] = found ? found->reason : std::string();
  py::list stack;
  for (const std::string* frame : row.stack) stack.append(*frame);
  result["stack"] = stack;
  return result;
}

py::dict fragility_to_dict(const FragilityProbe::Report& report, const py::bool_& scaled) {
  py::list rows;
  for (const FragilityProbe::Row& row : report.rows) rows.append(row_to_dict(row, static_cast<bool>(scaled)));
  py::dict result;
  result["rows"] = rows;
  result["calls"] = report.calls;
  result["without_rounding"] = report.without_rounding;
  result["left_out"] = report.left_out;
  result["faults"] = report.faults;
  return result;
}

}  // namespace

void register_fragility(py::module_& m) {
  py::class_<FragilityProbe, Intervener, std::shared_ptr<FragilityProbe>>(m, "FragilityProbe", py::is_final())
      .def(py::init<int, bool>(), py::kw_only(), py::arg("tries") = 2, py::arg("backward") = true)
      .def("begin_step", &FragilityProbe::begin_step)
      .def(
          "end_step",
          [](FragilityProbe& self, const py::bool_& scaled) {
            return fragility_to_dict(self.end_step(), scaled);
          },
          py::kw_only(), py::arg("scaled") = false);
}
