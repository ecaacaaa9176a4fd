// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msprobe/checkpoint.h"
#include "msprobe/pt_file.h"

namespace msprobe::checkpoint {

/// The states of an optimizer as parameters `optimizer.{state}.{parameter}`: exp_avg, exp_avg_sq and what
/// else it keeps for each element, and fp32_param for the copies in full precision.
///
/// A file numbers the parameters of an optimizer and does not name them. The numbers follow the order of the
/// model, or of its groups with and without weight decay; the order for which all shapes fit is taken. What
/// fits no order goes to `left_out`. `optimizer` may be that of torch, that of Megatron around it, or several
/// of these; `model` has the parameters in the order of the file.
std::vector<Parameter> optimizer_states(const io::PtValue& optimizer, const std::vector<Parameter>& model,
                                        const std::string& path, std::vector<LeftOut>& left_out);

/// The parameters that one optimizer may hold, in the order of `model`: all; those that are no experts; the
/// experts. With experts Megatron makes two optimizers.
std::vector<std::vector<const Parameter*>> possible_subsets(const std::vector<Parameter>& model);

}  // namespace msprobe::checkpoint
