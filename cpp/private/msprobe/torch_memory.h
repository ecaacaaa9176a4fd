// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is known of the memory that tensors show: which of it says something about a program.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "msprobe/export.h"

namespace msprobe::torch_adapter {

/// The memory of one step. Known is what a call of the step was seen to write or to compute with; of all else
/// nobody knows whether it has been written at all. What torch.empty() gives is undefined until it is
/// written: it holds whatever was there before, in each process something else.
///
/// Storages are known by identity, and none is kept alive. What tensors of other classes show, which have no
/// memory of their own, counts as known. Not thread-safe.
class MSPROBE_API KnownMemory {
 public:
  enum class State : std::uint8_t { kKnown, kUnknown, kUndefined };

  KnownMemory();
  ~KnownMemory();
  KnownMemory(const KnownMemory&) = delete;
  KnownMemory& operator=(const KnownMemory&) = delete;

  /// Of all that the tensor shows: kKnown only where the whole is.
  State state_of(const at::Tensor& tensor);

  /// The whole tensor was written, or computed with.
  void note_known(const at::Tensor& tensor);
  /// The whole tensor was written with what is not known.
  void note_unknown(const at::Tensor& tensor);
  /// Elements of it were written, at places that are not known. Once as many were as it has, it is known.
  void note_written_somewhere(const at::Tensor& tensor, std::int64_t elements);
  /// Its storage was allocated just now, or made larger, and nothing is in it.
  void note_undefined(const at::Tensor& tensor);

  /// Nothing is known any more.
  void clear();

 private:
  struct Storage;
  struct Storages;
  std::unique_ptr<Storages> storages_;
};

}  // namespace msprobe::torch_adapter
