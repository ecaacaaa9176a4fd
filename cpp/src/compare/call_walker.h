// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/non_finite.h"
#include "compare/call_walk.h"
#include "compare/flow.h"
#include "compare/rounding_model.h"
#include "compare/rows.h"
#include "msprobe/operators.h"
#include "msprobe/step_walk.h"
#include "trace/item/uninitialised.h"
#include "trace/match/parent_cursor.h"

namespace msprobe::compare {

/// The walk over the calls of a step, in the order of the target. Its parts: what only one run calls
/// (call_walk_alone.cpp), arguments and tensors that come in (call_walk_inputs.cpp), results and gradients
/// (call_walk_results.cpp); the walk itself, effects and the summary are in call_walk.cpp.
class CallWalker {
 public:
  CallWalker(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
             const std::vector<Distance>& distances, const StepWalk* before, bool has_state);

  CallWalk run();

 private:
  using Item = trace::Item;
  using ItemPair = trace::ItemPair;
  using Record = trace::Record;
  using Trace = trace::Trace;
  using Part = Item::Part;

  static constexpr double kUnknown = kNaN;
  static constexpr std::size_t kMostFindings = 20000;
  static constexpr int kDeepest = 64;  // modules inside of modules

  enum class Zone : std::uint8_t { kModel, kClipping, kOptimizer };

  // What is known of a record of the target.
  struct Seen {
    double high = 0;      // distance of its results at most
    double noise = 0;     // the same, against the terms that they are sums of
    double in_high = 0;   // of what goes in, at most
    double in_value = 0;  // and most likely
    double strength = 0;  // of the result that is farthest beyond what is allowed
    double effect = 0;    // the same by what goes in alone, whatever happens inside of it
    bool has_result = false;
    bool in_is_equal = true;
    bool out_is_equal = true;
  };

  // Of the calls inside of a module.
  struct Inside {
    double high = 0;
    double bias = 0;
    double unit = 0;
  };

  // Calls that one run has and the other has not, one after the other in one module; named after the
  // outermost of them.
  struct Alone {
    std::string name;
    std::uint32_t first = 0;  // record
    std::uint32_t count = 0;
    std::uint32_t computing = 0;  // functions of floating point in these calls
    double order = 0;
    bool is_missing = false;
    std::string_view around;  // the module that both runs have
    bool exact_before = true;
    double effect = kUnknown;
    bool is_update = false;  // behind the backward pass, outside of modules
    bool is_looked_at = false;
  };

  // A finding that waits for its effect, the record that shows it, and how far two numbers are apart:
  // infinite for what are no numbers of floating point.
  struct Waiting {
    std::size_t finding = 0;
    std::uint32_t record = 0;
    double apart = 0;
  };

  std::string_view name(std::uint32_t record) const {
    return pair_.target.name(pair_.target.records()[record]);
  }
  std::string_view reference_name(std::uint32_t record) const {
    return pair_.reference.name(pair_.reference.records()[record]);
  }
  const Distance& distance_of(const ItemPair& row) const { return distances_[rows_.index(row)]; }
  Distance distance_of(const ItemPair& row, double floor) const;
  std::string item_name(const ItemPair& row) const {
    return trace::item_name(pair_.target, row.target_record, row.target);
  }
  const Flow& target_flow();
  const Flow& reference_flow();

  Finding& add(FindingKind kind, std::uint32_t record);

  std::string_view parent_of(std::uint32_t record) { return parents_.parent(name(record)); }
  // Operators of optimizers, for records that do not tell who called.
  static bool is_update(std::string_view operator_name);
  Zone zone_of(std::uint32_t record);

  // Behind the backward pass calls outside of modules are those of clipping and the optimizer.
  void note_place(std::uint32_t record);

  // ---- Calls of one side only

  void collect_missing();

  // What the optimizer begins with is found by its value.
  void collect_gradients();

  // Where a module computes the same by other calls, some of one run may be paired with others of the same
  // name that do something else. They tell by their shapes, and count as calls of one run only.
  void set_strangers_aside();

  bool is_stranger(std::uint32_t record, const std::unordered_set<std::string_view>& other_calls);

  void set_aside(std::uint32_t record);

