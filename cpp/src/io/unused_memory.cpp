// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/unused_memory.h"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace msprobe::io {

void give_back_unused([[maybe_unused]] std::string& text) noexcept {
#ifdef __linux__
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(text.data());
  const std::uintptr_t first = (begin + text.size() + 1 + page - 1) / page * page;  // the NUL stays
  const std::uintptr_t last = (begin + text.capacity() + 1) / page * page;
  // What is there reads as zeros afterwards, and is not looked at before it is written again.
  if (first < last) madvise(text.data() + (first - begin), last - first, MADV_DONTNEED);
#endif
}

}  // namespace msprobe::io
