// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "msprobe/dump.h"
#include "python_frames.h"

/// The text of a place in the code, as stack.json has it: "File F, line N, in f, \n source". Made once for
/// each place, and kept as long as this. Needs the GIL.
class FrameTexts {
 public:
  /// Null for what stack.json leaves out: our own frames, those by which torch comes to our mode, and those
  /// without source.
  const std::string* text_of(const CodePosition& position);

 private:
  std::unordered_map<CodePosition, const std::string*, CodePositionHash>
      texts_;  // keeps the code objects of its keys alive
  std::unordered_set<std::string> distinct_;
};

/// Python call stacks as stack.json has them. A stack is known by its code positions, and stays known from
/// one step to the next; the text of a position, with its source line, is made once in the life of the
/// process. Needs the GIL.
class StackCollector {
 public:
  explicit StackCollector(msprobe::dump::Recorder& recorder);

  /// The stack of the calling thread, innermost frame first, without frames of msprobe itself.
  msprobe::trace::StackId collect();
  /// Ids belong to a step: each stack is told to the recorder again.
  void begin_step();

  /// Whether the calling thread repeats a forward for activation checkpointing.
  static bool in_recompute();

 private:
  // What stack.json shows of a stack; calls of one line share one.
  struct Shown {
    std::vector<const std::string*> frames;
    std::uint64_t step = 0;  // of `id`
    msprobe::trace::StackId id = 0;
  };
  // A stack in the table of those known, which is one piece of memory: it is looked into at every call.
  struct Known {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0;  // in positions_
    std::uint32_t count = 0;
    Shown* shown = nullptr;  // null: a free place
  };
  std::uint64_t take_stack();
  Known* place_of(std::uint64_t hash);
  Shown& add(std::uint64_t hash);
  void grow();

  msprobe::dump::Recorder& recorder_;
  std::uint64_t step_ = 1;
  std::vector<CodePosition> stack_;      // the one at hand; reused
  std::vector<CodePosition> positions_;  // of all known stacks
  std::vector<Known> known_;             // by hash, the next free place after it; a power of two of places
  std::size_t known_count_ = 0;
  std::map<std::vector<const std::string*>, Shown> shown_;
  FrameTexts texts_;
};
