// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <system_error>

#include "msprobe/file.h"
#include "msprobe/grad_probe.h"
#include "msprobe/log.h"
#include "msprobe/table.h"

namespace msprobe::grad_probe {
namespace {

// mindstudio-probe writes the integer 0 for an empty tensor.
std::string value_text(const Similarity& similarity) {
  const bool empty = similarity.state == Similarity::State::kCompared && similarity.count == 0;
  return empty ? "0" : io::format_double(similarity.value());
}

}  // namespace

double Similarity::value() const noexcept {
  if (state != State::kCompared) return std::numeric_limits<double>::quiet_NaN();
  return count == 0 ? 0.0 : static_cast<double>(equal) / static_cast<double>(count);
}

Similarity Comparison::summary(std::size_t step) const {
  Similarity total;
  for (std::size_t name = 0; name < names.size(); ++name) {
    const Similarity& cell = at(name, step);
    if (cell.state == Similarity::State::kCompared) {
      total.state = Similarity::State::kCompared;
      total.equal += cell.equal;
      total.count += cell.count;
    } else if (cell.state == Similarity::State::kMissing && total.state == Similarity::State::kAbsent) {
      total.state = Similarity::State::kMissing;
    }
  }
  return total;
}

void write_similarities(const Comparison& comparison, const std::filesystem::path& path) {
  io::CsvWriter csv;
  io::Row row{"step"};
  for (const std::int64_t step : comparison.steps) row.push_back(std::to_string(step));
  csv.add(row);
  for (std::size_t name = 0; name < comparison.names.size(); ++name) {
    row.assign(1, comparison.names[name]);
    for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
      row.push_back(value_text(comparison.at(name, step)));
    }
    csv.add(row);
  }
  row.assign(1, "summary");
  for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
    row.push_back(value_text(comparison.summary(step)));
  }
  csv.add(row);

  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    log(LogLevel::kWarning, path.string() + " exists and is replaced");
  io::write_file(path, csv.text());
}

}  // namespace msprobe::grad_probe
