// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "msprobe/dump.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"

namespace msprobe::torch_adapter {

/// Arguments and results of an operator (docs/formats/dump.md, "Elements"). The schema tells what a value
/// alone does not: dtypes, layouts and memory formats are integers in it.
class OperatorValues final : public dump::CallValues {
 public:
  /// `backward`: all arguments count as positional. `given`: of the arguments or of the results, whichever
  /// are asked for.
  OperatorValues(TensorDescriber& describer, const c10::FunctionSchema& schema, bool backward,
                 c10::ArrayRef<c10::IValue> given)
      : describer_(describer), schema_(schema), backward_(backward), given_(given) {}

  void arguments(dump::ValueWriter& to) override;
  void keywords(dump::ValueWriter& to) override;
  void results(dump::ValueWriter& to) override;

 private:
  void put(dump::ValueWriter& to, const c10::IValue& value, const c10::Type& type);

  TensorDescriber& describer_;
  const c10::FunctionSchema& schema_;
  bool backward_;
  c10::ArrayRef<c10::IValue> given_;
};

}  // namespace msprobe::torch_adapter
