// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/meter.h"

namespace msprobe::device {

/// The item of a request, but for where its result goes and its first block. `most_blocks`: for one tensor,
/// at least position::kLanes. Throws UnsupportedError for a layout that takes() refuses, and InvalidArgument
/// for a request that contradicts itself.
Item item_of(const Request& request, Word most_blocks);

}  // namespace msprobe::device
