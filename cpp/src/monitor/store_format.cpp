// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "monitor/store_format.h"

#include <sqlite3.h>

#include <bit>
#include <cmath>

#include "base/non_finite.h"

namespace msprobe::monitor {
namespace {

// A quiet NaN with a payload that no arithmetic makes ("msprobe").
constexpr std::uint64_t kAbsentBits = 0x7FF8'6D73'7072'6F62;

}  // namespace

double absent() noexcept { return std::bit_cast<double>(kAbsentBits); }
bool is_absent(double value) noexcept { return std::bit_cast<std::uint64_t>(value) == kAbsentBits; }

std::string Series::key() const {
  return quantity + (metric.empty() ? "" : "." + metric) + (name.empty() ? "" : "/" + name);
}

namespace store {
Point point_of(std::span<const double> numbers) {
  Point point{kNaN, kNaN, kNaN, 0, 0};
  double sum = 0;
  for (const double number : numbers) {
    if (is_absent(number)) continue;
    if (!std::isfinite(number)) {
      ++point.bad;
      continue;
    }
    point.min = point.count == 0 || number < point.min ? number : point.min;
    point.max = point.count == 0 || number > point.max ? number : point.max;
    sum += number;
    ++point.count;
  }
  if (point.count > 0) point.mean = sum / point.count;
  return point;
}

Point together(std::span<const Point> points) {
  Point all{kNaN, kNaN, kNaN, 0, 0};
  double sum = 0;
  for (const Point& point : points) {
    all.bad += point.bad;
    if (point.count == 0) continue;
    all.min = all.count == 0 || point.min < all.min ? point.min : all.min;
    all.max = all.count == 0 || point.max > all.max ? point.max : all.max;
    sum += point.mean * point.count;
    all.count += point.count;
  }
  if (all.count > 0) all.mean = sum / all.count;
  return all;
}

void check_format(SQLite::Database& database, const std::string& file) {
  std::string found;
  try {
    SQLite::Statement query(database, "SELECT value FROM info WHERE key = 'format'");
    if (query.executeStep()) found = query.getColumn(0).getString();
  } catch (const SQLite::Exception& error) {
    if (error.getErrorCode() == SQLITE_BUSY || error.getErrorCode() == SQLITE_CANTOPEN) throw;
    throw FormatError(file, "", std::string("expected a record of the monitor: ") + error.what());
  }
  if (found != kFormat) {
    throw FormatError(file, "",
                      "expected a record of the monitor in format " + std::string(kFormat) + ", found " +
                          (found.empty() ? "none" : "format " + found));
  }
}

}  // namespace store
}  // namespace msprobe::monitor
