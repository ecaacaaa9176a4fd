// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_targets.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "msprobe/log.h"

namespace msprobe {
namespace {

// The instruction sets that are compiled in, that this processor has and that may be used, best in the lowest
// bit.
std::int64_t usable_targets() {
  const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  const char* wanted = std::getenv("MSPROBE_INSTRUCTION_SET");
  if (wanted == nullptr) return all;
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    if (std::strcmp(hwy::TargetName(target), wanted) == 0) return target;
  }
  log(LogLevel::kWarning, std::string("MSPROBE_INSTRUCTION_SET: this processor or build has no ") + wanted);
  return all;
}

}  // namespace

std::string_view use_best_instruction_set() {
  static const std::string_view name = [] {
    const std::int64_t targets = usable_targets();
    hwy::GetChosenTarget().Update(targets);
    return hwy::TargetName(targets & -targets);
  }();
  return name;
}

}  // namespace msprobe
