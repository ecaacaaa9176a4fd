// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/pt_file.h"

#include "fuzz_target.h"
#include "pt_walk.h"

using namespace msprobe::fuzz;
namespace io = msprobe::io;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile memory;
  memory.write(data, size);
  refuse_or([&] {
    const io::PtFile file = io::PtFile::open(memory.path());
    walk(file.root(), size);
  });
  refuse_or([&] {
    const io::PtTensorFile file = io::read_pt_tensor(memory.path());
    promise(file.tensor().data == file.view().data, "the view shows the tensor");
  });
  return 0;
}
