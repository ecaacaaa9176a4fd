// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <deque>
#include <limits>
#include <span>

#include "compare/item_text.h"
#include "msprobe/compare.h"
#include "msprobe/sheet.h"
#include "msprobe/table.h"
#include "trace/python_text.h"

namespace msprobe::compare {
namespace {

using io::Cell;
using trace::ItemPair;
using trace::Scalar;

constexpr std::string_view kNotApplicable = "N/A";

// ---- Columns

constexpr std::string_view kStackColumn = "NPU_Stack_Info";
constexpr std::string_view kMatchColumn = "Match";

std::vector<std::string_view> columns(const DumpPair& pair) {
  std::vector<std::string_view> names = {"NPU Name",    "Bench Name",       "NPU Dtype",
                                         "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"};
  const auto add = [&names](std::initializer_list<std::string_view> more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  const auto add_statistics = [&add] {
    add({"NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean",
         "Bench l2norm"});
  };
  if (pair.mode == Mode::kMd5) {
    add({"NPU MD5", "BENCH MD5", "Result"});
  } else if (pair.mode == Mode::kStatistics) {
    add({"Max diff", "Min diff", "Mean diff", "L2norm diff", "MaxRelativeErr", "MinRelativeErr",
         "MeanRelativeErr", "NormRelativeErr"});
    add_statistics();
    add({"Result", "Err_message"});
  } else {
    add({"Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio",
         "Five Thousandths Err Ratio"});
    add_statistics();
    add({"Accuracy Reached or Not", "Err_message"});
  }
  if (pair.stacks) add({kStackColumn});
  if (pair.mode == Mode::kRealData) add({"Data_name"});
  add({kMatchColumn});
  return names;
}

std::string_view reason_text(trace::NoMatchReason reason) {
  switch (reason) {
    case trace::NoMatchReason::kNoRecord: return "none: no such call";
    case trace::NoMatchReason::kNoItem: return "none: the call has no such item";
    case trace::NoMatchReason::kShape: return "none: another shape";
    case trace::NoMatchReason::kDtype: return "none: a dtype that is not compared";
    case trace::NoMatchReason::kMatched: break;
  }
  return "";
}

// ---- Cells

// The cells of one row. Texts that are made for it live until the next one.
class RowCells {
 public:
  void clear() {
    cells_.clear();
    used_ = 0;
  }
  std::span<const Cell> cells() const noexcept { return cells_; }

  void add(std::string_view text) { cells_.push_back(text.empty() ? Cell() : Cell(text)); }
  std::string& make_text() {
    if (used_ == texts_.size()) texts_.emplace_back();
    texts_[used_].clear();
    return texts_[used_++];
  }
  void add_made(const std::string& text) { add(std::string_view(text)); }

  // NaN and infinities are texts in the format.
  void add(double number) {
    if (std::isfinite(number)) {
      cells_.push_back(number);
    } else {
      add(std::isnan(number) ? "Nan" : number > 0 ? "inf\t" : "-inf\t");
    }
  }
  void add(const Metric& metric) {
    switch (metric.state) {
      case Metric::State::kNumber: return add(metric.value);
      case Metric::State::kNan: return add("Nan");
      case Metric::State::kUnsupported: return add("unsupported");
      case Metric::State::kNotApplicable: return add(kNotApplicable);
      case Metric::State::kShapeUnmatched: return add("shape unmatched");
    }
  }
  void add(const trace::Trace& trace, const Scalar& scalar) {
    const std::string_view text = trace.text(scalar);
    if (scalar.kind == Scalar::Kind::kAbsent || scalar.kind == Scalar::Kind::kNull) {
      add("None");
    } else if (scalar.kind == Scalar::Kind::kInteger) {
      std::int64_t whole = 0;
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), whole);
      problem == std::errc() && end == text.data() + text.size() ? cells_.emplace_back(whole)
                                                                 : cells_.emplace_back(text);
    } else if (scalar.kind == Scalar::Kind::kFloat) {
      add(*trace.number(scalar));
    } else {
      add(text);
    }
  }

