// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The calls of one step of one rank, of both runs: names, places and values, as the records have them. What
/// is made of them stands in places_of_calls.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "msprobe/dump_pair.h"
#include "msprobe/operators.h"
#include "verdict/flow.h"
#include "verdict/model.h"
#include "verdict/names.h"
#include "verdict/place.h"

namespace msprobe::verdict {

// A bound against hostile files: modules inside of modules, which may stand in a circle.
constexpr int kDeepest = 64;

using metrics::Distance;
using trace::DumpPair;
using trace::Item;
using trace::ItemPair;
using trace::Record;
using trace::Trace;

inline constexpr std::uint32_t kNoRow = 0xffffffff;

inline bool is_input(trace::Item::Part part) {
  using Part = trace::Item::Part;
  return part == Part::kInputArgs || part == Part::kInputKwargs || part == Part::kInput ||
         part == Part::kParameters;
}

inline bool is_tensor(const Item& item) { return item.kind == Item::Kind::kTensor; }

/// Of an argument that one run alone passes; the other one has the default, which is another number.
inline bool is_a_number(const trace::Item& item) {
  return item.value.kind == trace::Scalar::Kind::kInteger || item.value.kind == trace::Scalar::Kind::kFloat;
}

/// Around what the program calls between the steps: what prepares the next one.
inline constexpr std::string_view kPreparation = "preparation";

/// In which part of a step a call is made.
enum class Zone : std::uint8_t { kModel, kClipping, kOptimizer };

/// One of the two runs.
struct Run {
  const Trace& trace;
  const trace::Construct* construct;         // null: there is none
  const std::vector<trace::Match>& matches;  // by record, in the other run; mispaired ones have none
  std::vector<std::uint32_t> rows{};         // by item
  mutable std::optional<Flow> values{};
  mutable std::vector<bool> unused{};  // by record

  std::string_view name(std::uint32_t record) const { return trace.name(trace.records()[record]); }
  std::span<const Item> items(std::uint32_t record) const { return trace.items(trace.records()[record]); }
  bool is_paired(std::uint32_t record) const { return static_cast<bool>(matches[record]); }
  /// The module, or the part of a step, that made a call; empty: none or unknown.
  std::string_view parent(std::string_view call) const {
    return construct == nullptr ? std::string_view() : construct->parent(call);
  }
  /// The record of the same call in this direction.
  std::optional<std::uint32_t> find(std::uint32_t record, trace::Direction direction) const {
    const auto found = trace.find(trace::RecordName(name(record)).with(direction));
    return found ? std::optional(static_cast<std::uint32_t>(*found)) : std::nullopt;
  }
  /// The row of an item; kNoRow: it has no counterpart, or its record is mispaired.
  std::uint32_t row_of(ItemIndex item) const { return rows[item]; }
  /// Where its values come from.
  const Flow& flow() const { return values ? *values : values.emplace(trace); }
  /// The earlier place with this value that tells where it comes from: one of both runs, or the call of this
  /// run alone that made it. What such a call takes, it did not make.
  ItemIndex origin(ItemIndex item) const {
    do item = flow().source(item);
    while (item != kNoItem && row_of(item) == kNoRow && is_input(trace.all_items()[item].part));
    return item;
  }
};

class Calls {
 public:
  /// Keeps what it is given.
  Calls(const Model& model, const DumpPair& pair, const std::vector<trace::RealMetrics>& metrics,
        const std::vector<Distance>& distances);

  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  const Model& model() const noexcept { return model_; }

  const DumpPair& pair() const noexcept { return pair_; }
  const Trace& target() const noexcept { return pair_.target; }
  const Trace& reference() const noexcept { return pair_.reference; }
  const Run& ours() const noexcept { return ours_; }
  const Run& theirs() const noexcept { return theirs_; }
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(target().records().size()); }

  // ---- records

  std::string_view name(std::uint32_t record) const { return target().name(target().records()[record]); }
  /// The module, or the part of a step, that made a call; empty: none or unknown.
  std::string_view parent(std::uint32_t record) const { return stands_[record].parent; }
  Zone zone(std::uint32_t record) const noexcept { return stands_[record].zone; }
  /// Prepares the step, and nothing of the step takes what it makes: it was for something that is not
  /// recorded, as an evaluation.
  bool is_unused(const Run& run, std::uint32_t record) const;
  /// In front of the first call of the model.
  bool is_preparation(std::uint32_t record) const { return parent(record) == kPreparation; }
  /// There, and models were called there, too, which is not recorded: what no call made may be of them.
  bool may_be_of_model(std::uint32_t record) const;
  /// Behind the backward pass, outside of modules.
  bool is_after_backward(std::uint32_t record) const noexcept { return stands_[record].is_after_backward; }
  /// Behind the last backward call of the step.
  std::uint32_t end_of_backward() const noexcept { return end_of_backward_; }
  /// Outside of modules, and the backward pass goes on behind it: an autograd function calls it.
  bool is_in_backward(std::uint32_t record) const noexcept { return stands_[record].is_in_backward; }
  /// The record of the reference that this one is paired with; kNoMatch: none.
  std::uint32_t counterpart(std::uint32_t record) const noexcept { return matches_.of_target[record].index; }
  bool is_paired(std::uint32_t record) const noexcept { return ours_.is_paired(record); }
  /// The record of the target that a record of the reference is paired with; kNoMatch: none.
  std::uint32_t of_reference(std::uint32_t record) const noexcept { return theirs_.matches[record].index; }
  /// Paired by name, and something else by its shapes: it counts as a call of one run only.
  bool is_mispaired(std::uint32_t record) const noexcept { return stands_[record].is_mispaired; }
  /// How many backward passes went through a backward call. Its record is of the last.
  std::uint32_t passes(std::uint32_t record) const { return target().records()[record].passes; }
  /// Other numbers of passes: the two records are of different ones, and say nothing of each other.
  bool is_of_another_pass(std::uint32_t record) const {
    return is_paired(record) && passes(record) != reference().records()[counterpart(record)].passes;
  }
  operators::Row operator_of(std::string_view record) const;
  /// The record of the target of the same call in this direction.
  std::optional<std::uint32_t> find(std::uint32_t record, trace::Direction direction) const {
    return ours_.find(record, direction);
  }
  /// The forward record of a backward one, and the other way, where both runs have it.
  std::optional<std::uint32_t> forward_of(std::uint32_t record) const;
  std::optional<std::uint32_t> backward_of(std::uint32_t record) const;
  /// Whether it writes into one of its arguments, by name or because it is asked to.
  bool writes_in_place(std::uint32_t record) const;

