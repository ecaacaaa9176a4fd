// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../python_frames.h"
#include "msprobe/dump.h"

/// Python call stacks as stack.json has them. A stack is known by its code positions; the text of a position,
/// with its source line, is made once in the life of the process. Needs the GIL.
class StackCollector {
 public:
  explicit StackCollector(msprobe::dump::Recorder& recorder) : recorder_(recorder) {}

  /// The stack of the calling thread, innermost frame first, without frames of msprobe itself.
  msprobe::trace::StackId collect();
  /// Ids belong to a step.
  void begin_step() {
    ids_.clear();
    ids_by_text_.clear();
  }

  /// Whether the calling thread repeats a forward for activation checkpointing.
  static bool in_recompute();

 private:
  const std::string* text_of(const CodePosition& position);

  msprobe::dump::Recorder& recorder_;
  std::vector<CodePosition> stack_;  // reused
  std::unordered_map<CodePosition, const std::string*, CodePositionHash>
      texts_;  // keeps the code objects of its keys alive
  std::unordered_set<std::string> distinct_texts_;
  std::map<std::vector<const std::string*>, msprobe::trace::StackId>
      ids_by_text_;  // calls of one line share one
  std::unordered_map<std::vector<CodePosition>, msprobe::trace::StackId, CodePositionHash> ids_;
};
