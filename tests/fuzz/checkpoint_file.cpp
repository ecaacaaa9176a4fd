// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_walk.h"
#include "fuzz_target.h"

using namespace msprobe::fuzz;

// A file of torch.save, of any age, as a checkpoint.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile memory;
  memory.write(data, size);
  refuse_or([&] { walk_checkpoint(memory.path(), size); });
  return 0;
}
