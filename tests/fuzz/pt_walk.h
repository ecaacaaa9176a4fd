// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "msprobe/pt_file.h"

namespace msprobe::fuzz {

/// Goes into every value below `root` and checks what PtValue and PtTensor promise: an end, a depth, tensors
/// within their storage, whose bytes it touches.
void walk(const io::PtValue& root, std::size_t description_bytes);

}  // namespace msprobe::fuzz
