// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "stats/kernels.h"

#include "base/kernel_targets.h"

namespace msprobe::stats {

const Kernels& kernels() {
  static const Kernels chosen = [] {
    Kernels table{};
    table.instruction_set = use_best_instruction_set();
    add_float_kernels(table);
    add_half_kernels(table);
    add_element_kernels(table);
    add_pair_kernels(table);
    add_sketch_kernels(table);
    return table;
  }();
  return chosen;
}

}  // namespace msprobe::stats
