// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "stats/kernels.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "msprobe/log.h"
#include "stats/kernel_targets.h"

namespace msprobe::stats {
namespace {

// The instruction sets that are compiled in and that this processor has, best in the lowest bit. The
// environment variable MSPROBE_INSTRUCTION_SET ("AVX2") leaves only the one of that name, to look for a fault
// in one of them.
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

const Kernels& kernels() {
  static const Kernels chosen = [] {
    const std::int64_t targets = usable_targets();
    hwy::GetChosenTarget().Update(targets);
    Kernels table{};
    add_float_kernels(table);
    add_half_kernels(table);
    add_element_kernels(table);
    table.instruction_set = hwy::TargetName(targets & -targets);
    return table;
  }();
  return chosen;
}

}  // namespace msprobe::stats
