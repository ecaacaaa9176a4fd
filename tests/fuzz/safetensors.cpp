// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/safetensors.h"

#include "fuzz_target.h"

using namespace msprobe::fuzz;
namespace io = msprobe::io;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile memory;
  memory.write(data, size);
  refuse_or([&] {
    const io::SafetensorsFile file = io::SafetensorsFile::open(memory.path());
    std::size_t bytes = 0;
    for (const io::SafetensorsTensor& tensor : file.tensors()) {
      bytes += tensor.data.size();
      if (!tensor.data.empty()) promise(tensor.data.front() + tensor.data.back() >= 0, "data can be read");
      if (!tensor.dtype) continue;
      const auto count = msprobe::element_count({nullptr, *tensor.dtype, tensor.shape, {}});
      promise(static_cast<std::size_t>(count) * element_size(*tensor.dtype) == tensor.data.size(),
              "data has the size of shape and dtype");
    }
    promise(bytes < size, "the data lies in the file");
  });
  return 0;
}
