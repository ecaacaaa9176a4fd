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
#include "grad_probe.h"
#include "intervention.h"
#include "monitor.h"
#include "msprobe/torch.h"
#include "pack_tensors.h"
#include "replay.h"
#include "result_error.h"
#include "training_state.h"

namespace py = pybind11;

namespace {

py::dict summarize(const at::Tensor& tensor, const std::string& checksum, std::vector<float> bounds,
                   bool signs, bool sketch, bool powers, double small, unsigned threads, bool device_path) {
  const SummaryArguments arguments(checksum, std::move(bounds), signs, sketch, powers, small, tensor.numel());
  msprobe::stats::Summary summary;
  {
    const py::gil_scoped_release no_gil;
    msprobe::ThreadPool pool(threads);
    summary = device_path
                  ? msprobe::torch_adapter::summarize_on_device({{tensor, arguments.options()}}).front()
                  : msprobe::torch_adapter::summarize(tensor, arguments.options(), &pool);
  }
  return arguments.to_dict(summary);
}

}  // namespace

PYBIND11_MODULE(_torch, m) {
  m.doc() = "Native adapter to the torch of this environment; import it after torch.";
  py::module_::import("msprobe._core");  // its error classes are ours
  m.attr("built_with_torch") = TORCH_VERSION;
  m.def("summarize", &summarize, py::arg("tensor"), py::kw_only(), py::arg("checksum") = "none",
        py::arg("bounds") = std::vector<float>(), py::arg("signs") = false, py::arg("sketch") = false,
        py::arg("powers") = false, py::arg("small") = 0.0, py::arg("threads") = 1U,
        py::arg("device_path") = false);
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
  register_monitor(m);
  register_monitor_modules(m);
}
