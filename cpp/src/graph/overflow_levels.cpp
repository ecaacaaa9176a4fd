// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/overflow_levels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/dotted_name.h"
#include "msprobe/record_name.h"
#include "trace/item/bad_number.h"
#include "trace/item/type_name.h"

namespace msprobe::graph {
namespace {

using trace::Item;
using trace::Record;
using trace::Trace;
using Part = Item::Part;

// A call whose bad values mean nothing where they stand in memory that it has not written yet. Of places that
// are not named nothing is asked.
struct Excuse {
  std::string_view function;
  bool is_collective;
  std::string_view argument;      // the number of the excused one
  std::string_view keyword = {};  // the excused one
  std::string_view result = {};   // the number of the excused one
};

constexpr std::array<Excuse, 10> kExcuses{{
    {"empty", false, {}, {}, "0"},
    {"empty_like", false, {}, {}, "0"},
    {"empty_strided", false, {}, {}, "0"},
    {"recv", true, "0", "tensor"},
    {"all_gather", true, "0"},
    {"_reduce_scatter_base", true, "0"},
    {"all_gather_into_tensor", true, "0"},
    {"reduce_scatter_tensor", true, "0"},
    {"masked_fill_", false, "0"},
    {"reduce_scatter", true, "0", "output"},
}};

const Excuse* excuse_of(const trace::RecordName& name) {
  const auto found = std::find_if(kExcuses.begin(), kExcuses.end(), [&name](const Excuse& excuse) {
    return excuse.function == name.function() && excuse.is_collective == name.has_collective_prefix();
  });
  return found == kExcuses.end() ? nullptr : &*found;
}

bool is_argument(Part part) {
  return part == Part::kInputArgs || part == Part::kInputKwargs || part == Part::kInput;
}

std::string_view first_key(std::string_view path) { return path.substr(0, path.find('.')); }

// Whether nothing but lists stands around an item, below the part or the keyword.
bool stands_in_lists(std::string_view path, Part part) {
  if (path.empty()) return true;
  const auto keys = split_name(path);
  return std::all_of(keys.begin() + (part == Part::kInputKwargs ? 1 : 0), keys.end(), is_number);
}

bool has_bad_number(const Trace& trace, const Item& item) {
  const auto bad = [&trace](const trace::Scalar& scalar) {
    return trace::badness(trace, scalar) != trace::Badness::kGood;
  };
  return (bad(item.max) || bad(item.min) || bad(item.mean)) &&
         stands_in_lists(trace.text(item.path), item.part);
}

bool is_excused(const Excuse& excuse, std::string_view place, Part part) {
  const std::string_view excused = part == Part::kOutput        ? excuse.result
                                   : part == Part::kInputKwargs ? excuse.keyword
                                                                : excuse.argument;
  return excused.empty() || place == excused;
}

// The larger of `largest` (NaN: none yet) and the norm of `item`, if that is a tensor with one that stands
// in no list.
void take_norm(const Trace& trace, const Item& item, double& largest) {
  if (!trace::is_tensor_type(trace.text(item.type))) return;
  if (trace.text(item.path).find('.') != std::string_view::npos) return;
  largest = std::fmax(largest, trace.number(item.norm).value_or(std::nan("")));
}

bool grows(double in, double out) {
  constexpr double kMost = 100;
  return in == 0 ? out > kMost : out / in > kMost;  // false for NaN
}

// The program asked for these infinities, as a mask of attention does.
bool is_deliberate(const Trace& trace, const Record& record) {
  trace::Badness worst_in = trace::Badness::kGood, worst_out = worst_in;
  for (const Item& item : trace.items(record)) {
    trace::Badness& worst = item.part == Part::kOutput ? worst_out : worst_in;
    for (const trace::Scalar& one : {item.max, item.min, item.mean, item.value}) {
      worst = std::max(worst, trace::badness(trace, one));
    }
  }
  return trace::is_deliberate_fill(trace.name(record), worst_in, worst_out);
}

OverflowLevel level_of(const Trace& trace, const Record& record) {
  bool bad_in = false, bad_out = false, all_excused = true;
  double norm_in = std::nan(""), norm_out = std::nan("");
  const Excuse* const excuse = excuse_of(trace::RecordName(trace.name(record)));
  for (const Item& item : trace.items(record)) {
    const bool is_in = is_argument(item.part);
    if (!is_in && item.part != Part::kOutput) continue;
    take_norm(trace, item, is_in ? norm_in : norm_out);
    if (!has_bad_number(trace, item)) continue;
    (is_in ? bad_in : bad_out) = true;
    all_excused &= excuse != nullptr && is_excused(*excuse, first_key(trace.text(item.path)), item.part);
  }
  if (excuse != nullptr && all_excused) return OverflowLevel::kNone;
  if (bad_out && is_deliberate(trace, record)) return OverflowLevel::kNone;
  if (bad_out) return bad_in ? OverflowLevel::kHigh : OverflowLevel::kCritical;
  if (bad_in) return OverflowLevel::kMedium;
  return grows(norm_in, norm_out) ? OverflowLevel::kHigh : OverflowLevel::kNone;
}

}  // namespace

std::vector<OverflowLevel> overflow_levels(const Trace& trace) {
  std::vector<OverflowLevel> levels;
  levels.reserve(trace.records().size());
  for (const Record& record : trace.records()) levels.push_back(level_of(trace, record));
  return levels;
}

}  // namespace msprobe::graph
