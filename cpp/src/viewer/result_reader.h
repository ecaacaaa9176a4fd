// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/viewer_digest.h"

namespace msprobe::viewer {

/// A row of tb_nodes. Texts are valid UTF-8 and live until the next row.
struct ResultRow {
  std::int64_t source = 0;  // rowid
  std::string_view name, parent;
  std::int64_t order = 0;
  std::int64_t kind = 0;
  std::int64_t micro = 0;
  std::optional<double> value;
  std::string_view overflow;
  std::string_view link;  // name of the counterpart; empty: none
  std::string_view stack;
  bool has_links = false;  // to other ranks
  bool is_merged = false;
  std::string_view inputs, outputs;  // JSON
};

/// What msprobe itself has written about a node.
struct OwnRow {
  std::string_view name, counterpart, how;  // empty: none
  std::optional<double> input_ulps, weight_ulps, gradient_ulps, output_ulps;
};

/// Reads one graph of a `.vis.db` of any release. Columns that a release does not have are empty. Every
/// function throws FormatError where the file is damaged.
class ResultReader {
 public:
  explicit ResultReader(const DigestSource& source);
  ~ResultReader();
  ResultReader(const ResultReader&) = delete;
  ResultReader& operator=(const ResultReader&) = delete;

  /// Nodes of both sides.
  std::size_t count();
  bool has_own_tables() const noexcept;
  /// Whether the file says of its nodes whether they overflow.
  bool has_overflow_levels();
  /// Calls `take` for each node of a side (0: target, 1: reference), in the order of the file.
  void nodes(int side, const std::function<void(const ResultRow&)>& take);
  void own_rows(int side, const std::function<void(const OwnRow&)>& take);
  /// Each id with its JSON list of lines.
  void stacks(const std::function<void(std::string_view id, std::string_view lines)>& take);
  /// The columns input_data and output_data of the node in row `source`, until the next call.
  void cells(std::int64_t source, const std::function<void(std::string_view, std::string_view)>& take);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::viewer
