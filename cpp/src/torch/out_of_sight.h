// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

namespace msprobe::torch_adapter {

/// While something of ours is done: the operators that it takes are not recorded, by us or by a profiler, and
/// reach no mode or transform that the training has put on. For one thread and one scope.
class OutOfSight {
 public:
  OutOfSight() {
    if (at::hasCallbacks())
      not_recorded_.emplace();  // it costs more than a small operator, when nobody listens
  }

 private:
  std::optional<at::DisableRecordFunctionGuard> not_recorded_;
  c10::impl::ExcludeDispatchKeyGuard no_modes_{
      c10::python_ks | c10::DispatchKeySet({c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                            c10::DispatchKey::FuncTorchDynamicLayerBackMode})};
};

}  // namespace msprobe::torch_adapter
