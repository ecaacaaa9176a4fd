// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace msprobe::fuzz {

/// Reads the bytes as a document, and as a configuration in a file with this ending: they are refused in one
/// sentence, or they are a tree within its limits, or a configuration whose keys all have a value of their
/// type.
void read_as_config(const std::uint8_t* data, std::size_t size, const std::string& ending);

}  // namespace msprobe::fuzz