  // The row of an item, unless its record is set aside.
  std::uint32_t row_of_reference(ItemIndex item) const;
  std::uint32_t row_of_target(ItemIndex item) const;

  void collect_reference_only();

  void add_missing_before(std::uint32_t record);
  void add_extra(std::uint32_t record) { add_alone(record, record, false); }

  // The outermost module around a call that the other run has not either, and the first module around that it
  // has.
  struct Place {
    std::string_view outermost;
    std::string_view around;
  };
  Place place_of(std::string_view call, bool is_missing) const;

  void add_alone(std::uint32_t record, double order, bool is_missing);

  void tell(Alone& alone);

  // 1 where numbers of floating point come out that are not just moved, 2 where they are sums of products:
  // with those, terms may cancel out.
  std::uint32_t functions_in(const Trace& trace, std::uint32_t record) const;

  // What is computed from them; where that are calls of this run only, too, what comes of those. A file may
  // have a longer chain of them than this thread has a stack.
  double effect_of(std::size_t index);

  // The groups of calls that take a result of these.
  std::vector<std::size_t> consumers(const Alone& alone);

  // ---- Calls of both sides

  void visit(std::uint32_t record);

  bool same_gradient_flag(const ItemPair& row) const;

  void visit_equal(std::uint32_t record, std::span<const ItemPair> rows, Seen& seen);

  void visit_different(std::uint32_t record, std::span<const ItemPair> rows, Seen& seen);

  static void note_input(Seen& seen, const Influence& one);

  std::optional<std::uint32_t> forward_of(std::uint32_t record) const;
  std::optional<std::uint32_t> forward_record(std::uint32_t record) const;

  // False when a tensor goes in that cannot be compared. `is_saved`: of the forward call, of which the
  // results count as well.
  bool collect_influences(std::uint32_t record, std::span<const ItemPair> rows, bool is_saved,
                          std::vector<Influence>& influences);

  // What is added up counts with its coefficient: x + alpha y, x + w (y - x).
  void weigh_terms(std::uint32_t record, std::span<Influence> terms) const;
  const Item* added_bias(std::span<const ItemPair> rows) const;

  std::size_t reference_only_tensors(std::uint32_t record) const;

  Influence influence_of(const ItemPair& row, const Item& reference, bool is_saved);

  Result result_of(const ItemPair& row, bool backward) const {
    return compare::result_of(trace::facts_of(pair_.reference, *pair_.reference_item(row)), backward);
  }

  bool is_overwritten(std::uint32_t record, const Item& item) const;

  // ---- Arguments

  // Returns how many settings of the call differ.
  std::size_t visit_arguments(std::uint32_t record, std::span<const ItemPair> rows, Zone zone);

  Finding& add_argument(std::uint32_t record, const std::string& item);

  static void tell_values(Finding& finding);

  // Of values, and of tensors without counterpart. The effect shows in the results of the call.
  std::size_t add_value(std::uint32_t record, const std::string& item, std::string ours, std::string theirs,
                        bool is_tensor, double apart);

  std::size_t finding_number(const Finding& finding) const;

  // The order inside of a list of tensors, such as those that are clipped together, is of no importance.
  bool same_tensors_in_other_order(std::uint32_t record) const;

  // ---- Tensors that come in

  // What a tensor may be off by where it comes in, by where it comes from in the reference.
  struct Explained {
    Allowance allowed;
    ItemIndex source = kNoItem;  // of the reference
    std::size_t alone = kNoAlone;
  };

  Explained explain_input(const ItemPair& row, bool backward);

  // Behind the backward pass: the row that this value comes from in the target, unchanged.
  std::optional<std::uint32_t> source_in_target(const ItemPair& row);

  double unit_of(const Item& reference) const {
    return metrics::unit_roundoff(trace::dtype_of(pair_.reference.text(reference.dtype)));
  }

  // How far off what goes into calls that only the reference has is, through all of them.
  struct Resolved {
    double high = 0;
    double value = 0;
    double bias = 0;
  };

