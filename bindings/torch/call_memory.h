// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What calls do with the memory that their arguments show, and which of it says something about the program.

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interception.h"
#include "msprobe/torch_memory.h"

/// What one function does with the memory of its arguments: from the catalogue of operators, and for
/// operators of a library from their schema.
class MemoryUse {
 public:
  enum class Read : std::uint8_t {
    kComputedWith,  // whatever memory it is: evidence, but for what is undefined
    kMoved,         // shown in another way, or copied: evidence where it is known
    kNotRead        // only written, or not looked at
  };

  /// `record_name`: "Torch.mm"; `function`: what is called.
  MemoryUse(const std::string& record_name, PyObject* function);

  Read read_of(Py_ssize_t position, std::string_view name, const CallArguments& arguments) const;
  /// The results hold what goes in, and nothing is computed.
  bool only_moves() const noexcept { return only_moves_; }
  /// The results hold whatever the memory held before.
  bool gives_undefined() const noexcept { return gives_undefined_; }
  /// Some elements of the first argument are written, and none is read: index_put_, x[i] = y.
  bool fills_places(const CallArguments& arguments) const;

 private:
  struct Argument {
    Py_ssize_t position = -1;
    std::string name;
    bool is(Py_ssize_t at, std::string_view key) const { return key.empty() ? at == position : key == name; }
  };

  template <typename Use>
  static void for_each_argument(std::string_view words, Use use);
  bool is_received(const CallArguments& arguments) const;
  void add_schema(PyObject* function);

  bool only_moves_ = false;
  bool gives_undefined_ = false;
  bool writes_places_ = false;
  std::optional<Argument> not_read_with_beta_zero_;
  std::vector<Argument> source_;  // under its name or at its position
  std::vector<Argument> not_read_;
  std::vector<Argument> perhaps_read_;  // written by an operator of a library, which does not say more
};

/// One call of a function: which of its tensors are measured. What is known of memory follows from it.
/// Borrows all; needs the GIL.
class CallMemory {
 public:
  using Known = msprobe::torch_adapter::KnownMemory;

  CallMemory(Known& known, const MemoryUse& use, const CallArguments& arguments)
      : known_(known), use_(use), arguments_(arguments) {}
  /// Of a module: it may compute with all that it is given.
  CallMemory(Known& known, const CallArguments& arguments);

  /// The tensors that come are of this argument; `name` empty: it has no keyword.
  void at_argument(Py_ssize_t position, std::string_view name) {
    read_ = use_.read_of(position, name, arguments_);
    is_result_ = false;
    is_first_ = position == 0;
  }
  /// The tensors that come are those of an operation between two processes.
  void at_peer(bool is_received) {
    if (is_received) read_ = MemoryUse::Read::kNotRead;
  }
  /// The tensors that come are results.
  void at_results() { is_result_ = true; }

  /// Whether the tensor is measured.
  bool takes(const at::Tensor& tensor);
  /// Whether the results are what goes in, and that is not known.
  bool hides_results() const { return is_result_ && use_.only_moves() && moved_ != Known::State::kKnown; }
  /// When the call has returned, and its results were asked for.
  void finish();

 private:
  /// An index or a mask: elements are moved by it, and it is moved nowhere. No later call would show it.
  bool says_where(const at::Tensor& tensor) const;
  msprobe::torch_adapter::KnownMemory::State state_of(const at::Tensor& tensor);
  bool takes_result(const at::Tensor& tensor);
  void fill_place();

  Known& known_;
  const MemoryUse& use_;
  const CallArguments& arguments_;
  MemoryUse::Read read_ = MemoryUse::Read::kComputedWith;
  bool is_result_ = false;
  bool is_first_ = false;
  bool is_filled_ = false;
  Known::State moved_ = Known::State::kKnown;   // the worst of what is moved
  Known::State filled_ = Known::State::kKnown;  // of a first argument of which some elements are written
  std::int64_t moved_elements_ = 0;             // at least
  c10::SmallVector<const void*, 4> moved_storages_;
};
