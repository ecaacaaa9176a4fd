// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msprobe::trace {

/// Appends Python's repr() of a text: 'text', with the quotes and escapes Python chooses. Characters outside
/// of ASCII stay as they are.
void append_python_repr(std::string& out, std::string_view utf8);

}  // namespace msprobe::trace
