// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>

#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"

/// What this process holds of a tensor whose operators run in Python: of a DTensor its local shard, and where
/// that lies; of the result of a collective that may still run, the result, for which this waits. Nothing for
/// other classes. Issues no collective. Takes the GIL, and sets no Python error.
std::optional<msprobe::torch_adapter::TensorDescriber::Local> find_local(const at::Tensor& tensor);

/// What this process holds of a DTensor, for statistics that processes add up.
struct HeldPart {
  at::Tensor tensor;
  bool is_partial;   // one of the terms of a sum that nobody has yet: not the values of the tensor
  bool is_repeated;  // another process holds the same part, and has a lower rank
};
/// Nothing for what is no DTensor. Issues no collective. Takes the GIL, and sets no Python error.
std::optional<HeldPart> find_held_part(const at::Tensor& tensor);

/// A placement as msprobe.training.placement makes it, as one element for TensorElement::placement. Needs the
/// GIL; throws pybind11::error_already_set.
std::string placement_element(pybind11::handle placement);
