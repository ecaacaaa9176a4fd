// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>

#include "msprobe/torch_dump.h"

/// What this process holds of a tensor whose operators run in Python: of a DTensor its local shard, and where
/// that lies; of the result of a collective that may still run, the result, for which this waits. Nothing for
/// other classes. Issues no collective. Takes the GIL, and sets no Python error.
std::optional<msprobe::torch_adapter::TensorDescriber::Local> find_local(const at::Tensor& tensor);

/// A placement as msprobe.dump.placement makes it, as one element for TensorElement::placement. Needs the
/// GIL; throws pybind11::error_already_set.
std::string placement_element(pybind11::handle placement);
