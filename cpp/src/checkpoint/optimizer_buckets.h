// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "msprobe/checkpoint.h"
#include "msprobe/pt_file.h"

namespace msprobe::checkpoint {

/// The states in a file distrib_optim.pt of Megatron's distributed optimizer, as parameters
/// `optimizer.{state}.{parameter}`, in full precision.
///
/// The file has one long vector for each state and buffer and names nothing. A buffer has the parameters of a
/// part of the model (`chunks`, by rank of this file), or its experts or the rest alone, from the last to the
/// first; each begins at a multiple of 64 elements, counted from the beginning of its bucket. The copy of the
/// weights that is among the states tells whether that is so: a place counts when samples of the weights are
/// found there, rounded to the dtype of the model, and the whole vector is used. Buffers for which no order
/// passes go to `left_out`. Names of parameters of several chunks: `{chunk}/{name}`.
std::vector<Parameter> bucket_states(const io::PtValue& root,
                                     const std::vector<std::vector<Parameter>>& chunks,
                                     const std::string& path, std::vector<LeftOut>& left_out);

}  // namespace msprobe::checkpoint
