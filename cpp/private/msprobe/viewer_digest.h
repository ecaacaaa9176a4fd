// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What questions about a whole graph need, in a small database of its own.

#include <cstddef>
#include <filesystem>
#include <functional>

#include "msprobe/export.h"

namespace msprobe::viewer {

/// Changes with what a digest holds.
inline constexpr int kDigestFormat = 6;

/// One step and rank of a `.vis.db` of mindstudio-probe or of msprobe.
struct DigestSource {
  std::filesystem::path path;  // read only, as it is: a log beside it is not looked at
  int step = 0;
  int rank = 0;
};

/// Told of the nodes that were read and all of them; false ends the work with InvalidArgument.
using DigestProgress = std::function<bool(std::size_t, std::size_t)>;

/// Writes the digest of both sides of one graph to `path`, which must not be there or be empty.
///
/// Tables: `node` (a row for each node: `side` 0 is the target, 1 the reference; `pos` counts in post-order,
/// children before parents, so that the nodes below one are those from `first` to `pos`; a node whose parent
/// does not exist, a second root, and what hangs below itself, hang below the root; `overflow` 0 to 3, none
/// to critical, of a file without an overflow check by NaN and infinities in its statistics), `shape` (dtypes
/// and shapes of a node) and `stack`, each text once, `flow` (the marks of tensors that some node gives and
/// another receives), `series` (a column of `node` again, as one array in the order of `pos`), `own` (empty:
/// for values of users).
///
/// Throws FormatError with a sentence for people where the file is damaged or no result, IoError where
/// the digest cannot be written.
MSPROBE_API void write_digest(const DigestSource& source, const std::filesystem::path& path,
                              const DigestProgress& progress = {});

}  // namespace msprobe::viewer
