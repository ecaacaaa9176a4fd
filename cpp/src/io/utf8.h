// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace msprobe::io {

/// Length of the UTF-8 sequence that `text`, which is not empty, begins with; 0 when it is not valid (RFC
/// 3629: no surrogates, no overlong forms).
std::size_t utf8_sequence(std::string_view text) noexcept;

/// Whether `text` has nothing but ASCII; most texts do.
bool is_ascii(std::string_view text) noexcept;

/// `text` with each byte that is not UTF-8 as `\xNN`.
std::string with_escaped_bytes(std::string_view text);

/// Where the first byte stands that does not belong to UTF-8; npos: `text` is valid. ASCII at the speed of
/// memory.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

}  // namespace msprobe::io
