// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msprobe::io {

/// Gives the memory behind the end of `text` back to the system while its place is kept: as shrink_to_fit(),
/// but without a copy, and pointers into the text stay valid. Does nothing where the system has no such call.
void give_back_unused(std::string& text) noexcept;

}  // namespace msprobe::io
