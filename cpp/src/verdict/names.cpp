// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/names.h"

#include "msprobe/record_name.h"

namespace msprobe::verdict {
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
