// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/trace.h"

namespace msprobe::trace {

/// Element trees as JSON, with holes that fills supply.
struct ElementText {
  struct Hole {
    std::size_t position;  // in `text`, ascending
    SlotId slot;
    int level;  // of the line that the hole is in
  };
  std::string text;
  std::vector<Hole> holes;
  std::size_t tensors = 0;
};

/// Formats what an ElementWriter collected: all elements as the entries of one list, or exactly one element.
/// `level`: spaces before the line that the text begins in. `scratch` is memory to work in, reused from call
/// to call. Throws FormatError for bytes that are no elements.
ElementText list_text(std::string_view bytes, int level, const Framework& framework, std::string& scratch);
ElementText single_text(std::string_view bytes, int level, const Framework& framework, std::string& scratch);

}  // namespace msprobe::trace
