// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Our modes on torch's stack of modes of a thread. They lie below all others: what a script puts on top it
/// takes off again, whenever we came and go, and its modes decide before us what reaches torch.

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/SafePyObject.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "../held.h"
#include "interception.h"

/// A new mode that sends calls to `observer`.
pybind11::object make_function_mode(std::shared_ptr<CallObserver> observer);

/// Puts a mode on the stack of this thread, unless it is there. It lives as long as the process from then on,
/// and with it its observer, until retire_function_mode().
void push_function_mode(const pybind11::object& mode);
/// Takes it off. Where it cannot be reached, as on the stack of another thread, its calls are made as without
/// it.
void remove_function_mode(const pybind11::object& mode);
/// remove_function_mode(), and lets go of the observer.
void retire_function_mode(const pybind11::object& mode);

/// As long as it lives, our modes are off the stack of this thread; those that were removed meanwhile stay
/// off.
class ModeOff {
 public:
  /// All of them.
  ModeOff();
  /// Those of `modes`.
  explicit ModeOff(const std::vector<Held<>>& modes);
  ~ModeOff();
  ModeOff(const ModeOff&) = delete;
  ModeOff& operator=(const ModeOff&) = delete;

 private:
  c10::SmallVector<std::shared_ptr<c10::SafePyObject>, 2> taken_;
};

/// As long as it lives, what this thread does with tensors reaches no mode, no transform and no
/// __torch_function__ of a class, of the script or of ours. Our own modes may come and go meanwhile.
class NoModes {
 public:
  NoModes();
  ~NoModes();
  NoModes(const NoModes&) = delete;
  NoModes& operator=(const NoModes&) = delete;

 private:
  at::impl::PythonTorchFunctionTLS functions_;
  c10::impl::TorchDispatchModeTLS operators_;
  c10::impl::ExcludeDispatchKeyGuard no_transforms_{c10::DispatchKeySet(
      {c10::DispatchKey::FuncTorchDynamicLayerFrontMode, c10::DispatchKey::FuncTorchDynamicLayerBackMode})};
};

void register_function_mode(pybind11::module_& m);
