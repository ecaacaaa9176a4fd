// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/ckpt_file.h"
#include "stored_tensors.h"

using namespace msprobe::fuzz;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile memory;
  memory.write(data, size);
  refuse_or([&] { check_stored(msprobe::io::CkptFile::open(memory.path()).tensors()); });
  return 0;
}
