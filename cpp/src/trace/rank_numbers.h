// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

/// Numbers of ranks in the texts of a record.
namespace msprobe::trace {

/// Nothing for a text that is no whole number, or one beyond the range of int.
std::optional<int> whole_number(std::string_view text) noexcept;

/// The numbers of a list as Python prints it, "[0, 1, 5]", sorted and each once.
std::vector<int> numbers_in(std::string_view text);

}  // namespace msprobe::trace
