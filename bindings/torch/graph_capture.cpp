// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph_capture.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "msprobe/log.h"
#include "msprobe/torch_capture.h"
#include "msprobe/torch_versions.h"

namespace py = pybind11;

namespace {

using msprobe::torch_adapter::CaptureQuestion;
using msprobe::torch_adapter::is_captured;
using msprobe::torch_adapter::kTellsCapture;
using msprobe::torch_adapter::set_capture_question;

// The current stream of this thread is that of its current device.
bool ask_python(c10::Device device) {
  if (!device.is_cuda()) return false;
  const py::gil_scoped_acquire gil;
  return py::module_::import("torch.cuda").attr("is_current_stream_capturing")().cast<bool>();
}

constexpr CaptureQuestion kOfTorch = kTellsCapture ? nullptr : &ask_python;

// To ask the driver would begin to use the device, after which a process cannot be forked.
bool uses_cuda() {
  static const py::handle cuda = py::object(py::module_::import("torch.cuda").attr("__dict__")).release();
  static const py::handle key = py::str("_initialized").release();
  return PyDict_GetItem(cuda.ptr(), key.ptr()) == Py_True;
}

bool is_captured_now() {
  if (is_captured(c10::Device(c10::kCPU))) return true;  // in tests
  if (!uses_cuda()) return false;
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  return is_captured(guard.getDevice());
}

}  // namespace

bool captures_graph() {
  if (!is_captured_now()) return false;
  static const bool told = [] {
    msprobe::log(
        msprobe::LogLevel::kWarning,
        "not recorded: captured into a CUDA graph. What the graph computes when it is replayed is not "
        "seen either; what runs outside of it is recorded");
    return true;
  }();
  return told;
}

void register_graph_capture(py::module_& m) {
  set_capture_question(kOfTorch);
  m.def("captures_graph", [] { return captures_graph(); });
  // For tests: as if the current streams of all devices, the CPU among them, were captured.
  m.def(
      "pretend_capture",
      [](bool on) { set_capture_question(on ? +[](c10::Device) { return true; } : kOfTorch); },
      py::arg("on"));
}
