// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace msprobe::torch_adapter {

/// Calls `use` with the elements of a strided tensor in logical order, a piece of at most `most` elements
/// after the other, each of one dimension without gaps, and the place of its first. What has gaps is made
/// without them a piece at a time, on its device: no whole copy.
void for_pieces(const at::Tensor& tensor, std::int64_t most,
                const std::function<void(const at::Tensor& piece, std::int64_t first)>& use);

/// A copy of its own in the host's memory, without gaps. Of a device with a kernel it comes through two
/// pinned buffers; a tensor with gaps takes some MB there. Waits for it.
at::Tensor host_copy(const at::Tensor& tensor);

/// The same into `kept`, in whose memory it lies again where that fits. Of a device the memory is pinned and
/// the copy is queued behind what runs there: nobody waits, and whoever reads it on the host has to. Where no
/// memory can be pinned it does wait.
void keep_on_host(at::Tensor& kept, const at::Tensor& tensor);

}  // namespace msprobe::torch_adapter
