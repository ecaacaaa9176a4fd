// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "repeated_calls.h"

namespace {

constexpr std::size_t kMostFunctions = 1000;  // in a report, for one reason

}  // namespace

void RepeatedCalls::leave_out(std::string_view api, const std::string& reason) {
  auto& functions = left_out[reason];
  const std::string name(api);
  if (functions.size() < kMostFunctions || functions.count(name) > 0) ++functions[name];
}

void RepeatedCalls::note_fault(std::string_view api, const std::string& what) {
  if (faults.size() < kMostFunctions) faults.emplace(api, what.substr(0, what.find('\n')));
}
