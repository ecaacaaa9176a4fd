// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core.h"
#include "msprobe/document.h"

/// None, bool, int, float, str, list and dict as they are in Python. A byte that is not UTF-8 becomes a lone
/// surrogate, as in the names of files.
py::object to_python(const msprobe::io::Value& value);

/// The reverse; also tuples, and paths as text. `name`: what is converted, for the message. Throws
/// InvalidArgument for anything else.
msprobe::io::Value from_python(py::handle object, const std::string& name);
