// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "monitor.h"

#include <ATen/ATen.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "distributed_tensor.h"
#include "measured_tensors.h"
#include "msprobe/error.h"
#include "msprobe/monitor_frame.h"
#include "msprobe/monitor_plan.h"
#include "msprobe/trainer_mon.h"

namespace py = pybind11;

namespace {

namespace monitor = msprobe::monitor;
using msprobe::torch_adapter::TensorMeter;

at::Tensor local_tensor(const at::Tensor& tensor) {
  const auto local = find_local(tensor);
  return local ? local->tensor : at::Tensor();
}

SharedMeter make_meter(double eps, bool powers, unsigned threads) {
  TensorMeter::Options options;
  options.eps = eps;
  options.powers = powers;
  options.threads = threads;
  options.local_of = &local_tensor;
  return std::make_shared<TensorMeter>(std::move(options));
}

// A tensor or a subclass of it; undefined for None. Throws for anything else.
at::Tensor tensor_or_none(py::handle value) {
  if (value.is_none()) return {};
  if (!THPVariable_Check(value.ptr())) {
    throw msprobe::InvalidArgument("monitor: expected a tensor or None, found " +
                                   std::string(py::str(py::type::of(value).attr("__name__"))));
  }
  return THPVariable_Unpack(value.ptr());
}

std::vector<at::Tensor> tensors_or_none(const py::list& values) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(values.size());
  for (const py::handle value : values) tensors.push_back(tensor_or_none(value));
  return tensors;
}

void measure(TensorMeter& meter, monitor::Frame& frame, const std::vector<std::uint32_t>& labels,
             const py::list& values, monitor::CallCounter* calls, std::int32_t micro_step) {
  if (labels.size() != values.size()) {
    throw msprobe::InvalidArgument("monitor: expected as many tensors as labels");
  }
  std::vector<TensorMeter::Item> items;
  items.reserve(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    items.push_back({labels[i], micro_step, tensor_or_none(values[i])});
  }
  const py::gil_scoped_release no_gil;
  meter.measure(frame, items, calls);
}

// [(count, left squares, right squares, dot, squared distance, balance of signs)]
std::vector<std::tuple<std::int64_t, double, double, double, double, std::int64_t>> pairs(
    TensorMeter& meter, const py::list& left, const py::list& right) {
  const std::vector<at::Tensor> x = tensors_or_none(left);
  const std::vector<at::Tensor> y = tensors_or_none(right);
  std::vector<msprobe::stats::PairSums> sums;
  {
    const py::gil_scoped_release no_gil;
    sums = meter.pairs(x, y);
  }
  std::vector<std::tuple<std::int64_t, double, double, double, double, std::int64_t>> result;
  result.reserve(sums.size());
  for (const auto& s : sums) {
    result.emplace_back(s.count, s.left_squares, s.right_squares, s.dot, s.squared_distance, s.sign_balance);
  }
  return result;
}

// The numbers `ops` of several tensors taken as one.
std::vector<double> merged_values(TensorMeter& meter, const py::list& values,
                                  const std::vector<std::string>& ops) {
  const std::vector<at::Tensor> tensors = tensors_or_none(values);
  monitor::Row row;
  {
    const py::gil_scoped_release no_gil;
    for (const at::Tensor& tensor : tensors) monitor::merge(row.sums, meter.sums_of(tensor));
  }
  if (tensors.size() != 1 || !tensors[0].defined() || tensors[0].dim() != 0) row.shape = {row.sums.count};
  std::vector<double> numbers;
  for (const std::string& op : ops) numbers.push_back(monitor::scalar(row, op));
  return numbers;
}

