// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <unordered_map>

#include "base/non_finite.h"
#include "msprobe/operators.h"
#include "msprobe/record_name.h"
#include "msprobe/trace_match.h"
#include "trace/match/in_threads.h"

namespace msprobe::trace {
namespace {

using Part = Item::Part;

std::string_view part_suffix(Part part) {
  switch (part) {
    case Part::kOutput: return ".output";
    case Part::kParameters: return ".parameters";
    case Part::kGradients:
    case Part::kSaved: return "";
    default: return ".input";
  }
}

// Arguments, keyword arguments and gradients of outputs are all "inputs".
bool same_place(const Trace& target, const Item& a, const Trace& reference, const Item& b) {
  return part_suffix(a.part) == part_suffix(b.part) && target.text(a.path) == reference.text(b.path);
}

// float32, float16 and bfloat16 are compared with each other, all others only with themselves. Of a value its
// type counts.
bool comparable(const Trace& target, const Item& a, const Trace& reference, const Item& b) {
  const auto is_one_of_three = [](DType dtype) {
    return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  };
  const auto ours = a.element_type(), theirs = b.element_type();
  if (ours && theirs) return ours == theirs || (is_one_of_three(*ours) && is_one_of_three(*theirs));
  const auto text_of = [](const Trace& trace, const Item& item) {
    return trace.text(item.kind == Item::Kind::kTensor ? item.dtype : item.type);
  };
  return text_of(target, a) == text_of(reference, b);
}

int row_group(const Item& item) {
  switch (item.part) {
    case Part::kParameters: return 1;
    case Part::kOutput: return 2;
    case Part::kGradients: return 3;
    default: return 0;
  }
}

// Calls visit(record, item) for every item of the records [begin, end) in the order of rows.
template <typename Visit>
void for_each_row(const Trace& trace, std::uint32_t begin, std::uint32_t end, const Visit& visit) {
  for (std::uint32_t r = begin; r < end; ++r) {
    const Record& record = trace.records()[r];
    const auto items = trace.items(record);
    for (int group = 0; group < 4; ++group) {
      for (std::uint32_t i = 0; i < items.size(); ++i) {
        if (row_group(items[i]) == group) visit(r, record.first_item + i);
      }
    }
  }
}

template <typename Visit>
void for_each_row(const Trace& trace, const Visit& visit) {
  for_each_row(trace, 0, static_cast<std::uint32_t>(trace.records().size()), visit);
}

ItemPair alone(std::uint32_t record, ItemIndex item) {
  ItemPair pair;
  pair.target_record = record;
  pair.target = item;
  pair.reason = NoMatchReason::kNoRecord;
  return pair;
}

// Which items of the reference are paired. Bytes: those of different records are set by different threads.
using Taken = std::vector<std::uint8_t>;

void collect_reference_only(const Trace& reference, const Taken& taken, ItemMatches& matches) {
  for_each_row(reference, [&](std::uint32_t record, ItemIndex item) {
    if (!taken[item]) matches.reference_only.push_back({.record = record, .item = item});
  });
}

// Finds counterparts in one record. Items mostly stand at the same index, so the search goes on where the
// last one was found.
class RecordSearch {
 public:
  RecordSearch(const Trace& target, const Trace& reference, Taken& taken)
      : target_(target), reference_(reference), taken_(taken) {}

  void find(const Record& record, ItemPair& pair) {
    const Item& item = target_.all_items()[pair.target];
    const auto candidates = reference_.items(record);
    pair.reason = NoMatchReason::kNoItem;
    for (std::size_t step = 0; step < candidates.size(); ++step) {
      const std::size_t i = (next_ + step) % candidates.size();
      const ItemIndex index = record.first_item + static_cast<ItemIndex>(i);
      const Item& other = candidates[i];
      if (taken_[index] || !is_same_place(item, other)) continue;
      if (target_.text(item.shape) != reference_.text(other.shape)) {
        const bool is_none = item.kind == Item::Kind::kNull || other.kind == Item::Kind::kNull;
        pair.reason = is_none ? NoMatchReason::kNoItem : NoMatchReason::kShape;
      } else if (!comparable(target_, item, reference_, other)) {
        pair.reason = NoMatchReason::kDtype;
      } else {
        pair.reason = NoMatchReason::kMatched;
        pair.reference.index = index;
        taken_[index] = true;
        next_ = i + 1;
        return;
      }
    }
  }
  /// The next item is of this record, and its counterparts of that one.
  void start(const Record& ours, const Record& theirs) {
    next_ = 0;
    crosses_ = is_crossed(ours, theirs);
  }

