// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which call of one run belongs to which call of another. The name of a call counts how often the operator
/// was called before, so one call more or less gives all later ones another name: names alone would pair
/// calls of different places. Therefore calls are aligned in the order in which they ran, module by module,
/// and the way in which a pair was found is part of the answer.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/thread_pool.h"
#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// How a counterpart was found.
enum class MatchKind : std::uint8_t {
  kNone,     // there is none
  kExact,    // same name, same place
  kAligned,  // another name, but the same operator at the corresponding place of the same module
  kMoved,    // same name, but in another module or order
  kFuzzy,    // names that agree without their counts or classes (the rule of mindstudio-probe)
  kMapped    // by a mapping that the user gave
};

/// "exact", "aligned", ... ; "none".
MSPROBE_API std::string_view match_name(MatchKind kind) noexcept;

inline constexpr std::uint32_t kNoMatch = 0xffffffff;

/// What a record or item was paired with.
struct Match {
  std::uint32_t index = kNoMatch;
  MatchKind how = MatchKind::kNone;

  explicit operator bool() const noexcept { return index != kNoMatch; }
};

/// The records of two traces: for each record of one side, its counterpart on the other.
struct RecordMatches {
  std::vector<Match> of_target;     // as many as target.records(); index into reference.records()
  std::vector<Match> of_reference;  // as many as reference.records(); index into target.records()
};

/// Pairs records. Calls of modules: from the outermost inwards, in the order in which they ran; where one run
/// calls a module more often than the other, as one that stands at several places of a model, by the calls
/// around. Those left: by name. Gradients and what save() was given: by name, then without the class in the
/// name (kFuzzy). Calls of operators: aligned within each call of a module (a longest common subsequence of
/// the operators' names, in which pairs of equal shapes count more), then by name (kMoved). Backward records
/// follow their forward record. Without construct.json (null) all calls form one sequence. `pool`: null, to
/// use the calling thread alone.
MSPROBE_API RecordMatches match_records(const Trace& target, const Construct* target_construct,
                                        const Trace& reference, const Construct* reference_construct,
                                        ThreadPool* pool = nullptr);

/// Index into Trace::all_items().
using ItemIndex = std::uint32_t;

/// Why an item has no counterpart.
enum class NoMatchReason : std::uint8_t {
  kMatched,   // it has one
  kNoRecord,  // the record has none
  kNoItem,    // the record on the other side has no such argument or result, or None
  kShape,     // it is there, with another shape
  kDtype      // it is there, with a dtype that is not compared with this one
};

struct ItemPair {
  std::uint32_t target_record = 0;
  ItemIndex target = 0;
  std::uint32_t reference_record = kNoMatch;
  Match reference;  // index: an ItemIndex
  NoMatchReason reason = NoMatchReason::kMatched;
};

/// An item of the reference that nothing was paired with.
struct ReferenceItem {
  std::uint32_t record = 0;
  ItemIndex item = 0;
};

struct ItemMatches {
  std::vector<ItemPair> pairs;                // one for each item of the target, in the order of rows
  std::vector<ReferenceItem> reference_only;  // in the order of the file
};

/// Pairs the items of records that were paired: those of the same place in the record, of the same shape, and
/// of dtypes that are equal or both one of float32, float16 and bfloat16. Rows: record by record, in each
/// inputs, parameters, outputs, gradients. `pool`: as for match_records().
MSPROBE_API ItemMatches match_items(const Trace& target, const Trace& reference, const RecordMatches& records,
                                    ThreadPool* pool = nullptr);

/// Pairs items by mindstudio-probe's fuzzy rule: both lists are walked at once, and an item is paired with
/// the first one waiting on the other side whose shape is equal and whose name is equal without the count (of
/// an operator) or class (of a module). Those skipped stay alone.
MSPROBE_API ItemMatches match_items_fuzzy(const Trace& target, const Trace& reference);

/// Pairs items by names: `names` maps the name of the target to that of the reference, names that it lacks
/// stand for themselves. Shapes and dtypes need not agree.
MSPROBE_API ItemMatches match_items_mapped(const Trace& target, const Trace& reference,
                                           const std::map<std::string, std::string, std::less<>>& names);

/// Appends the name of an item: that of its file without suffix, else the record's with `.input`, `.output`
/// or
/// `.parameters` and the way to it.
MSPROBE_API void append_item_name(std::string& out, const Trace& trace, const Record& record,
                                  const Item& item);

/// The same for a record that goes by another name than in its trace.
MSPROBE_API void append_item_name(std::string& out, const Trace& trace, std::string_view record,
                                  const Item& item);

/// The same name as a text.
MSPROBE_API std::string item_name(const Trace& trace, std::uint32_t record, ItemIndex item);

/// Appends the name of a record without what counts the calls of a function, and without the class of a
/// module: "Torch.add.forward" of "Torch.add.3.forward", "Module.fc.forward.0" of
/// "Module.fc.Linear.forward.0". Other names stay as they are.
MSPROBE_API void append_without_count(std::string& out, std::string_view name);

}  // namespace msprobe::trace
