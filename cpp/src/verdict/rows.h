// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The rows of a pair of dumps by record and by item of either side.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dump_pair.h"
#include "msprobe/record_name.h"

namespace msprobe::verdict {

inline constexpr std::uint32_t kNoRow = 0xffffffff;

inline bool is_input(trace::Item::Part part) {
  using Part = trace::Item::Part;
  return part == Part::kInputArgs || part == Part::kInputKwargs || part == Part::kInput ||
         part == Part::kParameters;
}

class Rows {
 public:
  explicit Rows(const trace::DumpPair& pair);

  /// Those of a record of the target.
  std::span<const trace::ItemPair> of_record(std::uint32_t record) const noexcept {
    return std::span(pair_->matches.pairs).subspan(first_[record], first_[record + 1] - first_[record]);
  }
  std::uint32_t index(const trace::ItemPair& row) const noexcept {
    return static_cast<std::uint32_t>(&row - pair_->matches.pairs.data());
  }
  const trace::ItemPair& operator[](std::uint32_t row) const noexcept { return pair_->matches.pairs[row]; }
  /// The row of an item; kNoRow: it has no counterpart.
  std::uint32_t of_target(std::uint32_t item) const noexcept { return of_target_[item]; }
  std::uint32_t of_reference(std::uint32_t item) const noexcept { return of_reference_[item]; }

 private:
  const trace::DumpPair* pair_;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> of_target_;
  std::vector<std::uint32_t> of_reference_;
};

/// "blocks.0.attn" of "Module.blocks.0.attn.Attention.forward.0"; empty for anything else.
std::string module_path(std::string_view record);

/// "Attention" of the same.
std::string_view module_class(std::string_view record);

/// "Functional.gelu" of "Functional.gelu.3.forward"; empty for modules.
std::string operator_name(std::string_view record);

/// The records of the backward calls of a module, of the name of the record of its gradients.
std::vector<std::uint32_t> backward_calls(const trace::Trace& trace, std::string_view gradients);

/// Of an argument that one run alone passes; the other one has the default, which is another number.
inline bool is_a_number(const trace::Item& item) {
  return item.value.kind == trace::Scalar::Kind::kInteger || item.value.kind == trace::Scalar::Kind::kFloat;
}

inline bool is_module(std::string_view record) { return trace::RecordName(record).has_module_prefix(); }
inline bool is_backward(std::string_view record) { return trace::RecordName(record).is_backward(); }
inline bool is_collective(std::string_view record) {
  return trace::RecordName(record).has_collective_prefix();
}

}  // namespace msprobe::verdict
