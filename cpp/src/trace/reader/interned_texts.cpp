// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/reader/interned_texts.h"

#include <limits>

namespace msprobe::trace {

Text InternedTexts::find(std::string_view text) {
  if (const auto known = texts_.find(text); known != texts_.end()) return known->second;
  bytes_ += text.size();
  if (memory_.size() > std::numeric_limits<std::uint32_t>::max()) bytes_ = most_bytes_ + 1;
  if (is_full()) return {};
  const Text result = {.offset = static_cast<std::uint32_t>(memory_.size()),
                       .length = static_cast<std::uint32_t>(text.size())};
  memory_ += text;
  texts_.emplace(text, result);
  return result;
}

}  // namespace msprobe::trace
