// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "checkpoint_walk.h"
#include "fuzz_target.h"
#include "msprobe/file.h"
#include "msprobe/pt_file.h"

using namespace msprobe::fuzz;

// The description of a distributed checkpoint, beside a file with two small tensors.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFolder folder;
  static const std::size_t parts = [] {
    constexpr float kValues[6] = {1, 2, 3, 4, 5, 6};
    const std::int64_t shape[2] = {2, 3};
    const std::string part = msprobe::io::pt_bytes({kValues, msprobe::DType::kFloat32, shape, {}});
    msprobe::io::write_file(folder.path() / "__0_0.distcp", part + part);
    return 2 * part.size();
  }();
  msprobe::io::write_file(folder.path() / ".metadata", as_text(data, size));
  refuse_or([&] { walk_checkpoint(folder.path(), parts); });
  return 0;
}
