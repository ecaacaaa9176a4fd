// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The tables of a store: docs/formats/monitor_store.md.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/error.h"
#include "msprobe/monitor.h"

namespace msprobe::monitor::store {

inline constexpr std::string_view kFormat = "1";

/// How long another process may keep one that reads or writes waiting.
inline constexpr int kBusyMilliseconds = 5000;

/// Steps of a block: so many rows of `recent` become a column for each series.
inline constexpr std::int64_t kBlock = 1024;
/// Steps of a point of `fine`; a point of `coarse` is a block.
inline constexpr std::int64_t kFine = 32;
inline constexpr std::int64_t kFineOfBlock = kBlock / kFine;
/// Blocks whose points are in one row of `coarse`.
inline constexpr std::int64_t kCoarse = 1024;
static_assert(kBlock % kFine == 0);

inline constexpr std::string_view kTables = R"(
CREATE TABLE info (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    key TEXT UNIQUE NOT NULL,
    quantity TEXT NOT NULL,
    metric TEXT NOT NULL,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    layer INTEGER NOT NULL,
    unit TEXT NOT NULL
);
CREATE TABLE recent (row INTEGER PRIMARY KEY, step INTEGER NOT NULL, numbers BLOB NOT NULL);
CREATE TABLE blocks (block INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, steps BLOB NOT NULL);
CREATE TABLE columns (
    series INTEGER, block INTEGER, numbers BLOB NOT NULL, PRIMARY KEY (series, block)
) WITHOUT ROWID;
CREATE TABLE fine (
    series INTEGER, block INTEGER, points BLOB NOT NULL, PRIMARY KEY (series, block)
) WITHOUT ROWID;
CREATE TABLE coarse (
    series INTEGER, part INTEGER, points BLOB NOT NULL, PRIMARY KEY (series, part)
) WITHOUT ROWID;
)";

/// A point as it is on disk: 32 bytes, in the byte order of the machine (little endian).
struct Point {
  double min;
  double max;
  double mean;
  std::uint32_t count;
  std::uint32_t bad;
};
static_assert(sizeof(Point) == 32);

/// Of numbers that follow each other.
Point point_of(std::span<const double> numbers);
/// Of points that follow each other.
Point together(std::span<const Point> points);

/// The content of a blob; throws FormatError, naming the file, where its size is no multiple of that of T.
template <typename T>
std::vector<T> read_blob(const SQLite::Column& column, const std::string& file) {
  const auto bytes = static_cast<std::size_t>(column.getBytes());
  if (bytes % sizeof(T) != 0) {
    throw FormatError(file, "",
                      "expected numbers of " + std::to_string(sizeof(T)) + " bytes, found " +
                          std::to_string(bytes) + " bytes");
  }
  std::vector<T> content(bytes / sizeof(T));
  if (bytes > 0) std::memcpy(content.data(), column.getBlob(), bytes);
  return content;
}

template <typename T>
void bind_blob(SQLite::Statement& statement, int index, std::span<const T> content) {
  statement.bindNoCopy(index, content.empty() ? static_cast<const void*>("") : content.data(),
                       static_cast<int>(content.size_bytes()));
}

/// Throws FormatError when the file is no store of this format.
void check_format(SQLite::Database& database, const std::string& file);

}  // namespace msprobe::monitor::store
