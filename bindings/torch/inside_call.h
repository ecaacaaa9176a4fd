// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/PyInterpreter.h>

#include <memory>
#include <string_view>
#include <utility>

/// As long as it lives, this thread is inside of an observed call: what that calls is not recorded.
class InsideCall {
 public:
  InsideCall() { ++depth_; }
  ~InsideCall() { --depth_; }
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

  static bool is_so() noexcept { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

/// As long as it lives, our mode is off torch's stack of this thread, if it was on top.
class ModeOff {
 public:
  ModeOff() {
    const auto size = at::impl::PythonTorchFunctionTLS::stack_len();
    if (size == 0) return;
    const auto& top = at::impl::PythonTorchFunctionTLS::get_stack_at(size - 1);
    if (std::string_view(Py_TYPE(top->ptr(getPyInterpreter()))->tp_name) != "msprobe._torch.FunctionMode")
      return;
    mode_ = at::impl::PythonTorchFunctionTLS::pop_stack();
  }
  ~ModeOff() {
    if (mode_) at::impl::PythonTorchFunctionTLS::push_onto_stack(std::move(mode_));
  }
  ModeOff(const ModeOff&) = delete;
  ModeOff& operator=(const ModeOff&) = delete;

 private:
  std::shared_ptr<c10::SafePyObject> mode_;
};
