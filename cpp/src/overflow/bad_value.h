// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "msprobe/trace_reader.h"
#include "trace/item/bad_number.h"

/// Infinities and NaN in what a record says about its tensors and scalars.
namespace msprobe::overflow {

using trace::Badness;

/// The worse of maximum and minimum of a tensor, or that of a scalar. A text is bad when it is the word inf
/// or nan in a place where a number stands; an argument that is a text never is.
Badness badness(const trace::Trace& trace, const trace::Item& item) noexcept;

/// What is bad in one record. Items: the first of their kind that is bad, null when there is none.
struct BadValues {
  const trace::Item* tensor_in = nullptr;  // tensors that went in, nested ones too
  const trace::Item* scalar_in = nullptr;
  const trace::Item* parameter = nullptr;
  const trace::Item* gradient = nullptr;  // of a record "parameters_grad"
  const trace::Item* out = nullptr;
  Badness worst_in = Badness::kGood;
  Badness worst_out = Badness::kGood;
};

BadValues find_bad_values(const trace::Trace& trace, const trace::Record& record) noexcept;

/// For a sentence: `input_args.1 has Max Infinity`, `input_args.1 is Infinity`.
std::string describe(const trace::Trace& trace, const trace::Item& item);

}  // namespace msprobe::overflow
