// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace msprobe::trace {

/// While it lives, these addresses may be of a file that another program cuts: touching what is gone would
/// end the process with SIGBUS, and so the training that is recorded. In place of that the page becomes
/// memory that is zero. Other faults go to whoever was there before.
///
/// The handler of the signal is installed with the first guard and again where somebody replaced it. There
/// are at most 256 guards; those beyond do nothing. Thread-safe.
class MappingGuard {
 public:
  MappingGuard(char* base, std::size_t bytes) noexcept;
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

 private:
  int slot_ = -1;
};

/// Whether something was gone of what a guard keeps that begins where `mapped` does, or is now: the first
/// page goes with every cut, so it is looked at.
bool was_cut(std::string_view mapped) noexcept;

}  // namespace msprobe::trace
