// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../held.h"
#include "arguments.h"
#include "intervention.h"
#include "random_state.h"

/// Makes a call that the training has made once more, with other arguments if wanted, so that nothing of the
/// training is touched: no graph, no random number less, no tensor changed, unseen by modes and profilers.
///
///     Repetition repetition(call);        // keeps copies of what the call is known to change
///     PyObject* result = call.make();     // the training's
///     if (repetition.check(result) == Repetition::Verdict::kCan) other = repetition.again({});
///
/// Needs the GIL.
class Repetition {
 public:
  explicit Repetition(const Call& call);

  enum class Verdict : std::uint8_t {
    kCan,
    kNoResult,  // there is no floating-point tensor in the result
    kCannot,    // why_not() says why
  };
  /// Whether it can be made again, after it was made.
  Verdict check(PyObject* result);
  /// "it is a collective", ...
  const std::string& why_not() const noexcept { return why_not_; }

  /// What a tensor of the arguments held before the call: itself, or the copy that was kept of it.
  at::Tensor before(PyObject* tensor) const;
  /// Whether the call changes this tensor.
  bool is_changed(PyObject* tensor) const { return copies_.find(tensor) != copies_.end(); }
  /// Whether a tensor of the result lies in the memory of an argument that the call does not change.
  bool is_memory_of_arguments(const at::Tensor& tensor) const;

  /// How it is made again.
  struct Way {
    /// What stands for a tensor or another value of the arguments; null keeps it. The copies of tensors that
    /// the call changes are put in by themselves.
    OwnedArguments::Replace replace;
    bool autocast = true;  // false: as if autocast were off
    bool graph = false;    // gradients are computed, for arguments that want them
  };
  /// The result; null with a Python error, which is one of ours to clear.
  pybind11::object again(const Way& way);

  /// Whether again() changed a tensor of the training, which it must not: such a function is not to be made
  /// again. Looks at versions.
  bool has_changed_arguments() const;

  /// The tensors of the arguments, in their order; a tensor may stand there twice.
  std::vector<PyObject*> tensors() const;

  /// For a call that is made again later, in its backward: keeps the arguments alive, and all that it knew.
  void keep();
  /// Whether tensors that were kept hold what they held, so that again() still makes the same call.
  bool arguments_are_as_before() const { return !has_changed_arguments(); }
  void release();

  CallArguments arguments() const { return kept_ ? kept_->view() : arguments_; }

 private:
  void find_reason(const Call& call);
  void look_at_tensors();
  void keep_copies(std::string_view function);
  void keep_copy(PyObject* value);

  struct Seen {
    PyObject* object;
    at::Tensor tensor;
    std::uint32_t version;
  };
  CallArguments arguments_;
  Held<> callable_;
  std::vector<Seen> tensors_;
  std::unordered_map<PyObject*, at::Tensor> copies_;  // of tensors that the call changes, as they were
  std::optional<OwnedArguments> kept_;
  std::vector<at::Generator> generators_;  // beside that of the CPU
  std::optional<RandomState> random_before_;
  std::optional<RandomState> random_after_;
  std::string why_not_;
  bool has_no_result_ = false;
};
