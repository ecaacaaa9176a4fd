// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../python_stack.h"
#include "backward_of_call.h"
#include "intervention.h"
#include "msprobe/perturb.h"
#include "repeated_calls.h"
#include "repetition.h"

/// Makes every call a few times more, with arguments that are rounded otherwise, forward and backward, and
/// measures what becomes of it (msprobe/perturb.h: CallMeasure). Nothing of the training changes. Needs the
/// GIL.
class FragilityProbe : public Intervener,
                       public BackwardObserver,
                       public std::enable_shared_from_this<FragilityProbe> {
 public:
  /// `tries`: how often a call is made again.
  FragilityProbe(int tries, bool backward) : tries_(tries), backward_(backward) {}

  /// One call of a step.
  struct Row {
    std::string name;           // "Torch.sub.3.forward"
    std::string operator_name;  // "Torch.sub"
    std::string module;         // path of the module that makes the call; empty: none
    msprobe::perturb::CallMeasure measure;
    bool has_arguments = false;             // that can be rounded otherwise, and results
    double input_change = 0;                // relative, of the arguments; 0: all of them are 0
    std::vector<const std::string*> stack;  // innermost first, from the first frame outside of torch
  };
  struct Report : RepeatedCalls {
    std::vector<Row> rows;
    std::int64_t calls = 0;
    std::int64_t without_rounding = 0;  // they move numbers, or have no floating-point tensor in their result
  };

  void begin_step();
  /// Backward passes of its calls that run later are not looked at.
  Report end_step();

  PyObject* answer(const Call& call) override;
  void check_backward(BackwardOfCall& call) override;

 private:
  PyObject* answer_module(const Call& call);
  void look(const Call& call, std::unique_ptr<Repetition> repetition, PyObject* result,
            std::uint64_t first_node);
  void measure_forward(const Call& call, Repetition& repetition, PyObject* result, Row& row);
  double try_again(Repetition& repetition, const std::vector<at::Tensor>& results, int attempt,
                   msprobe::DType coarsest);
  double condition_of(const Call& call, Repetition& repetition, const std::vector<at::Tensor>& results,
                      Row& row);
  std::vector<const std::string*> stack();

  int tries_;
  bool backward_;
  bool open_ = false;
  std::uint64_t steps_begun_ = 0;
  Report report_;
  std::unordered_map<std::string, std::size_t> row_of_;  // by the name of the backward
  FrameTexts texts_;
};

void register_fragility(pybind11::module_& m);
