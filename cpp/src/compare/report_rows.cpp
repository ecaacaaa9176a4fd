// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "compare/row_statistics.h"
#include "msprobe/compare_report.h"
#include "msprobe/step_walk.h"
#include "trace/item/item_text.h"
#include "trace/json/json_text.h"
#include "trace/name_index.h"
#include "verdict/names.h"

namespace msprobe::compare {

using verdict::backward_calls;
using verdict::is_backward;
namespace {

using trace::ItemPair;

constexpr int kSame = -1;
constexpr int kNone = -2;
constexpr int kInfinite = -1;
constexpr int kDigits = 4;
constexpr int kOnlyInReference = -5;  // in the column "match", where a trace::NoMatchReason may stand

// ---- Which rows

// In rounding errors of the dtype of the reference; numbers count as float32.
double roundings(const DumpPair& pair, const ItemPair& row, const Distance& distance) {
  const trace::Item* const other = pair.reference_item(row);
  const bool is_tensor = other != nullptr && other->kind == trace::Item::Kind::kTensor;
  return trace::in_roundings(
      distance.value, is_tensor ? trace::dtype_of(pair.reference.text(other->dtype)) : DType::kFloat32);
}

bool differs(const ItemPair& row, const Distance& distance) {
  return static_cast<bool>(row.reference) && !distance.equal;
}

// Places of the rows that are shown, in order.
std::vector<std::size_t> choose(const std::vector<ItemPair>& rows, const std::vector<Distance>& distances,
                                std::size_t most) {
  std::vector<std::size_t> all(rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (all.size() <= most) return all;
  std::size_t found = 0;
  const auto rest = std::stable_partition(all.begin(), all.end(), [&](std::size_t i) {
    const bool is_first = found < most / 2 && differs(rows[i], distances[i]);
    if (is_first) ++found;
    return is_first;
  });
  // Rows without a counterpart have no distance; they come behind all that do.
  const auto size = [&](std::size_t i) { return rows[i].reference ? distances[i].value : -1; };
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(rest, end, all.end(), [&](std::size_t a, std::size_t b) {
    return size(a) != size(b) ? size(a) > size(b) : a < b;
  });
  all.resize(most);
  std::sort(all.begin(), all.end());
  return all;
}

// ---- In which order

// The page shows what one run or both have, one after the other as it came about: what only the reference
// has where it ran, and the gradients of parameters behind the backward call of their module.
struct PageEntry {
  std::uint32_t place = 0;  // a record of the target
  bool is_behind = false;   // behind what stands there
  std::size_t index = 0;    // of the row, or of `reference_only`
  bool is_of_reference = false;

  bool operator<(const PageEntry& other) const {
    return place != other.place ? place < other.place : !is_behind && other.is_behind;
  }
};

// Where the gradients of the parameters of a module came about: its last backward call. Without one: the
// last of all.
class GradientPlaces {
 public:
  explicit GradientPlaces(const trace::Trace& trace) : trace_(trace) {
    const auto& records = trace.records();
    for (std::uint32_t i = 0; i < records.size(); ++i) {
      if (is_backward(trace.name(records[i]))) last_ = i;
    }
  }

  std::uint32_t place(std::uint32_t record) const {
    const std::string_view name = trace_.name(trace_.records()[record]);
    const std::vector<std::uint32_t> calls = backward_calls(trace_, name);
    return calls.empty() ? last_.value_or(record) : *std::max_element(calls.begin(), calls.end());
  }

 private:
  const trace::Trace& trace_;
  std::optional<std::uint32_t> last_;
};

std::vector<PageEntry> page_entries(const DumpPair& pair, const std::vector<std::size_t>& chosen,
                                    std::size_t most) {
  const auto& rows = pair.matches.pairs;
  const auto& reference_only = pair.matches.reference_only;
  const GradientPlaces ours(pair.target), theirs(pair.reference);
  std::vector<PageEntry> entries;
  entries.reserve(chosen.size() + std::min(reference_only.size(), most));
  for (const std::size_t index : chosen) {
    const std::uint32_t record = rows[index].target_record;
    const bool is_gradient = trace::holds_gradients(pair.target.name(pair.target.records()[record]));
    entries.push_back({is_gradient ? ours.place(record) : record, is_gradient, index, false});
  }
  // Of each record of the reference the one of the target that it stands at or behind.
  std::vector<std::uint32_t> places(reference_only.empty() ? 0 : pair.reference.records().size());
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    const bool is_gradient = trace::holds_gradients(pair.reference.name(pair.reference.records()[i]));
    if (pair.records.of_reference[i] && !is_gradient) last = pair.records.of_reference[i].index;
    places[i] = last;
  }
  for (std::size_t i = 0; i < std::min(reference_only.size(), most); ++i) {
    std::uint32_t record = reference_only[i].record;
    if (trace::holds_gradients(pair.reference.name(pair.reference.records()[record])))
      record = theirs.place(record);
    entries.push_back({places[record], true, i, true});
  }
  std::stable_sort(entries.begin(), entries.end());
  return entries;
}

// ---- Text

// Numbers between commas.
class Column {
 public:
  void add(std::int64_t number) {
    append([&](char* begin, char* end) { return std::to_chars(begin, end, number); });
  }
  // Four digits are enough for a picture and a table; the result table has them all.
  void add(double number) {
    append([&](char* begin, char* end) {
      return std::to_chars(begin, end, number, std::chars_format::general, kDigits);
    });
  }
  std::size_t size() const noexcept { return text_.size(); }
  std::string take() noexcept { return std::move(text_); }

