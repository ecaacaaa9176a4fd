// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace msprobe {

/// Turns flush-to-zero and denormals-are-zero off while it lives. A training program may have them on for
/// speed (torch.set_flush_denormal); statistics then would count denormals as zeros on that thread and not on
/// others.
class FloatEnvironment {
 public:
#if defined(__x86_64__) || defined(__i386__)
  FloatEnvironment() noexcept : saved_(_mm_getcsr()) {
    if (saved_ & kFlushBits) _mm_setcsr(saved_ & ~kFlushBits);
  }
  ~FloatEnvironment() {
    if (saved_ & kFlushBits) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kFlushBits = 0x8040;
  unsigned saved_;
#else
  FloatEnvironment() noexcept {}
#endif
 public:
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
};

}  // namespace msprobe
