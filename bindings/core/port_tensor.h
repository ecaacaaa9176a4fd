// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../held.h"
#include "core.h"
#include "msprobe/error.h"
#include "msprobe/tensor_view.h"

/// What the port of a framework (python/msprobe/frameworks/port.py) says of a tensor: (address, dtype, shape,
/// strides, owner), and whether it requires a gradient, where that is told. In place of the address a text
/// says why there is no memory to read. Keeps the memory alive; needs Python's lock.
struct PortTensor {
  std::optional<std::uintptr_t> address;
  std::string unreadable;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements
  Held<> owner;                       // of the memory
  bool requires_grad = false;

  explicit PortTensor(const py::object& view) {
    const auto said = py::tuple(view);
    if (said.size() != 5 && said.size() != 6)
      throw msprobe::InvalidArgument("view(): expected (address, dtype, shape, strides, owner) of a tensor");
    owner = py::object(said[4]);
    if (said.size() == 6) requires_grad = said[5].cast<bool>();
    if (py::isinstance<py::str>(said[0])) {
      unreadable = said[0].cast<std::string>();
    } else {
      address = said[0].cast<std::uintptr_t>();
    }
    dtype = said[1].cast<std::string>();
    shape = said[2].cast<std::vector<std::int64_t>>();
    strides = said[3].cast<std::vector<std::int64_t>>();
    if (strides.size() != shape.size())
      throw msprobe::InvalidArgument("view(): expected as many strides as extents");
  }

  /// Throws UnsupportedError where there is no memory to read, or no arithmetic.
  msprobe::DType readable_dtype() const {
    const std::optional<msprobe::DType> found = msprobe::dtype_named(dtype);
    if (!address) throw msprobe::UnsupportedError("a tensor that " + unreadable);
    if (!found) throw msprobe::UnsupportedError("elements of type " + dtype + " have no arithmetic");
    return *found;
  }

  msprobe::TensorView view(msprobe::DType of) const {
    return {reinterpret_cast<const void*>(address.value_or(0)), of, shape, strides};
  }
};
