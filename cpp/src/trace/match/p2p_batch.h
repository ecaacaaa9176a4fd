// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// One entry of the list that batch_isend_irecv was given.
struct PeerOperation {
  std::size_t index = 0;  // in the list
  bool is_send = false;
  int peer = 0;
  int tag = 0;
  std::string group;  // group_id; empty: none
};

/// Reads the operations of the record from the file, as the Trace has no place for them. Those without a
/// peer, or with another name than isend and irecv, are left out. Throws IoError, FormatError.
std::vector<PeerOperation> read_peer_operations(const std::filesystem::path& path, const Record& record);

}  // namespace msprobe::trace
