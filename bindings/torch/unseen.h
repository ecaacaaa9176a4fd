// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

/// While a call is made once more: no mode, transform or profiler of the training sees it or its operators.
class Unseen {
 public:
  Unseen() : functions_before_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
    if (at::hasCallbacks()) not_recorded_.emplace();
  }
  ~Unseen() { at::impl::PythonTorchFunctionTLS::set_disabled_state(functions_before_); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  at::impl::TorchFunctionDisabledState functions_before_;
  std::optional<at::DisableRecordFunctionGuard> not_recorded_;
  c10::impl::ExcludeDispatchKeyGuard no_modes_{
      c10::python_ks | c10::DispatchKeySet({c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                            c10::DispatchKey::FuncTorchDynamicLayerBackMode})};
};
