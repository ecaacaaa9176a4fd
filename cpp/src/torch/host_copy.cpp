// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/host_copy.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>

#include "torch/device_meters.h"
#include "torch/out_of_sight.h"

namespace msprobe::torch_adapter {
namespace {

using UsePiece = std::function<void(const at::Tensor& piece, std::int64_t first)>;

void add_pieces(const at::Tensor& tensor, std::int64_t most, std::int64_t first, const UsePiece& use) {
  if (tensor.is_contiguous() || tensor.numel() <= most) {
    const at::Tensor flat = tensor.reshape({-1}).contiguous();  // of one dimension it may have gaps still
    for (std::int64_t i = 0; i < flat.numel(); i += most) {
      use(flat.slice(0, i, std::min(i + most, flat.numel())), first + i);
    }
    return;
  }
  const std::int64_t rows = tensor.size(0), of_row = tensor.numel() / rows;
  const std::int64_t each = std::max<std::int64_t>(1, most / of_row);
  for (std::int64_t row = 0; row < rows; row += each) {
    add_pieces(tensor.slice(0, row, std::min(row + each, rows)).squeeze(0), most, first + row * of_row, use);
  }
}

// Pinned where a device writes it.
at::Tensor memory_for(const at::Tensor& tensor) {
  const at::TensorOptions options =
      tensor.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous);
  if (!tensor.is_cpu()) {
    try {
      return at::empty(tensor.sizes(), options.pinned_memory(true));
    } catch (const c10::Error&) {  // there is not as much
    }
  }
  return at::empty(tensor.sizes(), options);
}

std::int64_t most_elements(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(device::ToHost::kBytes / tensor.element_size());
}

void copy_in_pieces(const at::Tensor& copy, const at::Tensor& tensor, bool waits) {
  const at::Tensor flat = copy.view({-1});
  for_pieces(tensor, most_elements(tensor), [&](const at::Tensor& piece, std::int64_t first) {
    flat.slice(0, first, first + piece.numel()).copy_(piece, !waits);
  });
}

}  // namespace

void for_pieces(const at::Tensor& tensor, std::int64_t most, const UsePiece& use) {
  add_pieces(tensor, most, 0, use);
}

at::Tensor host_copy(const at::Tensor& tensor) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  const at::Tensor plain = tensor.detach();
  at::Tensor copy =
      at::empty(plain.sizes(), plain.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
  device::Meter* const meter = is_elsewhere(plain) ? meter_of(plain.device()) : nullptr;
  if (meter != nullptr) {
    const device::Stream stream = native_stream(current_stream(plain.device()));
    meter->bring_to_host(stream, copy.mutable_data_ptr(), [&](const device::ToHost::Add& add) {
      for_pieces(plain, most_elements(plain),
                 [&](const at::Tensor& piece, std::int64_t) { add(piece.const_data_ptr(), piece.nbytes()); });
    });
  } else if (plain.is_cpu()) {
    copy.copy_(plain);
  } else {
    copy_in_pieces(copy, plain, /*waits=*/true);
  }
  return copy;
}

void keep_on_host(at::Tensor& kept, const at::Tensor& tensor) {
  const OutOfSight out_of_sight;
  const c10::NoGradGuard no_grad;
  const at::Tensor plain = tensor.detach();
  if (!kept.defined() || kept.sizes() != plain.sizes() || kept.scalar_type() != plain.scalar_type()) {
    kept = memory_for(plain);
  }
  if (plain.is_cpu()) {
    kept.copy_(plain);
  } else {
    copy_in_pieces(kept, plain, /*waits=*/false);
  }
}

}  // namespace msprobe::torch_adapter
