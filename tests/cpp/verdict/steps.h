// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Steps of two runs written by hand, as their files have them.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/step_walk.h"
#include "temp_dir.h"

namespace steps {

/// With all its digits.
inline std::string digits(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

/// 16 elements, `size` times as large as others.
struct Values {
  double size = 1;
  std::string_view dtype = "float32";

  std::string numbers(std::string_view max, std::string_view min, std::string_view mean,
                      std::string_view norm) const {
    const auto one = [](std::string_view key, double value) {
      return '"' + std::string(key) + "\": " + digits(value);
    };
    return R"("dtype": "torch.)" + std::string(dtype) + R"(", "shape": [4, 4], )" + one(max, 2.25 * size) +
           ", " + one(min, -1.625 * size) + ", " + one(mean, 0.1875 * size) + ", " + one(norm, 4.125 * size);
  }
};

/// Of dump.json.
inline std::string tensor(Values values = {}) {
  return R"({"type": "torch.Tensor", )" + values.numbers("Max", "Min", "Mean", "Norm") + "}";
}

inline std::string number(double value) { return R"({"type": "float", "value": )" + digits(value) + "}"; }

inline std::string call(std::string_view name, const std::string& inputs, const std::string& outputs) {
  const bool is_backward = name.find(".backward") != name.npos;
  return '"' + std::string(name) + R"(": {")" + (is_backward ? "input" : "input_args") + "\": [" + inputs +
         R"(], "output": [)" + outputs + "]}";
}

/// Of a module with one parameter.
inline std::string module_call(std::string_view name, const std::string& inputs, const std::string& parameter,
                               const std::string& outputs) {
  return '"' + std::string(name) + R"(": {"input_args": [)" + inputs + R"(], "parameters": {"weight": )" +
         parameter + R"(}, "output": [)" + outputs + "]}";
}

/// Of diagnosis.json.
inline std::string entry(Values values = {}) {
  return "{" + values.numbers("max", "min", "mean", "norm") + "}";
}

struct Run {
  std::string calls;
  std::string state = {};      // members of an object; empty: there is none
  std::string construct = {};  // of construct.json: "call": "around", ...; empty: there is none
};

inline msprobe::trace::Trace trace_of(const Run& run) {
  return msprobe::trace::parse_trace(R"({"task": "statistics", "level": "mix", "data": {)" + run.calls + "}}",
                                     "dump.json");
}

inline std::optional<msprobe::trace::TrainingState> state_of(const Run& run) {
  if (run.state.empty()) return std::nullopt;
  const msprobe::test::TempDir folder;
  msprobe::test::write_bytes(folder / "diagnosis.json", "{" + run.state + "}");
  return msprobe::trace::read_training_state(folder / "diagnosis.json");
}

inline std::optional<msprobe::trace::Construct> construct_of(const Run& run) {
  if (run.construct.empty()) return std::nullopt;
  return msprobe::trace::parse_construct("{" + run.construct + "}", "construct.json");
}

inline msprobe::trace::DumpPair pair_of(const Run& target, const Run& reference) {
  using namespace msprobe;
  trace::DumpPair pair;
  pair.target = trace_of(target);
  pair.reference = trace_of(reference);
  pair.target_construct = construct_of(target);
  pair.reference_construct = construct_of(reference);
  const auto pointer = [](const auto& construct) { return construct ? &*construct : nullptr; };
  pair.records = trace::match_records(pair.target, pointer(pair.target_construct), pair.reference,
                                      pointer(pair.reference_construct));
  pair.matches = trace::match_items(pair.target, pair.reference, pair.records);
  pair.target_state = state_of(target);
  pair.reference_state = state_of(reference);
  return pair;
}

/// What is found of one step, the first of a run or the one behind `before`.
inline msprobe::compare::StepWalk walk(const Run& target, const Run& reference,
                                       const msprobe::compare::StepWalk* before = nullptr) {
  const msprobe::trace::DumpPair pair = pair_of(target, reference);
  return msprobe::compare::walk_step(pair, {}, msprobe::compare::distances(pair, {}, 1), 0, 0, before);
}

/// Of the steps of one rank, which get their numbers here.
inline msprobe::compare::Verdict judged(std::vector<msprobe::compare::StepWalk>& walks) {
  std::vector<const msprobe::compare::StepWalk*> all;
  for (msprobe::compare::StepWalk& walk : walks) {
    walk.step = static_cast<int>(all.size());
    for (msprobe::compare::Finding& one : walk.findings) one.step = walk.step;
    all.push_back(&walk);
  }
  return msprobe::compare::judge(all);
}

/// The first finding of this kind; null: there is none.
inline const msprobe::compare::Finding* found(const msprobe::compare::StepWalk& walk,
                                              msprobe::compare::FindingKind kind) {
  const auto one = std::ranges::find(walk.findings, kind, &msprobe::compare::Finding::kind);
  return one == walk.findings.end() ? nullptr : &*one;
}

}  // namespace steps
