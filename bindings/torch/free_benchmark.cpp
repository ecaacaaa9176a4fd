// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "free_benchmark.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backward_of_call.h"
#include "changed_arguments.h"
#include "msprobe/error.h"
#include "msprobe/torch.h"
#include "msprobe/torch_perturb.h"
#include "native_type.h"

namespace py = pybind11;
namespace perturb = msprobe::perturb;
namespace adapter = msprobe::torch_adapter;

using perturb::Finding;
using perturb::Mode;

namespace {

// The type of the Python error that is set, which is cleared.
std::string take_python_error() {
  const py::error_already_set error;
  return error.type().attr("__name__").cast<std::string>();
}

msprobe::DType dtype_of(const at::Tensor& tensor) {
  return adapter::dtype_of(tensor.scalar_type()).value_or(msprobe::DType::kFloat32);
}

bool is_comparable(const at::Tensor& original, const at::Tensor& perturbed) {
  const at::ScalarType type = perturbed.scalar_type();
  if (original.layout() != at::kStrided || perturbed.layout() != at::kStrided) return false;
  if (at::isIntegralType(type, false)) return at::isIntegralType(original.scalar_type(), false);
  return adapter::why_unperturbable(perturbed).empty() && adapter::why_unperturbable(original).empty();
}

}  // namespace

FreeBenchmark::FreeBenchmark(FreeBenchmarkOptions options)
    : options_(std::move(options)),
      filter_(options_.list, std::vector<std::string>()),
      scope_(options_.scope.begin(), options_.scope.end()) {
  if (options_.preheat) preheat_.emplace(options_.preheat_step, options_.max_sample, options_.mode);
}

void FreeBenchmark::begin_step(const std::filesystem::path& directory, std::int64_t rank, std::int64_t step) {
  if (open_ && step == step_) return;
  step_ = step;
  rows_.emplace(directory / "free_benchmark.csv", rank, options_.mode, options_.backward, step);
  report_ = {};
  open_ = true;
  ++steps_begun_;
}

FreeBenchmark::Report FreeBenchmark::end_step() {
  if (preheat_ && open_) preheat_->end_step();
  open_ = false;
  ++steps_begun_;
  rows_.reset();
  return std::exchange(report_, {});
}

bool FreeBenchmark::wants(const Call& call) {
  if (!open_ || (!scope_.empty() && scope_.find(call.name()) == scope_.end())) return false;
  return filter_.keeps_all() || filter_.keeps_api(call.name());
}

PyObject* FreeBenchmark::answer(const Call& call) {
  bool on_cpu = false;
  return report_.make_and_look(
      call,
      [&]() -> std::unique_ptr<Repetition> {
        if (!wants(call)) return nullptr;
        ++report_.calls;
        if (preheat_) on_cpu = preheat_->begin_call(call.api());
        const bool only_counts = preheat_ && preheat_->only_counts();
        if (only_counts || never_again_.find(call.api()) != never_again_.end()) return nullptr;
        return std::make_unique<Repetition>(call);
      },
      [&](std::unique_ptr<Repetition> repetition, PyObject* result, std::uint64_t first_node) {
        look(call, std::move(repetition), result, on_cpu, first_node);
      });
}

void FreeBenchmark::look(const Call& call, std::unique_ptr<Repetition> repetition, PyObject* result,
                         bool on_cpu, std::uint64_t first_node) {
  switch (repetition->check(result)) {
    case Repetition::Verdict::kNoResult: ++report_.without_result; return;
    case Repetition::Verdict::kCannot: return report_.leave_out(call.api(), repetition->why_not());
    case Repetition::Verdict::kCan: break;
  }
  if (options_.backward) {
    watch_backward(call, std::move(repetition), result, first_node);
  } else {
    check_forward(call, *repetition, result, on_cpu);
  }
}

