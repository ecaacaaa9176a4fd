// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The sentences of a verdict. A finding says which of them hold and what they are about; here, and nowhere
/// else, they become words.

#include <string>
#include <string_view>

#include "msprobe/verdict.h"

namespace msprobe::verdict {

using compare::Clause;
using compare::Language;
using compare::Reason;

/// A word for programs, "result_of_equal_inputs", and the sentence in both languages, with {0}, {1} for what
/// it is about.
struct ReasonRow {
  Reason reason;
  std::string_view id;
  std::string_view english;
  std::string_view chinese;
};

const ReasonRow& row_of(Reason reason) noexcept;

std::string text_of(const Clause& clause, Language language);

}  // namespace msprobe::verdict
