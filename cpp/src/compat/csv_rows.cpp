// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The csv files of mindstudio-probe: docs/formats/monitor.md.

#include <cmath>

#include "base/non_finite.h"
#include "base/shape_text.h"
#include "io/table/csv_text.h"
#include "msprobe/error.h"
#include "msprobe/table.h"
#include "msprobe/trainer_mon.h"

namespace msprobe::monitor {
namespace {

// To so many decimals, halves to even, as NumPy does it.
double rounded(double value, int digits) {
  constexpr double kNoDecimals = 0x1p52;
  if (!std::isfinite(value) || std::abs(value) >= kNoDecimals) return value;
  const double scale = std::pow(10.0, digits);
  const double result = std::nearbyint(value * scale) / scale;
  return std::isfinite(result) ? result : value;
}

// One column behind the names and steps.
struct Column {
  enum class What : std::uint8_t { kMetric, kItem, kShape, kDType };
  std::string_view op;
  What what;
  const Metric* metric = nullptr;

  explicit Column(std::string_view of) : op(of) {
    if (op == "shape") {
      what = What::kShape;
    } else if (op == "dtype") {
      what = What::kDType;
    } else if (op == "id") {
      what = What::kItem;
    } else {
      what = What::kMetric;
      metric = find_metric(Kind::kTensor, op);
      if (metric == nullptr) {
        throw InvalidArgument("monitor: expected the name of a statistic, found \"" + std::string(op) + '"');
      }
    }
  }

  double number(const Row& row) const {
    if (row.missing) return kNaN;
    for (const auto& [name, value] : row.given) {
      if (name == op) return value;
    }
    if (!row.given.empty()) return kNaN;
    if (what == What::kMetric) return metric->value(row);
    return what == What::kItem && row.has_no_dimensions() ? row.sums.sum : kNaN;
  }

  void append(std::string& text, const Row& row, const CsvOptions& options) const {
    const bool has_no_tensor = row.missing || (!row.given.empty() && metric == nullptr);
    if (has_no_tensor) {
      text += "nan";
    } else if (what == What::kShape) {
      io::csv::append_cell(text, shape_text(row.shape));
    } else if (what == What::kDType) {
      if (options.qualifies_dtypes) text += "torch.";
      text += options.qualifies_dtypes ? dtype_name(row.dtype) : capitalised_dtype_name(row.dtype);
    } else {
      const double value = number(row);
      if (metric != nullptr && metric->integral && std::isfinite(value)) {
        text += std::to_string(static_cast<std::int64_t>(value));
      } else {
        io::append_double(text, rounded(value, options.digits));
      }
    }
  }
};

}  // namespace

double scalar(const Row& row, std::string_view op) {
  const Column column(op);
  if (column.what == Column::What::kShape || column.what == Column::What::kDType) {
    throw InvalidArgument("monitor: \"" + std::string(op) + "\" is no number");
  }
  return column.number(row);
}

std::string csv_header(const CsvOptions& options) {
  std::string text = options.micro_steps ? "vpp_stage,name,step,micro_step" : "vpp_stage,name,step";
  for (const std::string& op : options.ops) text.append(",").append(op);
  return text + "\n";
}

std::string csv_rows(std::span<const Row> rows, const Labels& labels, std::int64_t step,
                     const CsvOptions& options) {
  std::vector<Column> columns;
  columns.reserve(options.ops.size());
  for (const std::string& op : options.ops) columns.emplace_back(op);
  const std::string step_text = std::to_string(step);
  const std::vector<Label> all = labels.all();
  std::string text;
  for (const Row& row : rows) {
    const Label& label = row.label < all.size() ? all[row.label] : labels.at(row.label);  // throws
    text.append(std::to_string(label.stage)).append(",");
    io::csv::append_cell(text, label.name);
    text.append(",").append(step_text);
    if (options.micro_steps) text.append(",").append(std::to_string(row.micro_step));
    for (const Column& column : columns) {
      text += ',';
      column.append(text, row, options);
    }
    text += '\n';
  }
  return text;
}

}  // namespace msprobe::monitor
