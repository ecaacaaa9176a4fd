// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What each place among the calls of a step is made of.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "msprobe/step_walk.h"
#include "verdict/calls.h"
#include "verdict/expected_errors.h"
#include "verdict/place.h"
#include "verdict/unpaired.h"

namespace msprobe::verdict {

/// What a place is made of, and where a value of the reference comes from.
struct InputPlace {
  Place place;
  ItemIndex source = kNoItem;                // item of the reference that has this value
  std::optional<std::uint32_t> of_unpaired;  // group of calls that only the reference has, and that made it
  bool is_of_model = false;  // a model may have made it, in front of the calls that tell of it
};

/// What calls of one run only make of a value that the other run hands on as it is.
struct OwnChange {
  metrics::Distance apart;  // of what the value was in the same run: no other kernel lies between
  Place place;              // what rounding of these calls makes of it
};

/// A parameter, as the optimizer left it in the step before.
Place left_behind(const Model& model, const compare::StepWalk& before, const std::string& name,
                  const metrics::TensorFacts& facts, const Tensor& tensor);

class CallPlaces {
 public:
  using StepWalk = compare::StepWalk;

  /// `before`: of the step before; null for the first.
  CallPlaces(const Calls& calls, const Unpaired& unpaired, const StepWalk* before);

  /// What goes into a call.
  InputPlace input(const ItemPair& row) const;
  /// Of what goes into a call, and which an item of the target, `ours`, has the value of.
  std::optional<OwnChange> own_change(const ItemPair& row, const InputPlace& input, ItemIndex ours) const;
  /// How far off a value of the reference may be that only it has, behind all calls.
  metrics::Distance expected(ItemIndex of_reference) const {
    return of_theirs_.of(of_reference, {before_, reached_.back(), unseen_}).distance;
  }
  /// A parameter that goes into a call, where no training state has it. `name`: of the parameter.
  Place parameter(const ItemPair& row, const std::string& name) const;
  /// What comes out of a call, of these sources; `knows_sources`: all of them are known.
  Place result(const ItemPair& row, const std::vector<Source>& sources, bool knows_sources) const;
  /// A gradient of a parameter.
  Place gradient(const ItemPair& row) const;

  /// What goes into a call, and what its forward call saved for it. False: something cannot be compared.
  bool sources(std::uint32_t record, std::vector<Source>& found) const;

  /// What a number that goes into a call is off by, where the program made it of what differs before.
  std::optional<Source> computed_number(const ItemPair& row) const;

  /// In the order of the calls: what is known of this place, which differs, from now on.
  void keep(const ItemPair& row, const Place& place);

  /// How far off the calls inside of a module are; null: none of them is off, or none is seen.
  struct Inside {
    double error = 0;
    double unit = 0;
    double parameters = 0;  // how far off those are that go into them
  };
  const Inside* inside(std::string_view module) const;
  void keep_inside(std::uint32_t record, double error);
  /// How far off the parameters of a module are, those of the modules inside as well: it is made of them,
  /// too.
  double parameters_of(std::uint32_t record) const;

  /// Integers or flags that were computed differ.
  bool has_other_choices() const noexcept { return has_other_choices_; }

  /// The largest distance of a result before this record.
  double before(std::uint32_t record) const { return reached_[record]; }
  void reach(std::uint32_t record, double error);

  static std::string parameter_key(std::string_view module, std::string_view parameter);

 private:
  Source source(const ItemPair& row, bool is_saved) const;
  /// L2, of the terms of so many sums over what goes in.
  double largest_sum(std::uint32_t record, double count) const;
  bool add_sources(std::uint32_t record, bool is_saved, std::vector<Source>& found) const;
  void sum_over_rows(std::uint32_t record, std::vector<Source>& terms) const;
  Source source_at(std::uint32_t row) const;
  Place input_without_source(const ItemPair& row) const;
  Place made_by_model(std::uint32_t record, const Tensor& tensor) const;
  double step_of(const ItemPair& row) const;

  const Model& model_;
  const Calls& calls_;
  const Unpaired& unpaired_;
  const StepWalk* before_;
  const ExpectedErrors of_theirs_, of_ours_, rounding_of_theirs_, rounding_of_ours_;
  std::vector<double> reached_;                          // by record
  std::unordered_map<std::uint32_t, double> unseen_;     // by row
  std::unordered_map<std::uint32_t, Common> common_;     // by row
  std::unordered_map<std::string_view, Inside> inside_;  // by module
  bool has_other_choices_ = false;
  compare::KnownValues gradients_;                    // of parameters, by value
  double largest_gradient_ = 0, whole_gradient_ = 0;  // distances
};

}  // namespace msprobe::verdict