  // ---- rows: the items of both runs

  /// Those of a record of the target.
  std::span<const ItemPair> rows_of(std::uint32_t record) const noexcept {
    return std::span(pair_.matches.pairs).subspan(first_[record], first_[record + 1] - first_[record]);
  }
  const ItemPair& row(std::uint32_t index) const noexcept { return pair_.matches.pairs[index]; }
  /// Of the target.
  const Item& item(const ItemPair& row) const { return pair_.target_item(row); }
  /// Of the reference; null: there is none.
  const Item* other_item(const ItemPair& row) const { return pair_.reference_item(row); }
  std::uint32_t index(const ItemPair& row) const noexcept {
    return static_cast<std::uint32_t>(&row - pair_.matches.pairs.data());
  }
  /// A tensor of both runs that comes out of a call.
  bool is_result(const ItemPair& row) const noexcept {
    const Item& item = pair_.target_item(row);
    return row.reference && item.kind == Item::Kind::kTensor && !is_input(item.part);
  }
  const Distance& distance(const ItemPair& row) const { return distances_[index(row)]; }
  /// With elements measured against `floor` at least.
  Distance distance(const ItemPair& row, double floor) const;
  metrics::TensorFacts facts(const ItemPair& row) const {
    return trace::facts_of(reference(), *pair_.reference_item(row));
  }
  Tensor tensor(const ItemPair& row) const { return tensor(reference(), *pair_.reference_item(row)); }
  Tensor tensor(const Trace& trace, const Item& item) const;
  double unit(const ItemPair& row) const;
  std::string item_name(const ItemPair& row) const {
    return trace::item_name(target(), row.target_record, row.target);
  }
  /// What is in it does not matter: it is only written, holds whatever the memory held, is a device, or
  /// chooses how the call is computed.
  bool says_nothing(const ItemPair& row) const;
  /// Tensors of the reference that go into a call, and have no counterpart.
  std::span<const std::uint32_t> reference_only(std::uint32_t record) const;
  /// The two runs take it from other places, or one of them from a call that it has alone.
  bool is_taken_elsewhere(const ItemPair& row) const;
  /// What goes in is seen in another way, as by a view, for calls that one run makes alone: it is a part of
  /// these.
  bool is_moved_for_others(const ItemPair& row) const;
  /// The parameter of the module around that has this very value; empty: none.
  std::string parameter(const ItemPair& row) const;
  /// Of how many numbers an element of a result of so many is the sum.
  double terms(const Run& run, std::uint32_t record, const operators::Row& by, double result) const;
  /// The same of the forward call, for a backward one.
  double terms_of_forward(const Run& run, std::uint32_t record, const operators::Row& by) const;

  // ---- of the whole step

  /// The coarsest unit roundoff of what the reference computes.
  double coarsest_unit() const noexcept { return coarsest_unit_; }
  /// A gradient is measured against this size at least.
  double negligible_gradient() const noexcept { return negligible_gradient_; }
  bool has_modules_only() const { return target().level() == "L0"; }
  /// Several backward passes went through a call: all but the last, of which its record is, stand before it.
  bool has_earlier_passes() const noexcept { return has_earlier_passes_; }

 private:
  /// The shapes of a call.
  struct Shapes {
    std::vector<std::vector<std::int64_t>> tensors;  // that go in
    double result = 1;                               // elements
    double terms = 1;
  };
  static Shapes shapes(const Run& run, std::uint32_t record, const operators::Row& by);
  bool is_moved(const Run& run, std::uint32_t record) const;
  bool is_taken_by_lone_calls(const Run& run, ItemIndex item) const;
  void index_items();
  void find_zones();
  void find_mispaired();
  void find_unused(const Run& run) const;
  bool is_mispairing(std::uint32_t record, const std::unordered_set<std::string>& others) const;
  void set_aside(std::uint32_t record);

  const Model& model_;
  const DumpPair& pair_;
  const std::vector<trace::RealMetrics>& metrics_;
  const std::vector<Distance>& distances_;
  trace::RecordMatches matches_;  // without mispaired ones
  Run ours_, theirs_;
  std::vector<std::uint32_t> first_;  // rows, by record
  /// Where a record of the target stands.
  struct Stand {
    std::string_view parent;
    Zone zone = Zone::kModel;
    bool is_after_backward = false;
    bool is_in_backward = false;
    bool is_mispaired = false;
  };
  std::vector<Stand> stands_;  // by record
  std::uint32_t end_of_backward_ = 0;
  bool has_earlier_passes_ = false;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>>
      reference_only_;  // items, by record of the reference
  double coarsest_unit_ = 0;
  double negligible_gradient_ = 0;
};

/// A value for a sentence: "None", dtype and shape of a tensor, else its text.
std::string shown(const Trace& trace, const Item& item);
/// Why an item has no counterpart.
std::string_view word_of(trace::NoMatchReason reason);

}  // namespace msprobe::verdict