 private:
  template <typename Format>
  void append(const Format& format) {
    std::array<char, 32> buffer{};
    if (!text_.empty()) text_ += ',';
    text_.append(buffer.data(), format(buffer.data(), buffer.data() + buffer.size()).ptr);
  }

  std::string text_;
};

// Each text once, in the JSON of all of them alone: a table beside it has the places.
class Strings {
 public:
  std::int64_t index(std::string_view text) {
    const std::size_t size = json_.size();
    if (size > 0) json_ += ',';
    const std::size_t begin = json_.size();
    trace::append_json_string(json_, text);
    std::uint32_t& slot = slot_of(std::string_view(json_).substr(begin));
    if (slot != trace::kFreeSlot) {
      json_.resize(size);
      return slot;
    }
    const auto number = static_cast<std::uint32_t>(ends_.size());
    slot = number;
    ends_.push_back(json_.size());
    if (2 * ends_.size() > slots_.size()) add_slots();
    return number;
  }
  std::string take_json() noexcept {
    slots_ = {};
    ends_ = {};
    return std::move(json_);
  }

 private:
  // With its quotes.
  std::string_view written(std::size_t number) const {
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1] + 1;
    return std::string_view(json_).substr(begin, ends_[number] - begin);
  }

  std::uint32_t& slot_of(std::string_view text) {
    return trace::find_slot(slots_, text, [this](std::size_t number) { return written(number); });
  }

  void add_slots() {
    slots_ = trace::make_slots(slots_.size());
    for (std::size_t i = 0; i < ends_.size(); ++i) slot_of(written(i)) = static_cast<std::uint32_t>(i);
  }

  std::string json_;
  std::vector<std::size_t> ends_;
  std::vector<std::uint32_t> slots_ = trace::make_slots(512);
};

// ---- Rows

std::optional<double> largest_relative(const StatisticsPair& statistics, const RealMetrics* metrics) {
  if (metrics != nullptr) return metrics->max_relative.number();
  std::optional<double> largest;
  for (const StatisticDifference& one : statistics.differences) {
    if (one.relative && !(largest && *largest >= *one.relative)) largest = one.relative;
  }
  return largest;
}

class RowColumns {
 public:
  RowColumns(const DumpPair& pair, const std::vector<RealMetrics>& metrics)
      : pair_(pair), metrics_(metrics) {}

  void add(std::size_t index, const Distance& distance, const StatisticsPair& statistics,
           const RowVerdict& verdict) {
    const ItemPair& row = pair_.matches.pairs[index];
    row_.add(static_cast<std::int64_t>(index) - static_cast<std::int64_t>(last_));
    last_ = index;
    add_names(row);
    error_.add(row.reference ? finite_or_code(roundings(pair_, row, distance)) : kNone);
    const RealMetrics* const metrics = metrics_.empty() ? nullptr : &metrics_[index];
    const auto relative = distance.equal ? std::nullopt : largest_relative(statistics, metrics);
    relative_.add(relative && !std::isnan(*relative) ? finite_or_code(*relative) : kNone);
    result_.add(last_result_.index(strings_, verdict.result));
    message_.add(last_message_.index(strings_, verdict.message));
    colour_.add(static_cast<std::int64_t>(verdict.colour));
    match_.add(row.reference ? static_cast<std::int64_t>(row.reference.how)
                             : -static_cast<std::int64_t>(row.reason));
  }

  // What only the reference has, under its name there.
  void add_of_reference(const trace::ReferenceItem& one) {
    row_.add(std::int64_t{0});
    target_.read(pair_.reference, one.record, pair_.reference.all_items()[one.item]);
    record_.add(last_record_.index(strings_, target_.record()));
    item_.add(strings_.index(target_.item()));
    type_.add(last_type_.index(strings_, target_.type));
    other_record_.add(std::int64_t{kNone});
    other_item_.add(std::int64_t{kNone});
    other_type_.add(std::int64_t{kNone});
    error_.add(std::int64_t{kNone});
    relative_.add(std::int64_t{kNone});
    result_.add(last_result_.index(strings_, ""));
    message_.add(last_message_.index(strings_, "Only the reference has it."));
    colour_.add(std::int64_t{0});
    match_.add(std::int64_t{kOnlyInReference});
  }

