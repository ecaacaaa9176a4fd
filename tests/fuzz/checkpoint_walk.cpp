// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_walk.h"

#include "fuzz_target.h"
#include "msprobe/checkpoint.h"
#include "msprobe/tensor_view.h"

namespace msprobe::fuzz {

void walk_checkpoint(const std::filesystem::path& path, std::size_t bytes) {
  namespace checkpoint = msprobe::checkpoint;
  const checkpoint::OpenOptions options{{.renamings = {{"encoder", "decoder", "decoder."}},
                                         .merges = {},
                                         .vocabulary = {"*"},
                                         .ignored = {"*_extra_state"}},
                                        true};
  const auto opened = checkpoint::Checkpoint::open(path, options);
  for (const checkpoint::Parameter& one : opened.parameters()) {
    const auto size = static_cast<std::size_t>(element_count({nullptr, one.dtype, one.shape, {}})) *
                      element_size(one.dtype);
    promise(size <= bytes, "a parameter is not larger than its file");
  }
  constexpr std::size_t kMostWork = 1 << 22;
  if (opened.bytes() > kMostWork) return;
  checkpoint::Pairing pairing = checkpoint::pair(opened, opened, options.rules);
  checkpoint::measure(opened, opened, pairing, {.threads = 1, .hash = true});
  const auto hashes = checkpoint::hash_parameters(opened, {.threads = 1});
  for (const checkpoint::Row& row : pairing.rows) {
    promise(row.difference.equal_bits == row.difference.count, "a checkpoint equals itself");
    promise(row.reference_hash == hashes[row.reference], "a hash does not depend on how it was computed");
  }
}

}  // namespace msprobe::fuzz
