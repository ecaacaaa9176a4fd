// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/what_happened.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace msprobe::verdict {
namespace {

// What goes into the first call of a module is what goes into the module, where that differs: its caller
// decided.
void name_after_module(const Calls& calls, const ItemPair& row, Finding& finding) {
  const Trace& target = calls.target();
  const std::uint64_t value = value_key(target, calls.item(row));
  std::uint32_t inner = row.target_record;
  for (int depth = 0; value != 0 && depth < kDeepest; ++depth) {
    const std::string_view around = calls.parent(inner);
    const auto module = is_module(around) ? target.find(around) : std::nullopt;
    if (!module) return;
    inner = static_cast<std::uint32_t>(*module);
    const auto rows = calls.rows_of(inner);
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const ItemPair& one) {
      const Item& item = calls.item(one);
      return is_input(item.part) && !calls.distance(one).equal && value_key(target, item) == value;
    });
    if (same == rows.end()) return;
    finding.record = around;
    finding.name = calls.item_name(*same);
    finding.module = module_path(calls.parent(inner));
    finding.operator_name = operator_name(around);
  }
}

}  // namespace

// A value that the reference has from an earlier place unchanged, and the target has not. Two arguments of
// one call that are equal say nothing of each other.
void tell_what_happened(const Calls& calls, const ItemPair& row, ItemIndex source, ItemIndex ours,
                        Finding& finding) {
  name_after_module(calls, row, finding);
  const std::uint32_t known = calls.theirs().row_of(source);
  if (known == kNoRow || calls.row(known).target_record == row.target_record) return;
  const std::string from = calls.item_name(calls.row(known));
  finding.because = {{Reason::kNotTheSame, {finding.name, from}}};
  // What no call made may be two tensors of equal values, as masks of two layers.
  const ItemIndex first = calls.theirs().flow().first(source);
  if (!is_input(calls.reference().all_items()[first].part)) finding.kind = FindingKind::kInPlace;
  if (ours == kNoItem) return;
  const std::uint32_t writer = calls.ours().flow().record(ours);
  if (calls.writes_in_place(writer)) {
    finding.kind = FindingKind::kInPlace;
    finding.because = {{Reason::kWritten, {finding.name, from, std::string(calls.name(writer))}}};
    finding.record = calls.name(writer);
    finding.operator_name = operator_name(calls.name(writer));
  } else if (writer != row.target_record) {
    finding.kind = FindingKind::kArgument;
    finding.because = {
        {Reason::kAnotherTensor, {finding.name, from, trace::item_name(calls.target(), writer, ours)}}};
  }
}

}  // namespace msprobe::verdict
