// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msprobe {

/// Appends the bytes as base64 (RFC 4648, section 4), padded.
void append_base64(std::string& out, std::string_view bytes);

/// The bytes; nothing for a text that append_base64() does not make.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace msprobe
