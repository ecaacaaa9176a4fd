// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "fuzz_target.h"
#include "io/utf8.h"
#include "msprobe/trace_reader.h"

using namespace msprobe::fuzz;
using msprobe::trace::Construct;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file(as_text(data, size));
  refuse_or([&] {
    const auto stacks = msprobe::trace::parse_stacks(file, "stack.json");
    for (const std::string& frame : stacks.frames("a")) {
      promise(msprobe::io::find_invalid_utf8(frame) == std::string::npos, "every text is UTF-8");
    }
  });
  refuse_or([&] {
    const Construct construct = msprobe::trace::parse_construct(file, "construct.json");
    for (const Construct::Entry& entry : construct.entries()) {
      promise(construct.parent(entry.name) == entry.parent, "the parent of an entry is found by its name");
    }
  });
  return 0;
}
