// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

/// Names of calls that a merge took from other ranks: "Torch.matmul_rank2.0.forward".
namespace msprobe::graph {

/// The name with "_rank2" behind its second part; as it is where that has a rank already.
std::string with_rank(std::string_view name, int rank);

/// The name with another rank, where it has one.
std::string with_other_rank(std::string_view name, const std::function<int(int)>& other);

}  // namespace msprobe::graph
