// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "device/meter.h"

namespace msprobe::device {

/// The item of a request, but for where its result goes and its first block. `most_blocks`: for one tensor,
/// at least position::kLanes. Throws UnsupportedError for a layout that takes() refuses, and InvalidArgument
/// for a request that contradicts itself.
Item item_of(const Request& request, Word most_blocks);

/// Gives a launch its items. Returns the memory, one of `bytes` of a pool, that the kernel reads them from;
/// null: they are in the table itself.
std::shared_ptr<void> set_items(Table& table, std::span<const Item> items, Device& device, PinnedPool& pool,
                                std::size_t bytes);

}  // namespace msprobe::device
