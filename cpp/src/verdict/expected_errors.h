// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How far off the values are that only one run has. Nothing can be measured there: it is what the catalogue
/// expects of what goes in, call by call, from the last places that both runs have.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "msprobe/known_values.h"
#include "msprobe/step_walk.h"
#include "verdict/calls.h"
#include "verdict/place.h"

namespace msprobe::verdict {

/// What is known before a call.
struct Earlier {
  const compare::StepWalk* step;                            // the last; null: there is none
  double reached;                                           // how far off anything of this step is
  const std::unordered_map<std::uint32_t, double>& unseen;  // by row: what its distance cannot show
};

/// Whether the tensor `item` goes into a call, or (`is_saved`) is kept of a forward call for its backward
/// one.
bool is_source(const Item& item, bool is_saved, operators::Keeps keeps);

/// A result of one call, made of these sources, as a run has it.
Place place_of_call(const Calls& calls, const Run& run, std::uint32_t record, const Tensor& tensor,
                    std::vector<Source> sources);

class ExpectedErrors {
 public:
  enum class Of : std::uint8_t {
    kAll,
    kRounding,   // as if what both runs have were equal
    kWholePass,  // of what both runs have, what is equal and what no call made; else expected, not measured
  };

  /// Keeps what it is given.
  ExpectedErrors(const Calls& calls, const Run& run, Of errors = Of::kAll)
      : calls_(calls), run_(run), is_target_(&run == &calls.ours()), errors_(errors) {}

  /// Of an item of the run; measured where both runs have it.
  Source of(ItemIndex item, const Earlier& earlier) const;
  /// How far off parameters are as the step begins with them, by the values that they have in the run.
  const compare::KnownValues& parameters() const;

 private:
  struct Known {
    double error = 0;
    double bias = 0;             // the part of it that is one for all elements: of norm and mean
    std::uint32_t row = kNoRow;  // of the largest that was measured and goes into it
  };

  Source source(ItemIndex index, const Item& item) const;
  void add_record(std::uint32_t record, const Earlier& earlier) const;
  Known measured(std::uint32_t row, const Earlier& earlier) const;
  Known given(std::uint32_t record, const Item& item, const Earlier& earlier) const;
  Known made(std::uint32_t record, const Item& item) const;
  void add_sources(std::uint32_t record, bool is_saved, std::vector<Source>& found) const;

  const Calls& calls_;
  const Run& run_;
  const bool is_target_;
  const Of errors_;
  mutable std::vector<Known> known_;  // by item, of the first records
  mutable std::uint32_t records_ = 0;
  mutable double gradients_ = 0;  // the largest so far that a backward call gives
  mutable std::optional<compare::KnownValues> parameters_;
};

}  // namespace msprobe::verdict
