// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backward_of_call.h"
#include "intervention.h"
#include "msprobe/event_log.h"
#include "msprobe/free_benchmark.h"
#include "msprobe/trace.h"
#include "repeated_calls.h"
#include "repetition.h"

/// Section `free_benchmark` of a configuration.
struct FreeBenchmarkOptions {
  std::vector<std::string> list;
  std::vector<std::string> scope;  // names of calls; empty: all
  msprobe::perturb::Mode mode = msprobe::perturb::Mode::kImprovePrecision;
  bool fix = false;       // else check
  bool backward = false;  // else forward
  bool preheat = false;
  std::int64_t preheat_step = 15;
  std::int64_t max_sample = 20;
};

/// The free benchmark: makes every call a second time with a small change. In check mode a result that is
/// then too far off becomes a row of free_benchmark.csv, and nothing of the training changes; in fix mode the
/// second result takes the place of the first. Needs the GIL.
class FreeBenchmark : public Intervener,
                      public BackwardObserver,
                      public std::enable_shared_from_this<FreeBenchmark> {
 public:
  explicit FreeBenchmark(FreeBenchmarkOptions options);

  /// A step begins, or goes on: its rows go into `directory`, which exists.
  void begin_step(const std::filesystem::path& directory, std::int64_t rank, std::int64_t step);

  /// What a step came to.
  struct Report : RepeatedCalls {
    std::int64_t calls = 0;
    std::int64_t checked = 0;
    std::int64_t inconsistent = 0;    // rows
    std::int64_t unchanged = 0;       // calls with nothing in their arguments that the mode changes
    std::int64_t without_result = 0;  // calls with no floating-point tensor in their result
  };
  /// Backward passes of its calls that run later are not looked at.
  Report end_step();

  PyObject* answer(const Call& call) override;
  void check_backward(BackwardOfCall& call) override;

 private:
  using Finding = msprobe::perturb::Finding;
  struct Pair {
    at::Tensor original;
    at::Tensor perturbed;
    std::optional<std::size_t> index;  // in the row
  };

  bool wants(const Call& call);
  void look(const Call& call, std::unique_ptr<Repetition> repetition, PyObject* result, bool on_cpu,
            std::uint64_t first_node);
  void check_forward(const Call& call, Repetition& repetition, PyObject* result, bool on_cpu);
  void watch_backward(const Call& call, std::unique_ptr<Repetition> repetition, PyObject* result,
                      std::uint64_t first_node);
  /// Nothing: the mode changes nothing of the arguments.
  std::optional<Repetition::Way> way_of(const Repetition& repetition) const;
  /// Tensors that can be compared; nothing, with the reason left: the two results are not alike.
  std::optional<std::vector<Pair>> pairs_of(std::string_view api, PyObject* original, PyObject* perturbed);
  Finding judge(std::string_view api, const Pair& pair) const;
  void learn(std::string_view api, Repetition& repetition, PyObject* result, const std::vector<Pair>& pairs);
  void compare(std::string_view api, const std::string& name, const std::vector<Pair>& pairs);
  void replace(std::string_view api, const Repetition& repetition, PyObject* result, PyObject* other);

  FreeBenchmarkOptions options_;
  msprobe::trace::Filter filter_;
  std::set<std::string, std::less<>> scope_;
  std::optional<msprobe::perturb::Preheat> preheat_;
  std::optional<msprobe::perturb::RowFile> rows_;
  std::int64_t step_ = 0;
  std::uint64_t steps_begun_ = 0;  // what belongs to another step does nothing
  bool open_ = false;
  Report report_;
  std::set<std::string, std::less<>> never_again_;  // functions whose second call touched the training
};

void register_free_benchmark(pybind11::module_& m);
