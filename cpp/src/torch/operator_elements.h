// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <string_view>

#include "msprobe/torch_dump.h"

namespace msprobe::torch_adapter {

/// Appends arguments and results of operators to an element tree (docs/formats/dump.md, "Elements"). The
/// schema tells what a value alone does not: dtypes, layouts and memory formats are integers in it.
class OperatorElements {
 public:
  OperatorElements(TensorDescriber& describer, trace::ElementWriter& out, std::string_view record,
                   bool keeps_positions)
      : describer_(describer), out_(out), record_(record), keeps_positions_(keeps_positions) {}

  /// Starts another category of file names: "input", "kwargs", "output".
  void begin(std::string_view category);
  /// One value at `index` of the category.
  void item(const c10::IValue& value, const c10::Type& type, std::size_t index);
  /// One value under the name of its argument.
  void keyed(std::string_view name, const c10::IValue& value, const c10::Type& type);

 private:
  void walk(const c10::IValue& value, const c10::Type& type, int depth);
  void walk_list(c10::ArrayRef<c10::IValue> values, const c10::Type& type, int depth);
  void walk_dict(const c10::IValue& value, const c10::Type& type, int depth);
  bool walk_enumeration(const c10::IValue& value, const c10::Type& type);
  bool walk_number(const c10::IValue& value);
  void push(std::string_view part);

  TensorDescriber& describer_;
  trace::ElementWriter& out_;
  std::string_view record_;
  std::string position_;
  bool keeps_positions_;
};

}  // namespace msprobe::torch_adapter