 private:
  // a + b is b + a: where the first two arguments, in backward their gradients, stand in the other order. One
  // of them tells: the other one may be far off, as what small numbers divide.
  bool is_crossed(const Record& ours, const Record& theirs) {
    const auto items = target_.items(ours);
    if (items.empty()) return false;
    part_ = items.front().part == Part::kInput ? Part::kOutput : Part::kInputArgs;
    const Item *a = tensor_at(target_, ours, "0"), *b = tensor_at(target_, ours, "1"),
               *x = tensor_at(reference_, theirs, "0"), *y = tensor_at(reference_, theirs, "1");
    if (a == nullptr || b == nullptr || x == nullptr || y == nullptr) return false;
    const bool is_same = target_.text(a->norm) == reference_.text(x->norm);
    if (is_same && target_.text(a->shape) == reference_.text(x->shape) &&
        target_.text(a->max) == reference_.text(x->max))
      return false;
    if (!commutes(RecordName(target_.name(ours)).callee())) return false;
    return std::min(apart(*a, *y), apart(*b, *x)) * 8 < std::min(apart(*a, *x), apart(*b, *y));
  }

  bool commutes(std::string_view callee) {
    const auto [known, is_new] = commutes_.try_emplace(callee);
    if (is_new) {
      const operators::Row by = operators::find(callee);
      known->second = by.commutes && !by.is_in_place;
    }
    return known->second;
  }

  const Item* tensor_at(const Trace& trace, const Record& record, std::string_view path) const {
    for (const Item& item : trace.items(record)) {
      if (item.part == part_ && item.kind == Item::Kind::kTensor && trace.text(item.path) == path)
        return &item;
    }
    return nullptr;
  }

  // By their norms and limits. Of other shapes: infinitely.
  double apart(const Item& ours, const Item& theirs) const {
    if (target_.text(ours.shape) != reference_.text(theirs.shape)) return kInfinity;
    const auto of = [&](Scalar Item::* number) {
      if (target_.text(ours.*number) == reference_.text(theirs.*number)) return 0.0;
      const double a = target_.number(ours.*number).value_or(0),
                   b = reference_.number(theirs.*number).value_or(0);
      return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
    };
    return std::max({of(&Item::norm), of(&Item::max), of(&Item::min)});
  }

  bool is_same_place(const Item& item, const Item& other) const {
    const std::string_view path = target_.text(item.path);
    const bool is_crossed =
        crosses_ && item.part == part_ && other.part == part_ && (path == "0" || path == "1");
    if (is_crossed) return reference_.text(other.path) == (path == "0" ? "1" : "0");
    return same_place(target_, item, reference_, other);
  }

  const Trace &target_, &reference_;
  Taken& taken_;
  std::size_t next_ = 0;
  bool crosses_ = false;
  Part part_ = Part::kInputArgs;  // of what is crossed
  std::unordered_map<std::string_view, bool> commutes_;
};

// The name of an item without what counts calls.
void append_item_key(std::string& out, const Trace& trace, std::uint32_t record, ItemIndex item) {
  const std::string name = item_name(trace, record, item);
  const std::string_view of_record = trace.name(trace.records()[record]);
  if (!name.starts_with(of_record)) {  // the file of its elements has another
    out += name;
    return;
  }
  append_without_count(out, of_record);
  out.append(name, of_record.size());
}

// A list of items that is walked from front to back; those skipped wait.
struct Queue {
  std::vector<ReferenceItem> items;  // record and item of one side
  std::vector<std::string> keys;
  std::size_t read = 0;     // items up to here have been read
  std::size_t dropped = 0;  // items up to here are done with
  std::unordered_map<std::string_view, std::deque<std::size_t>> waiting;

