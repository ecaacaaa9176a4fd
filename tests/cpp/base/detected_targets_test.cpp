// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "base/kernel_targets.h"
#include "catch.h"

// Those that are asked for; the installed library may be of another version, and know others.
#if HWY_ARCH_X86
constexpr std::int64_t kSets = HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3;
#else
constexpr std::int64_t kSets = HWY_NEON;
#endif

TEST_CASE("detected targets: what everything is compiled for is among them") {
  CHECK((hwy::SupportedTargets() & HWY_STATIC_TARGET) != 0);
}

TEST_CASE("detected targets: as Highway's own library says, where it is installed") {
  void* library = dlopen("libhwy.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  using Function = std::int64_t (*)();
  const auto theirs = reinterpret_cast<Function>(dlsym(library, "_ZN3hwy16SupportedTargetsEv"));
  REQUIRE(theirs != nullptr);
  REQUIRE(theirs != static_cast<Function>(hwy::SupportedTargets));
  CHECK((hwy::SupportedTargets() & kSets) == (theirs() & kSets));
  dlclose(library);
}