  // What comes out of calls of one run may be off by. A single one is a call like others, of which the inputs
  // are known.
  static Allowance through(const Alone& alone, const Resolved& led, double unit, double count);
  Resolved known(std::uint32_t row) const;
  // In the order of the records, as what goes into one comes from those before: a file may have a longer
  // chain of them than this thread has a stack.
  Resolved resolved(std::uint32_t record);
  Resolved resolve(std::uint32_t record);

  void visit_input(std::uint32_t record, const ItemPair& row, const Distance& apart);

  Finding& add_input(std::uint32_t record, const ItemPair& row, const Distance& apart,
                     const Allowance& allowed, double strength);

  // What goes into the first call of a module is what goes into the module: its caller decided.
  void name_after_module(Finding& finding, const ItemPair& row);

  // A difference that comes out of calls which only one run has is theirs.
  bool credit_alone(const Explained& explained, ItemIndex ours, double strength);

  // The result of a module is that of the last call inside, which may be of one run only.
  void credit_module(const ItemPair& row, const Distance& apart);
  void credit(std::size_t alone, double strength);

  // A value that the reference has from an earlier place unchanged, and the target has not.
  void tell_in_place(Finding& finding, const ItemPair& row, ItemIndex source, ItemIndex ours);

  bool writes_in_place(std::uint32_t record) const;
  // relu(x, True)
  bool asks_in_place(std::uint32_t record, std::span<const Item> items) const;

  void visit_parameter(std::uint32_t record, const ItemPair& row, const Distance& apart,
                       const std::string& parameter);

  // What an optimizer whose calls are not seen may have made of the parameter that the step before began
  // with: some elements of a gradient are nothing but rounding.
  Allowance allowed_of_updated(const Item& reference, const std::string& key) const;
  static std::string parameter_key(std::string_view module, std::string_view parameter) {
    return "parameter." + module_path(module) + '.' + std::string(parameter);
  }
  // For the next step: how far off the parameters are, and what they are in the reference.
  void keep_parameters();

  // The parameter of the module around that has this very value: the same statistics in the target.
  std::string parameter_of(std::uint32_t record, const ItemPair& row);

  // ---- Results

  void visit_results(std::uint32_t record, std::span<const ItemPair> rows,
                     const std::vector<Influence>& influences, double floor, bool knows_inputs,
                     std::size_t arguments, Seen& seen);

  // This result may be off by so much, and no sketch shows it.
  void hide(const Item& reference, double error);

  // How far the reference's call moved its first tensor, as a part of it.
  double step_of(const ItemPair& row) const;

  operators::Row traits_of_record(std::string_view call) const;

  Allowance allowed_of(std::uint32_t record, const operators::Row& traits, const Result& result,
                       std::span<const Influence> influences, bool knows_inputs);

  void tell_result(std::uint32_t record, const ItemPair& row, const Distance& apart, const Allowance& allowed,
                   bool is_excluded, const operators::Row& traits, const Seen& seen);

  // Where elements were near a limit, as of a router, others are chosen, and another number of them.
  bool is_other_choice(const ItemPair& row) const {
    return has_flips_ && !row.reference && row.reason == trace::NoMatchReason::kShape;
  }

  // A result that cannot be compared: of another dtype or shape.
  void visit_lone_result(std::uint32_t record, const ItemPair& row, const Item& item,
                         std::span<const Influence> influences, bool knows_inputs, std::size_t arguments,
                         const operators::Row& traits);
  static bool only_sums(const operators::Row& traits);

  // Whether an earlier call of the same operator, on equal shapes, agreed in all.
  bool was_equal_before(std::uint32_t record);
  // Equal for calls of one operator on equal shapes and dtypes.
  std::uint64_t call_key(std::uint32_t record) const;

  void note_strength(std::uint32_t record, double strength);

  // What the modules around may be off by.
  void note_inside(std::uint32_t record, std::span<const ItemPair> rows, const Seen& seen);

  // Of a value that no record of this step leads to: as the backward pass left it as the gradient of a
  // parameter, or the optimizer in the step before.
  std::optional<Allowance> made_by_backward(const metrics::TensorFacts& reference) const;
  std::optional<Allowance> left_by_optimizer(const metrics::TensorFacts& reference) const;

  void keep_updated(std::span<const ItemPair> rows);