  explicit Queue(const Trace& trace) {
    for_each_row(trace, [&](std::uint32_t record, ItemIndex item) {
      items.push_back({.record = record, .item = item});
      std::string key;
      append_item_key(key, trace, record, item);
      key += ' ';
      key += trace.text(trace.all_items()[item].shape);
      keys.push_back(std::move(key));
    });
  }
  bool at_end() const noexcept { return read == items.size(); }
  void advance() {
    waiting[keys[read]].push_back(read);
    ++read;
  }
  // The first of those that wait with this key.
  std::optional<std::size_t> find(std::string_view key) {
    const auto found = waiting.find(key);
    if (found == waiting.end()) return std::nullopt;
    std::deque<std::size_t>& indices = found->second;
    while (!indices.empty() && indices.front() < dropped) indices.pop_front();
    return indices.empty() ? std::nullopt : std::optional(indices.front());
  }
};

}  // namespace

void append_item_name(std::string& out, const Trace& trace, const Record& record, const Item& item) {
  append_item_name(out, trace, trace.name(record), item);
}

void append_item_name(std::string& out, const Trace& trace, std::string_view record, const Item& item) {
  if (std::string_view file = trace.text(item.data_name); !file.empty()) {
    const std::size_t dot = file.rfind('.');
    out += file.substr(0, dot == 0 ? file.size() : dot);
    return;
  }
  out += record;
  out += part_suffix(item.part);
  if (const std::string_view path = trace.text(item.path); !path.empty()) {
    out += '.';
    out += path;
  }
}

std::string item_name(const Trace& trace, std::uint32_t record, ItemIndex item) {
  std::string name;
  append_item_name(name, trace, trace.records()[record], trace.all_items()[item]);
  return name;
}

ItemMatches match_items(const Trace& target, const Trace& reference, const RecordMatches& records,
                        ThreadPool* pool) {
  ItemMatches matches;
  const auto record_count = static_cast<std::uint32_t>(target.records().size());
  constexpr std::uint32_t kRecordsAtOnce = 4096;
  std::vector<std::size_t> first_rows;  // of each part of the records
  std::size_t rows = 0;
  for (std::uint32_t r = 0; r < record_count; rows += target.records()[r++].item_count) {
    if (r % kRecordsAtOnce == 0) first_rows.push_back(rows);
  }
  matches.pairs.resize(rows);
  Taken taken(reference.all_items().size());
  in_threads(pool, first_rows.size(), [&](std::size_t part) {
    const auto begin = static_cast<std::uint32_t>(part) * kRecordsAtOnce;
    const std::uint32_t end = std::min(record_count, begin + kRecordsAtOnce);
    std::size_t row = first_rows[part];
    RecordSearch search(target, reference, taken);
    std::uint32_t last = kNoMatch;
    for_each_row(target, begin, end, [&](std::uint32_t record, ItemIndex item) {
      const Match& found = records.of_target[record];
      ItemPair& pair = matches.pairs[row++] = alone(record, item);
      pair.reference_record = found.index;
      if (!found) return;
      if (record != last) search.start(target.records()[record], reference.records()[found.index]);
      last = record;
      search.find(reference.records()[found.index], pair);
      if (pair.reference) pair.reference.how = found.how;
    });
  });
  collect_reference_only(reference, taken, matches);
  return matches;
}

ItemMatches match_items_fuzzy(const Trace& target, const Trace& reference) {
  Queue lefts(target), rights(reference);
  ItemMatches matches;
  matches.pairs.resize(lefts.items.size());
  Taken taken(reference.all_items().size());
  for (std::size_t i = 0; i < lefts.items.size(); ++i) {
    matches.pairs[i] = alone(lefts.items[i].record, lefts.items[i].item);
  }
  const auto pair = [&](std::size_t i, std::size_t j) {
    ItemPair& result = matches.pairs[i];
    const ReferenceItem& other = rights.items[j];
    lefts.dropped = i + 1;
    rights.dropped = j + 1;
    result.reference_record = other.record;
    const bool same =
        comparable(target, target.all_items()[result.target], reference, reference.all_items()[other.item]);
    result.reason = same ? NoMatchReason::kMatched : NoMatchReason::kDtype;
    if (!same) return;
    const bool same_name = item_name(target, result.target_record, result.target) ==
                           item_name(reference, other.record, other.item);
    result.reference = {.index = other.item, .how = same_name ? MatchKind::kExact : MatchKind::kFuzzy};
    taken[other.item] = true;
  };
  while (!lefts.at_end() || !rights.at_end()) {
    const bool new_target = !lefts.at_end(), new_reference = !rights.at_end();
    if (new_target) lefts.advance();
    if (new_reference) rights.advance();
    if (new_target) {
      if (const auto found = rights.find(lefts.keys[lefts.read - 1])) {
        pair(lefts.read - 1, *found);
        continue;
      }
    }
    if (new_reference) {
      if (const auto found = lefts.find(rights.keys[rights.read - 1])) pair(*found, rights.read - 1);
    }
  }
  collect_reference_only(reference, taken, matches);
  return matches;
}

ItemMatches match_items_mapped(const Trace& target, const Trace& reference,
                               const std::map<std::string, std::string, std::less<>>& names) {
  std::unordered_map<std::string, ReferenceItem> by_name;
  for_each_row(reference, [&](std::uint32_t record, ItemIndex item) {
    by_name.try_emplace(item_name(reference, record, item), ReferenceItem{.record = record, .item = item});
  });
  ItemMatches matches;
  Taken taken(reference.all_items().size());
  for_each_row(target, [&](std::uint32_t record, ItemIndex item) {
    ItemPair pair = alone(record, item);
    const std::string name = item_name(target, record, item);
    const auto mapped = names.find(name);
    const std::string& wanted = mapped == names.end() ? name : mapped->second;
    if (const auto found = by_name.find(wanted); found != by_name.end()) {
      pair.reference_record = found->second.record;
      pair.reference = {.index = found->second.item,
                        .how = wanted == name ? MatchKind::kExact : MatchKind::kMapped};
      pair.reason = NoMatchReason::kMatched;
      taken[pair.reference.index] = true;
    }
    matches.pairs.push_back(pair);
  });
  collect_reference_only(reference, taken, matches);
  return matches;
}

}  // namespace msprobe::trace