 private:
  std::vector<Cell> cells_;
  std::deque<std::string> texts_;
  std::size_t used_ = 0;
};

// ---- Rows

class RowWriter {
 public:
  RowWriter(const DumpPair& pair, const std::vector<RealMetrics>& metrics) : pair_(pair), metrics_(metrics) {}

  std::span<const Cell> cells(std::size_t index, const RowVerdict& verdict) {
    row_.clear();
    const ItemPair& row = pair_.matches.pairs[index];
    const trace::Item& left = pair_.left_item(row);
    const trace::Item* const right = pair_.right_item(row);
    add_names(row, left, right);
    if (pair_.mode == Mode::kMd5) {
      add_md5(pair_.left, &left);
      add_md5(pair_.right, right);
    } else {
      pair_.mode == Mode::kRealData ? add_metrics(metrics_[index]) : add_differences(row);
      add_statistics(pair_.left, left.kind == trace::Item::Kind::kNull && right == nullptr ? nullptr : &left);
      add_statistics(pair_.right, right);
    }
    row_.add(verdict.result);
    if (pair_.mode != Mode::kMd5) row_.add(verdict.message);
    if (pair_.stacks) add_stack(row);
    if (pair_.mode == Mode::kRealData) add_data_names(left, right);
    row_.add(right != nullptr ? trace::match_name(row.right.how) : reason_text(row.reason));
    return row_.cells();
  }

 private:
  void add_names(const ItemPair& row, const trace::Item& left, const trace::Item* right) {
    std::string& name = row_.make_text();
    trace::append_item_name(name, pair_.left, pair_.left.records()[row.left_record], left);
    row_.add_made(name);
    if (right != nullptr) {
      std::string& other = row_.make_text();
      trace::append_item_name(other, pair_.right, pair_.right.records()[row.right_record], *right);
      row_.add_made(other);
    } else {
      row_.add(kNotApplicable);
    }
    row_.add(dtype_text(pair_.left, left));
    row_.add(right != nullptr ? dtype_text(pair_.right, *right) : kNotApplicable);
    row_.add(shape_text(pair_.left, left));
    row_.add(right != nullptr ? shape_text(pair_.right, *right) : kNotApplicable);
  }

  void add_md5(const trace::Trace& trace, const trace::Item* item) {
    std::string& text = row_.make_text();
    if (item != nullptr) text = md5_text(trace, *item);
    row_.add(text.empty() ? kNotApplicable : std::string_view(text));
  }

  void add_metrics(const RealMetrics& metrics) {
    for (const Metric& metric : {metrics.cosine, metrics.euclidean, metrics.max_absolute,
                                 metrics.max_relative, metrics.one_thousandth, metrics.five_thousandths}) {
      row_.add(metric);
    }
  }

  void add_differences(const ItemPair& row) {
    const auto differences = statistic_differences(pair_, row);
    for (const StatisticDifference& one : differences) row_.add(one.difference);
    for (const StatisticDifference& one : differences) {
      if (one.relative) {
        std::string& text = row_.make_text();
        io::append_double(text, *one.relative * 100);
        text += '%';
        row_.add_made(text);
      } else {
        row_.add(one.difference.state == Metric::State::kNan ? "Nan" : kNotApplicable);
      }
    }
  }

  void add_statistics(const trace::Trace& trace, const trace::Item* item) {
    if (item == nullptr) {
      for (int i = 0; i < 4; ++i) row_.add(kNotApplicable);
      return;
    }
    for (const Scalar& scalar : statistics_of(trace, *item)) row_.add(trace, scalar);
  }

  // On the first item of a record only.
  void add_stack(const ItemPair& row) {
    const auto frames = pair_.stacks->frames(pair_.left.name(pair_.left.records()[row.left_record]));
    const bool is_first = &row == pair_.matches.pairs.data() || (&row)[-1].left_record != row.left_record;
    if (!is_first || frames.empty()) return row_.add(kNotApplicable);
    std::string& text = row_.make_text();
    text += '[';
    for (const std::string& frame : frames) {
      if (text.size() > 1) text += ", ";
      trace::append_python_repr(text, frame);
    }
    text += ']';
    row_.add_made(text);
  }

