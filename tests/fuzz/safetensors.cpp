// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/safetensors.h"

#include "stored_tensors.h"

using namespace msprobe::fuzz;
namespace io = msprobe::io;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile memory;
  memory.write(data, size);
  refuse_or([&] {
    const io::SafetensorsFile file = io::SafetensorsFile::open(memory.path());
    promise(check_stored(file.tensors()) < size, "the data lies in the file");
  });
  return 0;
}
