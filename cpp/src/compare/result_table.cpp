// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <limits>
#include <span>
#include <utility>

#include "compare/row_statistics.h"
#include "msprobe/compare.h"
#include "msprobe/sheet.h"
#include "msprobe/table.h"
#include "msprobe/thread_pool.h"
#include "trace/item/item_text.h"
#include "trace/reader/python_text.h"

namespace msprobe::compare {
namespace {

using io::Cell;
using trace::ItemPair;
using trace::Scalar;

constexpr std::string_view kNotApplicable = "N/A";

// ---- Columns

constexpr const char* kCover = "Verdict";
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
      cells_.emplace_back(number);
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
  void add(const trace::Trace& trace, const Scalar& scalar, std::optional<double> number,
           std::string_view null) {
    const std::string_view text = trace.text(scalar);
    if (scalar.kind == Scalar::Kind::kAbsent || scalar.kind == Scalar::Kind::kNull) {
      add(null);
    } else if (scalar.kind == Scalar::Kind::kInteger) {
      std::int64_t whole = 0;
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), whole);
      problem == std::errc() && end == text.data() + text.size() ? cells_.emplace_back(whole)
                                                                 : cells_.emplace_back(text);
    } else if (scalar.kind == Scalar::Kind::kFloat) {
      add(number.value_or(0));
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

  std::span<const Cell> cells(std::size_t index, const StatisticsPair& statistics,
                              const RowVerdict& verdict) {
    row_.clear();
    const ItemPair& row = pair_.matches.pairs[index];
    const trace::Item& target = pair_.target_item(row);
    const trace::Item* const reference = pair_.reference_item(row);
    add_names(row, target, reference);
    if (pair_.mode == Mode::kMd5) {
      add_md5(pair_.target, &target);
      add_md5(pair_.reference, reference);
    } else {
      pair_.mode == Mode::kRealData ? add_metrics(metrics_[index]) : add_differences(statistics.differences);
      if (reference != nullptr) {
        add_statistics(pair_.target, statistics.target, statistics.target_numbers, "None");
        add_statistics(pair_.reference, statistics.reference, statistics.reference_numbers, "None");
      } else {
        add_statistics(pair_.target, statistics.target, statistics.target_numbers, kNotApplicable);
        for (std::size_t i = 0; i < statistics.reference.size(); ++i) row_.add(kNotApplicable);
      }
    }
    row_.add(verdict.result);
    if (pair_.mode != Mode::kMd5) row_.add(verdict.message);
    if (pair_.stacks) add_stack(row);
    if (pair_.mode == Mode::kRealData) add_data_names(target, reference);
    row_.add(reference != nullptr ? trace::match_name(row.reference.how) : reason_text(row.reason));
    return row_.cells();
  }

 private:
  void add_names(const ItemPair& row, const trace::Item& target, const trace::Item* reference) {
    std::string& name = row_.make_text();
    trace::append_item_name(name, pair_.target, pair_.target.records()[row.target_record], target);
    row_.add_made(name);
    if (reference != nullptr) {
      std::string& other = row_.make_text();
      trace::append_item_name(other, pair_.reference, pair_.reference.records()[row.reference_record],
                              *reference);
      row_.add_made(other);
    } else {
      row_.add(kNotApplicable);
    }
    row_.add(dtype_text(pair_.target, target));
    row_.add(reference != nullptr ? dtype_text(pair_.reference, *reference) : kNotApplicable);
    row_.add(shape_text(pair_.target, target));
    row_.add(reference != nullptr ? shape_text(pair_.reference, *reference) : kNotApplicable);
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

  void add_differences(const std::array<StatisticDifference, 4>& differences) {
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

  // `null`: the text of a statistic that is null or absent; of a row without counterpart it is another one.
  void add_statistics(const trace::Trace& trace, const std::array<Scalar, 4>& scalars,
                      const std::array<std::optional<double>, 4>& numbers, std::string_view null) {
    for (std::size_t i = 0; i < scalars.size(); ++i) row_.add(trace, scalars[i], numbers[i], null);
  }

  // On the first item of a record only.
  void add_stack(const ItemPair& row) {
    const bool is_first = &row == pair_.matches.pairs.data() || (&row)[-1].target_record != row.target_record;
    if (!is_first || !pair_.stacks) return row_.add(kNotApplicable);
    const auto frames = pair_.stacks->frames(pair_.target.name(pair_.target.records()[row.target_record]));
    if (frames.empty()) return row_.add(kNotApplicable);
    std::string& text = row_.make_text();
    text += '[';
    for (const std::string& frame : frames) {
      if (text.size() > 1) text += ", ";
      trace::append_python_repr(text, frame);
    }
    text += ']';
    row_.add_made(text);
  }

  void add_data_names(const trace::Item& target, const trace::Item* reference) {
    const auto name = [](const trace::Trace& trace, const trace::Item& item) {
      return item.data_name.length > 0 ? trace.text(item.data_name) : std::string_view("-1");
    };
    std::string& text = row_.make_text();
    text += "['";
    text += name(pair_.target, target);
    text += "', '";
    text += reference != nullptr ? name(pair_.reference, *reference) : kNotApplicable;
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

void count_verdict(TableSummary& summary, const DumpPair& pair, std::size_t index,
                   const RowVerdict& verdict) {
  const ItemPair& row = pair.matches.pairs[index];
  ++summary.rows;
  if (row.reference) ++summary.matched;
  if (row.reference && row.reference.how != trace::MatchKind::kExact) ++summary.aligned;
  if (verdict.colour == Colour::kRed) ++summary.red;
  if (verdict.colour == Colour::kYellow) ++summary.yellow;
  if (!verdict.fails) return;
  ++summary.failing;
  if (summary.first_failing) return;
  summary.first_failing = index;
  trace::append_item_name(summary.first_failing_name, pair.target, pair.target.records()[row.target_record],
                          pair.target_item(row));
}

void write_reference_only(const DumpPair& pair, io::SheetWriter& writer) {
  writer.begin_sheet("Unmatched", std::vector<std::string_view>{
                                      "Bench Name", "Bench Dtype", "Bench Tensor Shape", "Bench max",
                                      "Bench min", "Bench mean", "Bench l2norm", kMatchColumn});
  RowCells row;
  for (const trace::ReferenceItem& alone : pair.matches.reference_only) {
    const trace::Record& record = pair.reference.records()[alone.record];
    const trace::Item& item = pair.reference.all_items()[alone.item];
    row.clear();
    std::string& name = row.make_text();
    trace::append_item_name(name, pair.reference, record, item);
    row.add_made(name);
    row.add(dtype_text(pair.reference, item));
    row.add(shape_text(pair.reference, item));
    for (const Scalar& scalar : statistics_of(pair.reference, item)) {
      row.add(pair.reference, scalar, pair.reference.number(scalar), kNotApplicable);
    }
    row.add(reason_text(pair.records.of_reference[alone.record] ? trace::NoMatchReason::kNoItem
                                                                : trace::NoMatchReason::kNoRecord));
    writer.add_row(row.cells());
  }
}

// Rows [begin, end), whole records.
struct Chunk {
  std::size_t begin = 0, end = 0;
};

// So many rows are made at once by one thread: enough to be worth its while, few enough for its cache.
constexpr std::size_t kRowsOfChunk = 512;

std::size_t end_of_record(const DumpPair& pair, std::size_t begin) {
  const auto& all = pair.matches.pairs;
  std::size_t end = begin + 1;
  while (end < all.size() && all[end].target_record == all[begin].target_record) ++end;
  return end;
}

std::vector<Chunk> chunks_of(const DumpPair& pair) {
  std::vector<Chunk> chunks;
  for (std::size_t begin = 0, end = 0; begin < pair.matches.pairs.size(); begin = end) {
    end = end_of_record(pair, begin);
    if (chunks.empty() || end - chunks.back().begin > kRowsOfChunk) chunks.push_back({.begin = begin});
    chunks.back().end = end;
  }
  return chunks;
}

// Judges the rows of a chunk; `visit` is given the number of a row, its statistics and its verdict.
template <typename Visit>
TableSummary judge_rows(const DumpPair& pair, const std::vector<RealMetrics>& metrics, Chunk chunk,
                        const Visit& visit) {
  TableSummary summary;
  std::vector<StatisticsPair> statistics;
  std::vector<RowVerdict> verdicts;
  for (std::size_t begin = chunk.begin, end = 0; begin < chunk.end; begin = end) {
    end = end_of_record(pair, begin);
    read_statistics(pair, begin, end, statistics);
    judge_record(pair, metrics, begin, statistics, verdicts);
    for (std::size_t i = begin; i < end; ++i) {
      const RowVerdict& verdict = verdicts[i - begin];
      visit(i, statistics[i - begin], verdict);
      count_verdict(summary, pair, i, verdict);
    }
  }
  return summary;
}

// Judges the rows of a chunk and hands their cells to `put`.
template <typename Put>
TableSummary write_rows(const DumpPair& pair, const std::vector<RealMetrics>& metrics, Chunk chunk,
                        const Put& put) {
  RowWriter rows(pair, metrics);
  return judge_rows(pair, metrics, chunk,
                    [&](std::size_t i, const StatisticsPair& statistics, const RowVerdict& verdict) {
                      put(rows.cells(i, statistics, verdict), fill_of(verdict.colour));
                    });
}

// `part` follows `whole`.
void append(TableSummary& whole, TableSummary part) {
  whole.rows += part.rows;
  whole.matched += part.matched;
  whole.aligned += part.aligned;
  whole.failing += part.failing;
  whole.red += part.red;
  whole.yellow += part.yellow;
  if (whole.first_failing || !part.first_failing) return;
  whole.first_failing = part.first_failing;
  whole.first_failing_name = std::move(part.first_failing_name);
}

// The rows of a csv are made in threads, a few chunks at a time, and written in their order.
TableSummary write_csv_rows(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                            const std::vector<Chunk>& chunks, unsigned threads, io::SheetWriter& writer) {
  ThreadPool pool(threads);
  const std::size_t at_once = std::size_t{pool.size()} * 4;
  std::vector<std::string> texts(at_once);
  std::vector<TableSummary> summaries(at_once);
  TableSummary summary;
  for (std::size_t first = 0; first < chunks.size(); first += at_once) {
    const std::size_t chunk_count = std::min(at_once, chunks.size() - first);
    pool.parallel_for(chunk_count, [&](std::size_t i) {
      texts[i].clear();
      summaries[i] = write_rows(pair, metrics, chunks[first + i],
                                [&](auto cells, io::RowFill) { io::append_csv_row(texts[i], cells); });
    });
    for (std::size_t i = 0; i < chunk_count; ++i) {
      writer.add_csv_rows(texts[i]);
      append(summary, std::move(summaries[i]));
    }
  }
  return summary;
}

}  // namespace

TableSummary write_table(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                         const TableOptions& options) {
  io::SheetWriter writer(options.path, {.threads = options.threads, .cover = kCover});
  const auto names = columns(pair);
  writer.begin_sheet("Sheet", names);
  const std::vector<Chunk> chunks = chunks_of(pair);
  TableSummary summary;
  if (options.path.extension() == ".csv") {
    summary = write_csv_rows(pair, metrics, chunks, options.threads, writer);
  } else {
    for (const Chunk chunk : chunks) {
      append(summary, write_rows(pair, metrics, chunk,
                                 [&](auto cells, io::RowFill fill) { writer.add_row(cells, fill); }));
    }
    if (!pair.matches.reference_only.empty()) write_reference_only(pair, writer);
  }
  summary.reference_only = pair.matches.reference_only.size();
  writer.commit();
  return summary;
}

TableSummary summarize(const DumpPair& pair, const std::vector<RealMetrics>& metrics, unsigned threads) {
  const std::vector<Chunk> chunks = chunks_of(pair);
  std::vector<TableSummary> parts(chunks.size());
  ThreadPool pool(threads);
  pool.parallel_for(chunks.size(), [&](std::size_t i) {
    parts[i] = judge_rows(pair, metrics, chunks[i], [](auto&&...) {});
  });
  TableSummary summary;
  for (TableSummary& part : parts) append(summary, std::move(part));
  summary.reference_only = pair.matches.reference_only.size();
  return summary;
}

}  // namespace msprobe::compare
