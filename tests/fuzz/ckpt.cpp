// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "fuzz_target.h"
#include "msprobe/ckpt_file.h"

using namespace msprobe::fuzz;
namespace io = msprobe::io;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile memory;
  memory.write(data, size);
  refuse_or([&] {
    const io::CkptFile file = io::CkptFile::open(memory.path());
    for (const io::SafetensorsTensor& tensor : file.tensors()) {
      if (!tensor.data.empty()) promise(tensor.data.front() + tensor.data.back() >= 0, "data can be read");
      if (!tensor.dtype) continue;
      const auto count = msprobe::element_count({nullptr, *tensor.dtype, tensor.shape, {}});
      promise(static_cast<std::size_t>(count) * element_size(*tensor.dtype) == tensor.data.size(),
              "data has the size of shape and dtype");
    }
  });
  return 0;
}
