// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/summary_table.h"

#include "base/convert.h"
#include "base/crc32_text.h"
#include "base/shape_text.h"
#include "msprobe/table.h"

namespace msprobe::grad_probe {
namespace {

// A statistic goes through float32; then the shortest text of the double that holds it.
std::string float_text(double value) {
  return io::format_double(static_cast<double>(static_cast<float>(value)));
}

std::string extreme_text(const std::optional<double>& value) { return value ? float_text(*value) : "nan"; }

std::string share_text(std::int64_t count, std::int64_t total) {
  return total == 0 ? "0" : io::format_double(static_cast<double>(count) / static_cast<double>(total));
}

std::string interval_header(const std::vector<Bound>& bounds, std::size_t i) {
  return (i == 0 ? "(-inf, " : "(" + bounds[i - 1].label + ", ") +
         (i == bounds.size() ? "inf)" : bounds[i].label + "]");
}

std::vector<Column> interval_columns(const std::vector<Bound>& bounds) {
  std::vector<Column> result;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    result.push_back({interval_header(bounds, i), [i](const Measurement& m) {
                        return share_text(m.summary.interval_counts.at(i), m.summary.count);
                      }});
  }
  result.push_back(
      {"=0", [](const Measurement& m) { return share_text(m.summary.zero_count, m.summary.count); }});
  return result;
}

}  // namespace

std::vector<Column> columns(const Options& options) {
  std::vector<Column> result;
  result.push_back({"param_name", [](const Measurement& m) { return m.name; }});
  if (options.level == Level::kL0) {
    // mindstudio-probe's name for a CRC-32.
    result.push_back({"MD5", [](const Measurement& m) { return crc32_text(m.summary.crc32.value()); }});
  }
  if (options.level == Level::kL2) {
    for (Column& column : interval_columns(options.bounds)) result.push_back(std::move(column));
  }
  result.push_back({"max", [](const Measurement& m) { return extreme_text(m.summary.max); }});
  result.push_back({"min", [](const Measurement& m) { return extreme_text(m.summary.min); }});
  result.push_back(
      // In the dtype of the gradient, as frameworks answer.
      {"norm", [](const Measurement& m) { return float_text(rounded_to_half(m.summary.norm, m.dtype)); }});
  result.push_back({"shape", [](const Measurement& m) { return shape_text(m.shape); }});
  return result;
}

std::string summary_csv(const Options& options, std::span<const Measurement> measurements) {
  const std::vector<Column> table = columns(options);
  io::CsvWriter csv;
  io::Row row(table.size());
  for (std::size_t c = 0; c < table.size(); ++c) row[c] = table[c].header;
  csv.add(row);
  for (const Measurement& measurement : measurements) {
    for (std::size_t c = 0; c < table.size(); ++c) row[c] = table[c].cell(measurement);
    csv.add(row);
  }
  return csv.text();
}

}  // namespace msprobe::grad_probe
