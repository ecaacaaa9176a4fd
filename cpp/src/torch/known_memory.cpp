// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "msprobe/torch_memory.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace known_memory {

// Bytes of a storage, from `begin` to before `end`.
struct Run {
  std::int64_t begin;
  std::int64_t end;
};

// Runs that neither overlap nor touch, in order.
class Runs {
 public:
  bool holds(const Run& run) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), run.begin,
                                        [](std::int64_t begin, const Run& one) { return begin < one.begin; });
    return after != runs_.begin() && std::prev(after)->end >= run.end;
  }

  void add(Run run) {
    auto first = std::lower_bound(runs_.begin(), runs_.end(), run.begin,
                                  [](const Run& one, std::int64_t begin) { return one.end < begin; });
    auto last = first;
    for (; last != runs_.end() && last->begin <= run.end; ++last) {
      run.begin = std::min(run.begin, last->begin);
      run.end = std::max(run.end, last->end);
    }
    if (first == last) {
      runs_.insert(first, run);
    } else {
      *first = run;
      runs_.erase(std::next(first), last);
    }
  }

  void clear() { runs_.clear(); }

 private:
  std::vector<Run> runs_;
};

}  // namespace known_memory

namespace {

using known_memory::Run;

// Of a tensor in more pieces than this, each of which is looked up, no place is kept.
constexpr std::int64_t kMostRuns = 4096;

// Of the memory of a tensor: each extent with more than one place, from the smallest stride on.
struct Extent {
  std::int64_t size;
  std::int64_t stride;
};

std::vector<Extent> extents_of(const at::Tensor& tensor) {
  std::vector<Extent> extents;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != 0) extents.push_back({tensor.size(i), tensor.stride(i)});
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.stride < b.stride; });
  return extents;
}

// Calls use(run) for each piece of memory until it returns false. False: it did, or there are too many.
template <typename Use>
bool for_each_run(const at::Tensor& tensor, const Use& use) {
  const auto item = static_cast<std::int64_t>(tensor.itemsize());
  std::vector<Extent> extents = extents_of(tensor);
  std::int64_t length = 1;
  auto outer = extents.begin();
  for (; outer != extents.end() && outer->stride == length; ++outer) length *= outer->size;
  std::int64_t count = 1;
  for (auto extent = outer; extent != extents.end(); ++extent) {
    count *= extent->size;
    if (count > kMostRuns) return false;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t begin = tensor.storage_offset();
    std::int64_t rest = i;
    for (auto extent = outer; extent != extents.end(); ++extent) {
      begin += rest % extent->size * extent->stride;
      rest /= extent->size;
    }
    if (!use(Run{begin * item, (begin + length) * item})) return false;
  }
  return true;
}

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() && !tensor.is_meta() && !runs_in_python(tensor) &&
         tensor.layout() == at::kStrided && !tensor.is_nested();
}

}  // namespace

struct KnownMemory::Storage {
  c10::weak_intrusive_ptr<c10::StorageImpl> alive;
  bool is_undefined = false;   // where it is not known
  std::uint32_t version = 0;   // of what is undefined: another one was written by somebody whom nobody saw
  std::int64_t scattered = 0;  // bytes that were written somewhere
  known_memory::Runs known = {};
  known_memory::Runs written = {};  // of what is undefined, with whatever it may be
};

struct KnownMemory::Storages {
  ska::flat_hash_map<c10::StorageImpl*, Storage> all;

  Storage* find(const at::Tensor& tensor) {
    const auto found = all.find(tensor.storage().unsafeGetStorageImpl());
    return found == all.end() ? nullptr : &found->second;
  }

  Storage& get(const at::Tensor& tensor) {
    if (Storage* storage = find(tensor)) return *storage;
    Storage storage{c10::weak_intrusive_ptr<c10::StorageImpl>(tensor.storage().getWeakStorageImpl())};
    return all.emplace(tensor.storage().unsafeGetStorageImpl(), std::move(storage)).first->second;
  }
};

KnownMemory::KnownMemory() : storages_(std::make_unique<Storages>()) {}
KnownMemory::~KnownMemory() = default;

KnownMemory::State KnownMemory::state_of(const at::Tensor& tensor) {
  if (!has_memory(tensor) || tensor.numel() == 0) return State::kKnown;
  Storage* storage = storages_->find(tensor);
  // A function of autograd made it, which was not recorded, as an index is.
  if (storage == nullptr) return tensor.grad_fn() != nullptr ? State::kKnown : State::kUnknown;
  if (storage->is_undefined && storage->version != version_of(tensor)) storage->is_undefined = false;
  if (for_each_run(tensor, [&](const Run& run) { return storage->known.holds(run); })) return State::kKnown;
  const Run whole{0, static_cast<std::int64_t>(tensor.storage().nbytes())};
  if (storage->known.holds(whole)) return State::kKnown;
  const auto is_written = [&](const Run& run) { return storage->written.holds(run); };
  if (!storage->is_undefined || is_written(whole) || for_each_run(tensor, is_written)) return State::kUnknown;
  return State::kUndefined;
}

void KnownMemory::note_known(const at::Tensor& tensor) {
  if (!has_memory(tensor) || tensor.numel() == 0) return;
  note_unknown(tensor);
  Storage& storage = storages_->get(tensor);
  if (!for_each_run(tensor, [&](const Run& run) { return storage.known.add(run), true; }))
    note_written_somewhere(tensor, tensor.numel());
}

void KnownMemory::note_unknown(const at::Tensor& tensor) {
  if (!has_memory(tensor)) return;
  Storage& storage = storages_->get(tensor);
  storage.version = version_of(tensor);
  if (storage.is_undefined)
    for_each_run(tensor, [&](const Run& run) { return storage.written.add(run), true; });
}

void KnownMemory::note_written_somewhere(const at::Tensor& tensor, std::int64_t elements) {
  if (!has_memory(tensor)) return;
  Storage& storage = storages_->get(tensor);
  storage.version = version_of(tensor);
  storage.scattered += elements * static_cast<std::int64_t>(tensor.itemsize());
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  if (storage.scattered >= bytes) storage.known.add({0, bytes});
}

void KnownMemory::note_undefined(const at::Tensor& tensor) {
  if (!has_memory(tensor)) return;
  Storage& storage = storages_->get(tensor);
  storage.is_undefined = true;
  storage.version = version_of(tensor);
  storage.scattered = 0;
  storage.known.clear();
  storage.written.clear();
}

void KnownMemory::clear() { storages_->all.clear(); }

}  // namespace msprobe::torch_adapter
