// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// What Highway's headers want of its library: which instruction sets this processor has, and the one that is
// in use. It stands here so that only the headers of Highway are needed. Linux distributions have its library
// as a shared one only, and then each wheel and each program with libmsprobe would depend on a package of the
// system, or on a copy of it, for these few lines (docs/adr/0004).
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/kernel_targets.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace hwy {
namespace {

#if HWY_ARCH_X86
// The two that not every compiler knows by name in __builtin_cpu_supports.
bool has_lzcnt_and_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1U << 29)) != 0;
  const bool lzcnt = __get_cpuid(0x80000001U, &a, &b, &c, &d) != 0 && (c & (1U << 5)) != 0;
  return f16c && lzcnt;
}

// A set counts when the processor and the operating system have all that Highway compiles it with; each wants
// the one before. What is newer than the AVX-512 of Skylake gains these kernels nothing.
std::int64_t detected() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("ssse3")) return 0;
  std::int64_t sets = HWY_SSSE3;
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("aes") ||
      !__builtin_cpu_supports("pclmul")) {
    return sets;
  }
  sets |= HWY_SSE4;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2") || !has_lzcnt_and_f16c()) {
    return sets;
  }
  sets |= HWY_AVX2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512bw")) {
    return sets;
  }
  return sets | HWY_AVX3;
}
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
// Highway compiles NEON with the instructions for AES.
std::int64_t detected() { return (getauxval(AT_HWCAP) & HWCAP_AES) != 0 ? HWY_NEON : 0; }
#else
std::int64_t detected() { return 0; }
#endif

}  // namespace

// What everything is compiled for is there in any case.
std::int64_t SupportedTargets() {
  static const std::int64_t sets = detected() | HWY_STATIC_TARGET;
  return sets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

// Called by Highway's own assertions, which only builds for debugging and for sanitizers have.
// NOLINTNEXTLINE(modernize-avoid-variadic-functions): so it is declared
void Abort(const char* file, int line, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "%s:%d: ", file, line);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}

}  // namespace hwy
