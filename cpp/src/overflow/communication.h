// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/trace_reader.h"
#include "overflow/bad_value.h"

/// What the records of torch.distributed say: who sent what to whom, and whether it was bad.
namespace msprobe::overflow {

/// How data moves in one call.
enum class Pattern : std::uint8_t {
  kSend,
  kReceive,
  kFromOne,  // broadcast, scatter: one source
  kToOne,    // reduce, gather: one destination
  kAll,      // everybody sends and receives
};

/// Numbers of the lists of ranks that one rank names.
using GroupId = std::int32_t;
inline constexpr GroupId kAllRanks = -1;
inline constexpr int kAnyRank = -1;

/// One movement of data that a call takes part in. Most calls have one; batch_isend_irecv has several.
struct Transfer {
  Badness sent = Badness::kGood;      // what this rank gives
  Badness received = Badness::kGood;  // what this rank has afterwards
  Pattern pattern = Pattern::kAll;
  bool is_fill = false;          // what is bad in `sent` was written on purpose
  std::int32_t peer = kAnyRank;  // the other side, or the one source or destination
  GroupId group = kAllRanks;
  std::int32_t tag = 0;
  std::uint32_t function = 0;  // the same number for the same function
  std::uint32_t flow = 0;      // number in the Flows of all ranks
};

/// A call of torch.distributed that moves data.
struct Communication {
  std::uint32_t record = 0;  // its number in the dump of the rank
  std::uint32_t first_transfer = 0;
  std::uint32_t transfer_count = 0;
  std::uint32_t name_begin = 0;  // in the names of the rank
  std::uint32_t name_size = 0;
  std::uint32_t begin = 0;  // bytes of its record in the file
  std::uint32_t end = 0;
};

/// Whether a record is one.
bool is_communication(std::string_view record) noexcept;

/// Reads the records of one rank in their order, and keeps the lists of ranks that they name.
class CommunicationReader {
 public:
  explicit CommunicationReader(const trace::Trace& trace) : trace_(trace) {}

  /// Appends the transfers of `record`, which is a communication.
  void read(const trace::Record& record, std::vector<Transfer>& out);

  /// By GroupId.
  std::vector<std::vector<int>> take_groups() { return std::move(groups_); }

 private:
  struct Arguments;
  void read_batch(const trace::Record& record, std::vector<Transfer>& out);
  GroupId group_of(const Arguments& arguments);
  std::int32_t peer_of(const Arguments& arguments, bool is_source, int position, GroupId group) const;

  const trace::Trace& trace_;
  std::map<std::string, GroupId, std::less<>> ids_;
  std::vector<std::vector<int>> groups_;
};

}  // namespace msprobe::overflow
