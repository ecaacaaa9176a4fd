// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

#include <cstdint>

namespace msprobe {

/// The bits that make the processor take denormals for zeros: of MXCSR "denormals are zero" and "flush to
/// zero", of Arm's FPCR "flush to zero" and the same for half precision.
#if defined(__x86_64__) || defined(__i386__)
inline constexpr std::uint64_t kFlushBits = 0x8040;
inline std::uint64_t float_control() noexcept { return _mm_getcsr(); }
inline void set_float_control(std::uint64_t bits) noexcept { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
inline constexpr std::uint64_t kFlushBits = 1U << 24 | 1U << 19;
inline std::uint64_t float_control() noexcept {
  std::uint64_t bits;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
// "memory": what is calculated behind it is not moved in front of it.
inline void set_float_control(std::uint64_t bits) noexcept {
  asm volatile("msr fpcr, %0" : : "r"(bits) : "memory");
}
#else
#error "float_environment.h: how are denormals kept on this processor?"
#endif

/// Turns flush-to-zero and denormals-are-zero off while it lives. A training program may have them on for
/// speed (torch.set_flush_denormal); statistics then would count denormals as zeros on that thread and not on
/// others.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept : saved_(float_control()) {
    if (saved_ & kFlushBits) set_float_control(saved_ & ~kFlushBits);
  }
  ~FloatEnvironment() {
    if (saved_ & kFlushBits) set_float_control(saved_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint64_t saved_;
};

}  // namespace msprobe
