// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace msprobe::io {

/// Length of the UTF-8 sequence at the start of `text`, which is not empty; 0 when it is not valid (RFC 3629:
/// no surrogates, no overlong forms).
std::size_t utf8_sequence(std::string_view text) noexcept;

/// Where the first byte stands that does not belong to UTF-8; npos: `text` is valid. ASCII at the speed of
/// memory.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

}  // namespace msprobe::io
