// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../grad_probe_options.h"
#include "../held.h"
#include "../python_text.h"
#include "function_mode.h"
#include "graph_capture.h"
#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/torch.h"

namespace py = pybind11;

namespace {

using msprobe::torch_adapter::GradProbe;
using msprobe::torch_adapter::GradProbeSettings;
using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;

// The probe of a Python training script: finds each parameter's gradient the way its framework keeps it.
class PythonGradProbe {
 public:
  // `elsewhere(parameter)`: its gradient where an engine has taken it away, or None.
  PythonGradProbe(NamedParameters parameters, GradProbeSettings settings, py::object elsewhere)
      : probe_(parameters, std::move(settings)),
        parameters_(std::move(parameters)),
        elsewhere_(std::move(elsewhere)) {}

  // What torch.optim calls before every Optimizer.step(): (optimizer, args, kwargs).
  void on_optimizer_step(const py::object& optimizer, const py::object&, const py::object&) {
    try {
      const NoModes no_modes;
      if (captures_graph() || scaler_will_skip(optimizer)) return;
      std::vector<at::Tensor> gradients;
      if (probe_.wants_next_step()) {
        gradients.reserve(parameters_.size());
        for (const auto& [name, parameter] : parameters_) gradients.push_back(gradient_of(name, parameter));
        unscale(optimizer, gradients);
      }
      const py::gil_scoped_release no_gil;
      probe_.step(gradients);
    } catch (const std::exception& e) {  // a fault of ours must not stop the training
      msprobe::log(msprobe::LogLevel::kError, "gradient probe: step " + std::to_string(probe_.steps_seen()) +
                                                  " is not recorded: " + error_text(e));
      probe_.skip_step();
    }
  }

  std::int64_t flush() {
    const py::gil_scoped_release no_gil;
    return probe_.flush();
  }

  std::int64_t steps_seen() const { return probe_.steps_seen(); }
  std::vector<std::string> local_shards() const { return {local_shards_.begin(), local_shards_.end()}; }

 private:
  // A GradScaler calls the step of a fused optimizer even when it found Inf, and lets the kernel skip the
  // update. The flag it leaves on the optimizer says so. (On a device, reading it costs one synchronisation;
  // only fused optimizers have it.)
  static bool scaler_will_skip(const py::object& optimizer) {
    const py::object found_inf = py::getattr(optimizer, "found_inf", py::none());
    return THPVariable_Check(found_inf.ptr()) && THPVariable_Unpack(found_inf.ptr()).item<double>() != 0;
  }

  // Such an optimizer also gets the gradients still multiplied by the scale, and divides inside its kernel.
  // Recorded is what it would get without a scaler, as from any other optimizer.
  static void unscale(const py::object& optimizer, std::vector<at::Tensor>& gradients) {
    const py::object scale = py::getattr(optimizer, "grad_scale", py::none());
    if (!THPVariable_Check(scale.ptr())) return;
    const c10::NoGradGuard no_grad;
    const at::Tensor inverse = THPVariable_Unpack(scale.ptr()).to(at::kDouble).reciprocal().to(at::kFloat);
    for (at::Tensor& gradient : gradients) {
      if (gradient.defined()) gradient = gradient * inverse.to(gradient.device());
    }
  }

  at::Tensor gradient_of(const std::string& name, const at::Tensor& parameter) {
    const py::object python = py::reinterpret_steal<py::object>(THPVariable_Wrap(parameter));
    // Megatron keeps gradients in main_grad; one that is None must not hide the ordinary gradient.
    py::object gradient = py::getattr(python, "main_grad", py::none());
    if (gradient.is_none()) gradient = python.attr("grad");
    if (gradient.is_none() && !elsewhere_.is_none()) {
      gradient = elsewhere_(python);
      if (!gradient.is_none()) local_shards_.insert(name);
    }
    if (gradient.is_none()) return {};
    if (py::hasattr(gradient, "to_local") && py::hasattr(gradient, "placements")) {  // a DTensor
      local_shards_.insert(name);
      gradient = gradient.attr("_local_tensor");
    }
    if (py::hasattr(gradient, "trigger_wait"))
      gradient = gradient.attr("trigger_wait")();  // a pending collective
    if (!THPVariable_Check(gradient.ptr())) {
      throw msprobe::UnsupportedError("the gradient of " + name + " is not a tensor but a " +
                                      std::string(py::str(py::type::of(gradient).attr("__name__"))));
    }
    return THPVariable_Unpack(gradient.ptr());
  }

  GradProbe probe_;
  NamedParameters parameters_;
  Held<> elsewhere_;
  std::set<std::string> local_shards_;
};

std::unique_ptr<PythonGradProbe> make_probe(NamedParameters parameters, std::filesystem::path dump_path,
                                            int rank, const std::string& level, const GradBounds& bounds,
                                            std::vector<std::int64_t> steps, unsigned threads,
                                            py::object elsewhere, const std::string& layout,
                                            const std::map<std::string, int>& keepers) {
  GradProbeSettings settings;
  settings.options = grad_probe_options(std::move(dump_path), rank, level, bounds, layout);
  settings.options.keepers.insert(keepers.begin(), keepers.end());
  settings.steps = std::move(steps);
  settings.threads = threads;
  return std::make_unique<PythonGradProbe>(std::move(parameters), std::move(settings), std::move(elsewhere));
}

}  // namespace

void register_grad_probe(py::module_& m) {
  py::class_<PythonGradProbe>(m, "GradProbe", py::is_final())
      .def(py::init(&make_probe), py::arg("named_parameters"), py::arg("dump_path"), py::kw_only(),
           py::arg("rank") = 0, py::arg("level") = "L1", py::arg("bounds") = GradBounds(),
           py::arg("steps") = std::vector<std::int64_t>(), py::arg("threads") = 0U,
           py::arg("elsewhere") = py::none(), py::arg("layout") = "npy",
           py::arg("keepers") = std::map<std::string, int>())
      .def("on_optimizer_step", &PythonGradProbe::on_optimizer_step, py::arg("optimizer"),
           py::arg("args") = py::none(), py::arg("kwargs") = py::none())
      .def("flush", &PythonGradProbe::flush)
      .def_property_readonly("steps_seen", &PythonGradProbe::steps_seen)
      .def_property_readonly("local_shards", &PythonGradProbe::local_shards);
}