std::optional<Repetition::Way> FreeBenchmark::way_of(const Repetition& repetition) const {
  Repetition::Way way;
  if (options_.mode == Mode::kNoChange) return way;
  if (options_.mode == Mode::kToCpu || options_.mode == Mode::kImprovePrecision) {
    const bool on_cpu = options_.mode == Mode::kToCpu;
    if (!on_cpu && !can_be_improved(repetition)) return std::nullopt;
    way.autocast = false;
    way.replace = improve_all(repetition, on_cpu);
    return way;
  }
  PyObject* target = tensor_to_change(repetition.arguments());
  if (target == nullptr) return std::nullopt;
  const at::Tensor before = repetition.before(target);
  if (!adapter::why_unperturbable(before).empty()) return std::nullopt;
  const at::Tensor changed = adapter::perturbed(before, options_.mode);
  if (!changed.defined()) return std::nullopt;
  way.replace = [target, value = python_tensor(changed), is_done = false](PyObject* tensor) mutable {
    const bool is_it = tensor == target && !std::exchange(is_done, tensor == target || is_done);
    return is_it ? value : py::object();
  };
  return way;
}

void FreeBenchmark::check_forward(const Call& call, Repetition& repetition, PyObject* result, bool on_cpu) {
  const std::optional<Repetition::Way> way = way_of(repetition);
  if (!way) {
    ++report_.unchanged;
    return;
  }
  const py::object other = repetition.again(*way);
  if (!other) return report_.leave_out(call.api(), "made again it raises " + take_python_error());
  if (repetition.has_changed_arguments()) {
    never_again_.emplace(call.api());
    return report_.note_fault(call.api(),
                              "made again it changed its arguments; it is not made again any more");
  }
  ++report_.checked;
  if (options_.fix) return replace(call.api(), repetition, result, other.ptr());
  const auto pairs = pairs_of(call.api(), result, other.ptr());
  if (!pairs) return;
  compare(call.api(), call.name(), *pairs);
  if (on_cpu) learn(call.api(), repetition, result, *pairs);
}

std::optional<std::vector<FreeBenchmark::Pair>> FreeBenchmark::pairs_of(std::string_view api,
                                                                        PyObject* original,
                                                                        PyObject* perturbed) {
  const std::vector<at::Tensor> left = tensors_of(original);
  const std::vector<at::Tensor> right = tensors_of(perturbed);
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left.size() != right.size() || left[i].sizes() != right[i].sizes()) {
      report_.leave_out(api, "made again its result has another shape");
      return std::nullopt;
    }
    if (!is_comparable(left[i], right[i])) continue;
    pairs.push_back({left[i], right[i], THPVariable_Check(original) ? std::nullopt : std::optional(i)});
  }
  return pairs;
}

Finding FreeBenchmark::judge(std::string_view api, const Pair& pair) const {
  const msprobe::DType dtype = dtype_of(pair.original);
  if (options_.mode == Mode::kToCpu) {
    return perturb::judge(adapter::distance(pair.original, pair.perturbed), dtype);
  }
  const double threshold =
      preheat_ ? preheat_->threshold(api, dtype) : perturb::default_threshold(dtype, options_.mode);
  return perturb::judge(adapter::ratios(pair.original, pair.perturbed, options_.backward),
                        dtype_of(pair.perturbed), options_.backward, threshold);
}

// Preheat: whether the call is right on the CPU, beside what the change makes of it.
void FreeBenchmark::learn(std::string_view api, Repetition& repetition, PyObject* result,
                          const std::vector<Pair>& pairs) {
  Repetition::Way way;
  way.autocast = false;
  way.replace = improve_all(repetition, true);
  const py::object reference = repetition.again(way);
  if (!reference) return PyErr_Clear();
  const auto beside = pairs_of(api, result, reference.ptr());
  if (!beside || beside->size() != pairs.size() || pairs.empty()) return;
  double ratio = 0;
  bool is_right = true;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const msprobe::DType dtype = dtype_of(pairs[i].original);
    const perturb::Distance distance = adapter::distance((*beside)[i].original, (*beside)[i].perturbed);
    is_right = is_right && perturb::judge(distance, dtype).is_consistent();
    const Finding finding = judge(api, pairs[i]);
    const bool has_ratio = finding.kind != Finding::Kind::kSymbolFlipping && !std::isnan(finding.ratio);
    if (has_ratio) ratio = std::max(ratio, finding.ratio);
  }
  preheat_->note(api, dtype_of(pairs.front().original), ratio, is_right);
}

