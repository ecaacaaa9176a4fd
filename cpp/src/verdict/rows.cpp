// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/rows.h"

#include "msprobe/record_name.h"

namespace msprobe::verdict {
Rows::Rows(const trace::DumpPair& pair) : pair_(&pair) {
  const auto& rows = pair.matches.pairs;
  const std::size_t records = pair.target.records().size();
  first_.assign(records + 1, static_cast<std::uint32_t>(rows.size()));
  of_target_.assign(pair.target.all_items().size(), kNoRow);
  of_reference_.assign(pair.reference.all_items().size(), kNoRow);
  for (std::size_t i = rows.size(); i-- > 0;) {
    first_[rows[i].target_record] = static_cast<std::uint32_t>(i);
    if (!rows[i].reference) continue;
    of_target_[rows[i].target] = static_cast<std::uint32_t>(i);
    of_reference_[rows[i].reference.index] = static_cast<std::uint32_t>(i);
  }
  for (std::size_t r = records; r-- > 0;) {
    const bool is_empty = first_[r] == rows.size() || rows[first_[r]].target_record != r;
    if (is_empty) first_[r] = first_[r + 1];
  }
}

std::string module_path(std::string_view record) {
  const trace::RecordName name(record);
  return name.has_module_prefix() ? std::string(name.path()) : std::string();
}

std::string_view module_class(std::string_view record) {
  const trace::RecordName name(record);
  return name.has_module_prefix() ? name.type() : std::string_view();
}

std::string operator_name(std::string_view record) {
  const trace::RecordName name(record);
  return name.kind() == trace::NameKind::kCall ? std::string(name.callee()) : std::string();
}

std::vector<std::uint32_t> backward_calls(const trace::Trace& trace, std::string_view gradients) {
  std::vector<std::uint32_t> found;
  const std::string calls = std::string(trace::RecordName(gradients).callee()) + ".backward.";
  while (const auto next = trace.find(calls + std::to_string(found.size()))) {
    found.push_back(static_cast<std::uint32_t>(*next));
  }
  return found;
}

}  // namespace msprobe::verdict