  void add_data_names(const trace::Item& left, const trace::Item* right) {
    const auto name = [](const trace::Trace& trace, const trace::Item& item) {
      return item.data_name.length > 0 ? trace.text(item.data_name) : std::string_view("-1");
    };
    std::string& text = row_.make_text();
    text += "['";
    text += name(pair_.left, left);
    text += "', '";
    text += right != nullptr ? name(pair_.right, *right) : kNotApplicable;
    text += "']";
    row_.add_made(text);
  }

  const DumpPair& pair_;
  const std::vector<RealMetrics>& metrics_;
  RowCells row_;
};

io::RowFill fill_of(Colour colour) {
  return colour == Colour::kRed      ? io::RowFill::kRed
         : colour == Colour::kYellow ? io::RowFill::kYellow
                                     : io::RowFill::kNone;
}

void count(TableSummary& summary, const DumpPair& pair, std::size_t index, const RowVerdict& verdict) {
  const ItemPair& row = pair.matches.pairs[index];
  ++summary.rows;
  if (row.right) ++summary.matched;
  if (row.right && row.right.how != trace::MatchKind::kExact) ++summary.aligned;
  if (verdict.colour == Colour::kRed) ++summary.red;
  if (verdict.colour == Colour::kYellow) ++summary.yellow;
  if (!verdict.fails) return;
  ++summary.failing;
  if (summary.first_failing) return;
  summary.first_failing = index;
  trace::append_item_name(summary.first_failing_name, pair.left, pair.left.records()[row.left_record],
                          pair.left_item(row));
}

void write_right_only(const DumpPair& pair, io::SheetWriter& writer) {
  writer.begin_sheet("Unmatched", std::vector<std::string_view>{
                                      "Bench Name", "Bench Dtype", "Bench Tensor Shape", "Bench max",
                                      "Bench min", "Bench mean", "Bench l2norm", kMatchColumn});
  RowCells row;
  for (const trace::RightItem& alone : pair.matches.right_only) {
    const trace::Record& record = pair.right.records()[alone.record];
    const trace::Item& item = pair.right.all_items()[alone.item];
    row.clear();
    std::string& name = row.make_text();
    trace::append_item_name(name, pair.right, record, item);
    row.add_made(name);
    row.add(dtype_text(pair.right, item));
    row.add(shape_text(pair.right, item));
    for (const Scalar& scalar : statistics_of(pair.right, item)) row.add(pair.right, scalar);
    row.add(reason_text(pair.records.of_right[alone.record] ? trace::NoMatchReason::kNoItem
                                                            : trace::NoMatchReason::kNoRecord));
    writer.add_row(row.cells());
  }
}

}  // namespace

TableSummary write_table(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                         const TableOptions& options) {
  io::SheetWriter writer(options.path, {.guard_formulas = false, .threads = options.threads});
  const auto names = columns(pair);
  writer.begin_sheet("Sheet", names);
  TableSummary summary;
  summary.right_only = pair.matches.right_only.size();
  RowWriter rows(pair, metrics);
  std::vector<RowVerdict> verdicts;
  const auto& all = pair.matches.pairs;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].left_record == all[begin].left_record) ++end;
    judge_record(pair, metrics, begin, end, verdicts);
    for (std::size_t i = begin; i < end; ++i) {
      const RowVerdict& verdict = verdicts[i - begin];
      writer.add_row(rows.cells(i, verdict), fill_of(verdict.colour));
      count(summary, pair, i, verdict);
    }
  }
  if (summary.right_only > 0 && options.path.extension() == ".xlsx") write_right_only(pair, writer);
  writer.commit();
  return summary;
}

}  // namespace msprobe::compare