  // Of the results that the reference computes.
  double coarsest_unit() const;

  // ---- Gradients of parameters

  // Below this an element of a gradient is nothing but rounding: a part of the median over all parameters.
  double negligible_gradient() const;

  void visit_gradients(std::uint32_t record);

  // The first result of a backward call that is this gradient.
  ItemIndex backward_result(ItemIndex gradient);

  void note_closest(double strength, const ItemPair& row);

  void note_gradient(const ItemPair& row, const Distance& apart);

  // All that goes into the gradients of a module's parameters: every backward call of it. Without one,
  // everything that came before.
  Allowance allowed_of_module(std::string_view gradients) const;

  // ---- Effects

  void find_effect(const Waiting& waiting);

  // Where a module computes the same by other calls, a call that both have may be given something else on the
  // way.
  void find_effect_of_rearranged(const Waiting& waiting);

  void find_effect_of_choice(const Waiting& waiting);

  // The result of the innermost call of a module around that both runs have; without one, what goes into the
  // next calls.
  double effect_around(std::string_view module, bool of_reference, double order);

  // ---- Texts, summary

  static std::string show(const Trace& trace, const Item* item);
  static std::string_view reason(trace::NoMatchReason reason);

  // A result that is whatever the memory held before.
  bool holds_nothing(const ItemPair& row) const {
    return !is_input(pair_.target_item(row).part) && trace::is_uninitialised(name(row.target_record));
  }

  // Where every call is off by no more than it may be, and all together are by more than that.
  void find_stretch();

  // False where a call has inputs that are too far off, and no result before was: they come from a place that
  // is not recorded, or the call is another one. Modules tell in any case.
  bool began_before(std::uint32_t record, double most) const;

  // Of what no finding tells: another shape or dtype, or values that have little in common.
  void note_stranger(const ItemPair& row);

  // Equal numbers of another dtype are not the same result. Frameworks name one in other ways.
  bool is_of_other_dtype(const ItemPair& row) const;

  void summarize();

  static constexpr std::size_t kNoAlone = static_cast<std::size_t>(-1);

  const DumpPair& pair_;
  trace::RecordMatches records_;  // without the pairs that are set aside
  const std::vector<RealMetrics>& metrics_;
  const std::vector<Distance>& distances_;
  const StepWalk* before_;
  bool has_state_;
  Rows rows_;
  trace::ParentCursor parents_;
  std::vector<Seen> seen_;  // by record of the target
  std::optional<Flow> target_flow_, reference_flow_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> missing_;  // record of the target before which, record
  std::size_t next_missing_ = 0;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> reference_only_;  // items, by record
  std::vector<Alone> alone_;
  std::size_t last_missing_ = kNoAlone, last_extra_ = kNoAlone;
  std::unordered_map<std::uint32_t, std::size_t> alone_of_reference_, alone_of_target_;  // by record
  std::vector<Resolved> resolved_;                       // by record of the reference, so far
  std::unordered_map<std::string_view, Inside> inside_;  // by module
  std::vector<Waiting> waiting_;
  std::vector<Waiting> rearranged_;
  std::vector<Waiting> chosen_;  // tensors of other elements than in the reference
  std::vector<std::uint32_t> gradients_;
  std::unordered_set<std::uint64_t> equal_calls_;  // operators and shapes seen with equal inputs and results
  std::vector<std::uint32_t> equal_records_;       // those to be added to them
  double negligible_gradient_ = 0;
  double coarsest_unit_ = 0;
  double noise_ = 0;      // the largest distance of a result so far
  bool differs_ = false;  // something differed before, in this step or those before it
  bool is_after_backward_ = false;
  KnownValues gradients_of_parameters_;
  double largest_gradient_ = 0;                       // distance
  double whole_gradient_ = 0;                         // of all of them as one vector
  std::unordered_map<std::uint64_t, double> hidden_;  // what no sketch shows, by values of the reference
  bool has_flips_ = false;                            // integers or flags that were computed differ
  const ItemPair* largest_row_ = nullptr;
  std::vector<bool> set_aside_;  // by record of the target
  Finding discarded_;
  CallWalk result_;
};

}  // namespace msprobe::compare
