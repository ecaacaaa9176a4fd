// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "../summary.h"
#include "dump.h"
#include "fragility.h"
#include "free_benchmark.h"
#include "function_mode.h"
#include "grad_probe.h"
#include "graph_capture.h"
#include "intervention.h"
#include "monitor.h"
#include "msprobe/torch.h"
#include "msprobe/torch_tensors.h"
#include "pack_tensors.h"
#include "replay.h"
#include "result_error.h"
#include "results_watch.h"
#include "training_state.h"

namespace py = pybind11;

namespace {

py::dict summarize(const at::Tensor& tensor, const std::string& checksum, std::vector<float> bounds,
                   bool signs, bool sketch, bool powers, double small, SummaryArguments::Shard shard,
                   unsigned threads) {
  const SummaryArguments arguments(checksum, std::move(bounds), signs, sketch, powers, small,
                                   std::move(shard), tensor.numel());
  msprobe::stats::Summary summary;
  {
    const py::gil_scoped_release no_gil;
    msprobe::ThreadPool pool(threads);
    summary = msprobe::torch_adapter::summarize(tensor, arguments.options(), &pool);
  }
  return arguments.to_dict(summary);
}

// CRC-32 of each, as summarize() has it: for thousands of small ones, of which a dict would cost more.
std::vector<std::uint32_t> checksums(const std::vector<at::Tensor>& tensors) {
  const py::gil_scoped_release no_gil;
  msprobe::stats::SummaryOptions options;
  options.checksum = msprobe::stats::SummaryOptions::Checksum::kNative;
  std::vector<std::uint32_t> found;
  found.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    found.push_back(msprobe::torch_adapter::summarize(tensor, options).crc32.value_or(0));
  }
  return found;
}

msprobe::torch_adapter::DeviceWay way_named(const std::string& name) {
  using msprobe::torch_adapter::DeviceWay;
  if (name == "none") return DeviceWay::kNone;
  if (name == "kernel") return DeviceWay::kKernel;
  if (name == "operators") return DeviceWay::kOperators;
  throw msprobe::InvalidArgument("way: expected none, kernel or operators, found " + name);
}

std::tuple<std::size_t, std::size_t, std::size_t> kernel_work(const std::string& device) {
  const auto [launches, tensors, waits] = msprobe::torch_adapter::kernel_work(c10::Device(device));
  return {launches, tensors, waits};
}

std::string way_of_device(const std::string& device) {
  const py::gil_scoped_release no_gil;  // the kernel may have to be compiled
  return msprobe::torch_adapter::way_of(c10::Device(device));
}

}  // namespace

PYBIND11_MODULE(_torch, m) {
  m.doc() = "Native adapter to the torch of this environment; import it after torch.";
  py::module_::import("msprobe._core");  // its error classes are ours
  m.attr("built_with_torch") = TORCH_VERSION;
  m.def("summarize", &summarize, py::arg("tensor"), py::kw_only(), py::arg("checksum") = "none",
        py::arg("bounds") = std::vector<float>(), py::arg("signs") = false, py::arg("sketch") = false,
        py::arg("powers") = false, py::arg("small") = 0.0, py::arg("shard") = py::none(),
        py::arg("threads") = 1U);
  m.def("checksums", &checksums, py::arg("tensors"));
  m.def(
      "set_device_way",
      [](const std::string& way) { msprobe::torch_adapter::set_device_way(way_named(way)); }, py::arg("way"));
  m.def("way_of_device", &way_of_device, py::arg("device"));
  m.def("kernel_work", &kernel_work, py::arg("device"));
  register_function_mode(m);
  register_graph_capture(m);
  register_training_state(m);
  register_grad_probe(m);
  register_intervention(m);
  register_free_benchmark(m);
  register_fragility(m);
  register_dump_options(m);
  register_dump(m);
  register_pack_tensors(m);
  register_replay(m);
  register_result_error(m);
  register_results_watch(m);
  register_monitor(m);
  register_monitor_modules(m);
}
