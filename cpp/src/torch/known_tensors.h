// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msprobe::torch_adapter {

/// What was found of tensors, for as long as nothing has changed them: what one call returns and the next one
/// takes is read once. A tensor is the same one when it has the same memory, which lives on, the same layout
/// and dtype, and a version that counts no operator in place since. What changes memory without telling torch
/// is not seen: so only what goes into calls is looked up here, what comes out of them is read always, and
/// all is forgotten at the end of a step.
///
/// Holds no memory of tensors, and at most kMost entries. Thread-safe.
template <typename Found>
class KnownTensors {
 public:
  /// Nothing for a tensor that is not known, or has changed.
  std::optional<Found> find(const at::Tensor& tensor) {
    if (tensor.is_inference()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(storage_of(tensor));
    if (entry == entries_.end() || !entry->second.is_of(tensor)) return std::nullopt;
    return entry->second.found;
  }

  /// In the place of what was known of this memory before.
  void keep(const at::Tensor& tensor, Found found) {
    if (tensor.is_inference()) return;
    c10::StorageImpl* const storage = storage_of(tensor);
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = entries_.insert_or_assign(storage, Entry(tensor, std::move(found)));
    if (!is_new) return;
    order_.push_back(storage);
    while (order_.size() > kMost) {
      entries_.erase(order_.front());
      order_.pop_front();
    }
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
    order_.clear();
  }

 private:
  static constexpr std::size_t kMost = 4096;

  static c10::StorageImpl* storage_of(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  }

  struct Entry {
    Entry(const at::Tensor& tensor, Found value)
        : storage(tensor.storage().getWeakStorageImpl()),
          data(tensor.const_data_ptr()),
          version(tensor.unsafeGetTensorImpl()->version_counter().current_version()),
          type(tensor.scalar_type()),
          sizes(tensor.sizes().vec()),
          strides(tensor.strides().vec()),
          found(std::move(value)) {}

    // A storage that is known weakly keeps its address, so no other one can have it.
    bool is_of(const at::Tensor& tensor) const {
      return !storage.expired() && data == tensor.const_data_ptr() &&
             version == tensor.unsafeGetTensorImpl()->version_counter().current_version() &&
             type == tensor.scalar_type() && tensor.sizes() == sizes && tensor.strides() == strides;
    }

    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* data;
    std::uint32_t version;
    at::ScalarType type;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    Found found;
  };

  std::mutex mutex_;
  std::unordered_map<c10::StorageImpl*, Entry> entries_;
  std::deque<c10::StorageImpl*> order_;
};

}  // namespace msprobe::torch_adapter
