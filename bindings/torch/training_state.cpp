// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "training_state.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measured_tensors.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/torch.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"

namespace py = pybind11;

namespace {

// Shape of a larger tensor, and where this one begins in it.
using PlaceInWhole = std::optional<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>;

std::string statistics_text(const at::Tensor& tensor, const PlaceInWhole& shard) {
  std::optional<py::gil_scoped_release> no_gil;
  if (tensor.numel() >= kElementsWithoutGil) no_gil.emplace();
  msprobe::stats::SummaryOptions options;
  // Of a device's tensor a checksum would need all elements on the host; the sketch has a digest.
  if (!msprobe::torch_adapter::is_elsewhere(tensor))
    options.checksum = msprobe::stats::SummaryOptions::Checksum::kNative;
  options.sketch = tensor.dim() > 0;
  if (shard) options.shard = {shard->first, shard->second};
  return msprobe::dump::state_members(msprobe::torch_adapter::summarize(tensor, options));
}

// What of the values of a list is measured.
enum class Of { kValue, kParameter, kGradient };

Of of_named(const std::string& name) {
  if (name == "value") return Of::kValue;
  if (name == "parameter") return Of::kParameter;
  if (name == "gradient") return Of::kGradient;
  throw msprobe::InvalidArgument("of: expected value, parameter or gradient, found " + name);
}

// A name and a value of the list; where it becomes text: its place among the tensors.
struct Named {
  py::handle name;
  py::handle value;
  std::optional<std::size_t> tensor = std::nullopt;
  bool is_null = false;
  bool is_left_out = false;
};

// Values to be measured, all tensors of them at once.
class Measurement {
 public:
  explicit Measurement(Of of) : of_(of) {}

  // A list of names and values.
  void add(const py::handle& items) {
    for (const py::handle item : items) {
      const auto pair = py::cast<py::tuple>(item);
      add(pair[0].ptr(), pair[1].ptr());
    }
  }

  std::size_t size() const { return all_.size(); }

  void measure() {
    std::optional<py::gil_scoped_release> no_gil;
    if (elements_ >= kElementsWithoutGil) no_gil.emplace();
    entries_ = msprobe::torch_adapter::state_entries(tensors_, of_ == Of::kParameter);
  }

  // Of the values from number `first` to `last`.
  std::string members(std::size_t first, std::size_t last, const py::function& otherwise,
                      const std::string& separator) const {
    std::string text;
    for (std::size_t i = first; i < last; ++i) {
      const Named& one = all_[i];
      if (one.is_left_out) continue;
      const bool is_known = one.is_null || (one.tensor && !entries_[*one.tensor].empty());
      const char* const name = is_known ? PyUnicode_AsUTF8(one.name.ptr()) : nullptr;
      if (name != nullptr) {
        msprobe::dump::append_state_member(text, separator, name,
                                           one.is_null ? std::string_view("null") : entries_[*one.tensor]);
        continue;
      }
      PyErr_Clear();
      const auto other = py::cast<std::string>(otherwise(one.name, one.value));
      if (other.empty()) continue;
      if (!text.empty()) text += separator;
      text += other;
    }
    return text;
  }

 private:
  void add(py::handle name, py::handle value) {
    Named& one = all_.emplace_back(Named{.name = name, .value = value});
    std::optional<at::Tensor> tensor = tensor_of(value.ptr());
    if (tensor && of_ == Of::kGradient) {
      const bool is_wanted = tensor->requires_grad();
      tensor = tensor->is_leaf() || tensor->retains_grad() ? tensor->grad() : at::Tensor();
      one.is_null = !tensor->defined() && is_wanted;
      one.is_left_out = !tensor->defined() && !is_wanted;
    }
    if (!tensor || !tensor->defined()) return;
    one.tensor = tensors_.size();
    elements_ += tensor->is_cpu() && !tensor->is_nested() ? tensor->numel() : kElementsWithoutGil;
    tensors_.push_back(std::move(*tensor));
  }

  Of of_;
  std::vector<Named> all_;
  std::vector<at::Tensor> tensors_;
  std::int64_t elements_ = 0;
  std::vector<std::string> entries_;
};

std::string members(const py::list& items, const std::string& of, const py::function& otherwise,
                    const std::string& separator) {
  Measurement measurement(of_named(of));
  measurement.add(items);
  measurement.measure();
  return measurement.members(0, measurement.size(), otherwise, separator);
}

// Each group an object. Its name is JSON already.
std::string groups(const py::list& groups, const py::function& otherwise) {
  Measurement measurement(Of::kValue);
  std::vector<std::size_t> ends;
  for (const py::handle group : groups) {
    measurement.add(py::cast<py::tuple>(group)[1]);
    ends.push_back(measurement.size());
  }
  measurement.measure();
  std::string text;
  std::size_t first = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i > 0) text += ", ";
    text += py::cast<std::string>(py::cast<py::tuple>(groups[i])[0]);
    text += ": {" + measurement.members(first, ends[i], otherwise, ", ") + "}";
    first = ends[i];
  }
  return text;
}

}  // namespace

void register_training_state(py::module_& m) {
  m.def("state_statistics", &statistics_text, py::arg("tensor"), py::arg("shard") = py::none());
  m.def("state_members", &members, py::arg("items"), py::kw_only(), py::arg("of"), py::arg("otherwise"),
        py::arg("separator"));
  m.def("state_groups", &groups, py::arg("groups"), py::kw_only(), py::arg("otherwise"));
}
