// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/overflow.h"
#include "overflow/communication.h"

namespace msprobe::overflow {

/// A call that may be an origin.
struct Candidate {
  std::uint32_t record = 0;  // its number in the dump of the rank
  Cause cause = Cause::kComputed;
  std::string name;
  std::string reason;
  std::uint64_t begin = 0;  // bytes of its record in the file
  std::uint64_t end = 0;
};

/// What the analysis keeps of the dump of one rank. Its calls fall into segments: segment i lies before
/// communication i, the last one behind all communications.
struct RankSummary {
  int rank = 0;
  std::filesystem::path directory;
  std::string problem;  // why dump.json could not be read; empty: it was

  std::size_t record_count = 0;
  bool has_statistics = false;
  std::vector<Communication> communications;
  std::vector<Transfer> transfers;
  std::vector<std::vector<int>> groups;  // by Transfer::group
  std::string names;                     // of the communications, one after the other

  /// The first of each segment that made bad values of good ones, or was given a bad scalar or parameter.
  std::vector<std::pair<std::size_t, Candidate>> makers;
  /// The first call with a bad tensor both in and out, before anything bad arrived from other ranks.
  std::optional<Candidate> outside;
  std::optional<Candidate> gradient;  // the first bad gradient of a parameter
  std::string first_fill;             // the first call that wrote an infinity on purpose
  std::size_t fill_count = 0;

  std::string_view name(const Communication& communication) const noexcept {
    return std::string_view(names).substr(communication.name_begin, communication.name_size);
  }
  const Candidate* maker_in(std::size_t segment) const noexcept;
  /// The maker nearest before communication `number`, segment 0 included; null: none.
  const Candidate* maker_before(std::size_t number) const noexcept;
};

/// Reads dump.json of a rank. Throws IoError, FormatError, UnsupportedError.
RankSummary summarize_rank(int rank, const std::filesystem::path& directory);

}  // namespace msprobe::overflow