  // Takes the columns, so that none stands in memory twice.
  std::string json() {
    const std::array<std::pair<std::string_view, Column*>, 13> columns = {{
        {"row", &row_},
        {"record", &record_},
        {"item", &item_},
        {"otherRecord", &other_record_},
        {"otherItem", &other_item_},
        {"type", &type_},
        {"otherType", &other_type_},
        {"error", &error_},
        {"relative", &relative_},
        {"result", &result_},
        {"message", &message_},
        {"colour", &colour_},
        {"match", &match_},
    }};
    constexpr std::size_t kMarks = 8;  // around a list
    std::string text = strings_.take_json();
    std::size_t size = text.size() + 2 * kMarks;
    for (const auto& [name, column] : columns) size += name.size() + column->size() + kMarks;
    text.reserve(size);
    text.insert(0, "{\"strings\":[");
    text += ']';
    for (const auto& [name, column] : columns) {
      text.append(",\"").append(name).append("\":[").append(column->take()).append(1, ']');
    }
    text += '}';
    return text;
  }

 private:
  struct Name {
    std::int64_t record = kNone;
    std::int64_t item = kNone;
    std::int64_t type = kNone;
  };

  static double finite_or_code(double value) { return std::isfinite(value) ? value : kInfinite; }

  // The three texts of an item; an item's name goes on where that of its record ends, unless it is that of
  // its file.
  struct Texts {
    std::string name;
    std::size_t record_length = 0;
    std::string type;

    std::string_view record() const { return std::string_view(name).substr(0, record_length); }
    std::string_view item() const { return std::string_view(name).substr(record_length); }

    void read(const trace::Trace& trace, std::uint32_t record, const trace::Item& item) {
      const std::string_view of_record = trace.name(trace.records()[record]);
      name.clear();
      trace::append_item_name(name, trace, trace.records()[record], item);
      record_length = name.starts_with(of_record) ? of_record.size() : 0;
      type = dtype_text(trace, item);
      type += ' ';
      type += shape_text(trace, item);
    }
  };

  // The index of a text that is mostly the one before.
  class LastIndex {
   public:
    std::int64_t index(Strings& strings, std::string_view text) {
      if (index_ < 0 || text != text_) {
        index_ = strings.index(text);
        text_ = text;
      }
      return index_;
    }

   private:
    std::string text_;
    std::int64_t index_ = -1;
  };

  void add_names(const ItemPair& row) {
    target_.read(pair_.target, row.target_record, pair_.target_item(row));
    record_.add(last_record_.index(strings_, target_.record()));
    item_.add(strings_.index(target_.item()));
    type_.add(last_type_.index(strings_, target_.type));
    Name reference;
    if (const trace::Item* const item = pair_.reference_item(row)) {
      reference_.read(pair_.reference, row.reference_record, *item);
      reference.record =
          reference_.record() == target_.record() ? kSame : strings_.index(reference_.record());
      reference.item = reference_.item() == target_.item() ? kSame : strings_.index(reference_.item());
      reference.type = reference_.type == target_.type ? kSame : strings_.index(reference_.type);
    }
    other_record_.add(reference.record);
    other_item_.add(reference.item);
    other_type_.add(reference.type);
  }

  const DumpPair& pair_;
  const std::vector<RealMetrics>& metrics_;
  Strings strings_;
  Texts target_, reference_;
  LastIndex last_record_, last_type_, last_result_, last_message_;
  std::size_t last_ = 0;
  Column row_, record_, item_, other_record_, other_item_, type_, other_type_;
  Column error_, relative_, result_, message_, colour_, match_;
};

void count_difference(const DumpPair& pair, ReportRows& report, const ItemPair& row,
                      const Distance& distance) {
  if (!differs(row, distance)) return;
  ++report.differing;
  if (const double error = roundings(pair, row, distance); std::isfinite(error)) {
    report.worst = std::max(report.worst, error);
  } else {
    ++report.unmeasured;
  }
}

}  // namespace

ReportRows report_rows(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                       const std::vector<Distance>& distances, std::size_t most) {
  const std::vector<ItemPair>& rows = pair.matches.pairs;
  ReportRows report;
  report.rows = rows.size() + pair.matches.reference_only.size();
  for (std::size_t i = 0; i < rows.size(); ++i) count_difference(pair, report, rows[i], distances[i]);
  const std::vector<std::size_t> chosen = choose(rows, distances, most);
  const std::vector<PageEntry> entries = page_entries(pair, chosen, most);
  report.shown = entries.size();
  RowColumns columns(pair, metrics);
  std::vector<StatisticsPair> statistics;
  std::vector<RowVerdict> verdicts;
  std::size_t begin = 0, end = 0;
  for (const PageEntry& entry : entries) {
    if (entry.is_of_reference) {
      columns.add_of_reference(pair.matches.reference_only[entry.index]);
      continue;
    }
    const std::size_t index = entry.index;
    if (index < begin ||
        index >= end) {  // the first chosen row of its record, whose rows are judged together
      begin = index;
      while (begin > 0 && rows[begin - 1].target_record == rows[index].target_record) --begin;
      end = index;
      while (end < rows.size() && rows[end].target_record == rows[index].target_record) ++end;
      read_statistics(pair, begin, end, statistics);
      judge_record(pair, metrics, begin, statistics, verdicts);
    }
    columns.add(index, distances[index], statistics[index - begin], verdicts[index - begin]);
  }
  report.json = columns.json();
  return report;
}

}  // namespace msprobe::compare
