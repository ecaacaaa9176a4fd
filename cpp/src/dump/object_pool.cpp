// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "dump/object_pool.h"

#include <sys/mman.h>

#include <array>
#include <mutex>
#include <new>
#include <utility>

namespace msprobe::dump {
namespace {

constexpr std::size_t kStep = 32;  // sizes are rounded up to a multiple of it
constexpr std::size_t kLargest = 1024;
constexpr std::size_t kSlabBytes = std::size_t{256} << 10;

struct Free {
  Free* next;
};

// Objects of one size.
struct Shelf {
  std::mutex mutex;
  Free* free = nullptr;
  std::byte* fresh = nullptr;  // never used so far, up to `end`
  std::byte* end = nullptr;

  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    if (free != nullptr) {
      Free* object = free;
      free = object->next;
      return object;
    }
    if (std::cmp_less(end - fresh, bytes)) {
      void* slab = ::mmap(nullptr, kSlabBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (slab == MAP_FAILED) throw std::bad_alloc();
      fresh = static_cast<std::byte*>(slab);
      end = fresh + kSlabBytes;
    }
    void* object = fresh;
    fresh += bytes;
    return object;
  }

  void give_back(void* object) noexcept {
    const std::lock_guard lock(mutex);
    free = ::new (object) Free{free};
  }
};

// Never destroyed: graphs may outlive everything else of a process.
Shelf& shelf_of(std::size_t bytes) {
  static auto& shelves = *new std::array<Shelf, kLargest / kStep>;
  return shelves[(bytes - 1) / kStep];
}

}  // namespace

void* ObjectPool::take(std::size_t bytes) {
  if (bytes == 0 || bytes > kLargest) return ::operator new(bytes);
  return shelf_of(bytes).take((bytes + kStep - 1) / kStep * kStep);
}

void ObjectPool::give_back(void* object, std::size_t bytes) noexcept {
  if (bytes == 0 || bytes > kLargest) return ::operator delete(object);
  shelf_of(bytes).give_back(object);
}

}  // namespace msprobe::dump