void FreeBenchmark::compare(std::string_view api, const std::string& name, const std::vector<Pair>& pairs) {
  for (const Pair& pair : pairs) {
    const Finding finding = judge(api, pair);
    if (finding.is_consistent()) continue;
    ++report_.inconsistent;
    rows_->add({name, finding, dtype_of(pair.original), pair.original.sizes().vec(), pair.index});
  }
}

void FreeBenchmark::replace(std::string_view api, const Repetition& repetition, PyObject* result,
                            PyObject* other) {
  const std::vector<at::Tensor> left = tensors_of(result);
  const std::vector<at::Tensor> right = tensors_of(other);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left.size() != right.size() || left[i].sizes() != right[i].sizes()) {
      return report_.leave_out(api, "made again its result has another shape");
    }
    if (repetition.is_memory_of_arguments(left[i])) {
      return report_.leave_out(api, "its result is memory of an argument");
    }
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;  // and no version counts it
  for (std::size_t i = 0; i < left.size(); ++i) left[i].copy_(right[i]);
}

void FreeBenchmark::watch_backward(const Call& call, std::unique_ptr<Repetition> repetition, PyObject* result,
                                   std::uint64_t first_node) {
  const std::string reason =
      BackwardOfCall::watch(weak_from_this(), steps_begun_, call, std::move(repetition), result, first_node);
  if (!reason.empty()) report_.leave_out(call.api(), reason);
}

void FreeBenchmark::check_backward(BackwardOfCall& call) {
  if (!open_ || call.step() != steps_begun_) return;
  report_.guard(call.api(), [&] {
    if (!call.repetition().arguments_are_as_before()) {
      return report_.leave_out(call.api(), "an argument changed between forward and backward");
    }
    const auto found = call.compute_twice(options_.mode);
    if (!found) {
      ++report_.unchanged;
      return;
    }
    ++report_.checked;
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < found->original.size(); ++i) {
      const at::Tensor& original = found->original[i];
      const at::Tensor& perturbed = found->perturbed[i];
      if (!original.defined() || !perturbed.defined() || original.sizes() != perturbed.sizes()) continue;
      if (!is_comparable(original, perturbed)) continue;
      pairs.push_back({original, perturbed, found->original.size() > 1 ? std::optional(i) : std::nullopt});
    }
    compare(call.api(), call.name(), pairs);
  });
}

// ---- Python

namespace {

py::dict to_dict(const FreeBenchmark::Report& report) {
  py::dict result;
  result["calls"] = report.calls;
  result["checked"] = report.checked;
  result["inconsistent"] = report.inconsistent;
  result["unchanged"] = report.unchanged;
  result["without_result"] = report.without_result;
  result["left_out"] = report.left_out;
  result["faults"] = report.faults;
  return result;
}

std::shared_ptr<FreeBenchmark> make_free_benchmark(
    const std::string& pert_mode, bool fix, bool backward, std::vector<std::string> list,
    std::vector<std::string> scope, std::optional<std::pair<std::int64_t, std::int64_t>> preheat) {
  const std::optional<Mode> mode = perturb::mode_named(pert_mode);
  if (!mode) throw msprobe::InvalidArgument("pert_mode: found \"" + pert_mode + "\", expected a mode");
  FreeBenchmarkOptions options;
  options.list = std::move(list);
  options.scope = std::move(scope);
  options.mode = *mode;
  options.fix = fix;
  options.backward = backward;
  options.preheat = preheat.has_value();
  if (preheat) std::tie(options.preheat_step, options.max_sample) = *preheat;
  return std::make_shared<FreeBenchmark>(std::move(options));
}

}  // namespace

void register_free_benchmark(py::module_& m) {
  py::class_<FreeBenchmark, Intervener, std::shared_ptr<FreeBenchmark>>(m, "FreeBenchmark", py::is_final())
      .def(py::init(&make_free_benchmark), py::kw_only(), py::arg("pert_mode"), py::arg("fix") = false,
           py::arg("backward") = false, py::arg("list") = std::vector<std::string>(),
           py::arg("scope") = std::vector<std::string>(), py::arg("preheat") = py::none())
      .def("begin_step", &FreeBenchmark::begin_step, py::arg("directory"), py::kw_only(), py::arg("rank"),
           py::arg("step"))
      .def("end_step", [](FreeBenchmark& self) { return to_dict(self.end_step()); });
}
