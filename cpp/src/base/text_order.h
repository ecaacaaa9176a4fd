// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace msprobe {

/// The numbers of the texts in the order of their bytes; equal ones in the order they came. Quick also where
/// many texts begin alike, as names and paths do: what was found equal is not compared again.
std::vector<std::uint32_t> text_order(std::span<const std::string_view> texts);

}  // namespace msprobe