// Rows for pairs; one of which a side is None has none.
void measure_pairs(TensorMeter& meter, monitor::Frame& frame, const std::vector<std::uint32_t>& labels,
                   const py::list& left, const py::list& right, bool left_is_kept) {
  if (labels.size() != left.size() || labels.size() != right.size()) {
    throw msprobe::InvalidArgument("monitor: expected as many tensors as labels");
  }
  const std::vector<at::Tensor> x = tensors_or_none(left);
  const std::vector<at::Tensor> y = tensors_or_none(right);
  const py::gil_scoped_release no_gil;
  meter.measure_pairs(frame, labels, x, y, left_is_kept);
}

// Copies for measure_pairs(), None where there is none that can be read.
std::vector<at::Tensor> keep(const TensorMeter& meter, const py::list& kept, const py::list& values) {
  if (kept.size() != values.size()) {
    throw msprobe::InvalidArgument("monitor: expected as many kept tensors as tensors");
  }
  std::vector<at::Tensor> copies = tensors_or_none(kept);
  const std::vector<at::Tensor> tensors = tensors_or_none(values);
  const py::gil_scoped_release no_gil;
  meter.keep(copies, tensors);
  return copies;
}

at::Tensor as_tensor(const std::vector<double>& numbers) {
  return at::tensor(numbers, at::TensorOptions().dtype(at::kDouble));
}

std::vector<double> as_numbers(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

// What processes add up, and what they take the largest of.
std::pair<at::Tensor, at::Tensor> pack(const monitor::Frame& frame, std::vector<std::uint32_t> labels,
                                       std::vector<std::uint32_t> counted, std::vector<std::size_t> counts,
                                       std::vector<std::uint32_t> left) {
  const monitor::Packed packed =
      monitor::pack(frame, {std::move(labels), std::move(counted), std::move(counts), std::move(left)});
  return {as_tensor(packed.summed), as_tensor(packed.largest)};
}

void unpack(monitor::Frame& frame, std::vector<std::uint32_t> labels, std::vector<std::uint32_t> counted,
            std::vector<std::size_t> counts, const at::Tensor& summed, const at::Tensor& largest) {
  monitor::unpack(frame, {std::move(labels), std::move(counted), std::move(counts)},
                  {as_numbers(summed), as_numbers(largest)});
}

// [(spectral norm, stable rank)] of matrices; NaN for what is none.
std::vector<std::pair<double, double>> spectra(const py::list& matrices) {
  const std::vector<at::Tensor> tensors = tensors_or_none(matrices);
  const py::gil_scoped_release no_gil;
  std::vector<std::pair<double, double>> found;
  for (const auto& one : msprobe::torch_adapter::spectra(tensors)) {
    found.emplace_back(one.spectral_norm, one.stable_rank);
  }
  return found;
}

}  // namespace

void register_monitor(py::module_& m) {
  py::class_<TensorMeter, SharedMeter>(m, "MonitorMeter", py::is_final())
      .def(py::init(&make_meter), py::kw_only(), py::arg("eps") = 1e-8, py::arg("powers") = true,
           py::arg("threads") = 0U)
      .def("measure", &measure, py::arg("frame"), py::arg("labels"), py::arg("tensors"), py::arg("calls"),
           py::arg("micro_step") = -1)
      .def("merged_values", &merged_values, py::arg("tensors"), py::arg("ops"))
      .def("measure_pairs", &measure_pairs, py::arg("frame"), py::arg("labels"), py::arg("left"),
           py::arg("right"), py::arg("left_is_kept") = false)
      .def("keep", &keep, py::arg("kept"), py::arg("tensors"))
      .def("pairs", &pairs, py::arg("left"), py::arg("right"));
  m.def("monitor_spectra", &spectra, py::arg("matrices"));
  m.def("monitor_pack", &pack, py::arg("frame"), py::arg("labels"), py::arg("counted"), py::arg("counts"),
        py::arg("left") = std::vector<std::uint32_t>());
  m.def("monitor_unpack", &unpack, py::arg("frame"), py::arg("labels"), py::arg("counted"), py::arg("counts"),
        py::arg("summed"), py::arg("largest"));
}
