// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

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
  struct Position {
    PyCodeObject* code;
    int instruction;
    bool operator==(const Position&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Position& position) const noexcept {
      return reinterpret_cast<std::uintptr_t>(position.code) * 31 +
             static_cast<std::size_t>(position.instruction);
    }
    std::size_t operator()(const std::vector<Position>& stack) const noexcept {
      std::size_t result = stack.size();
      for (const Position& position : stack) result = (result ^ (*this)(position)) * 0x9e3779b97f4a7c15U;
      return result;
    }
  };
  const std::string* text_of(const Position& position);

  msprobe::dump::Recorder& recorder_;
  std::vector<Position> stack_;                                   // reused
  std::unordered_map<Position, const std::string*, Hash> texts_;  // keeps the code objects of its keys alive
  std::unordered_set<std::string> distinct_texts_;
  std::map<std::vector<const std::string*>, msprobe::trace::StackId>
      ids_by_text_;  // calls of one line share one
  std::unordered_map<std::vector<Position>, msprobe::trace::StackId, Hash> ids_;
};
