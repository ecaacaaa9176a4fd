// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/engines.h"

#include <string_view>
#include <vector>

#include "core.h"

namespace {

namespace engines = msprobe::engines;

std::vector<std::string_view> optimizers_that_keep(engines::Keeps keeps) {
  std::vector<std::string_view> names;
  for (const engines::Optimizer& one : engines::kOptimizers) {
    if (one.keeps == keeps) names.push_back(one.name);
  }
  return names;
}

py::dict wrappers() {
  py::dict found;
  for (const engines::Wrapper& one : engines::kWrappers) {
    std::vector<std::string_view> groups;
    for (const std::string_view group : one.groups) {
      if (!group.empty()) groups.push_back(group);
    }
    found[py::cast(one.name)] = py::make_tuple(py::tuple(py::cast(groups)), one.keeps_copies);
  }
  return found;
}

py::dict plans() {
  py::dict found;
  for (const engines::Plan& one : engines::kPlans)
    found[py::cast(one.name)] = py::make_tuple(one.matrix, one.vector);
  return found;
}

py::dict words_of_engines() {
  py::dict words;
  words["compiled"] = engines::kCompiled;
  words["module"] = engines::kModule;
  words["privately_held"] =
      std::vector<std::string_view>(engines::kPrivatelyHeld.begin(), engines::kPrivatelyHeld.end());
  words["wrappers"] = wrappers();
  words["deepspeed"] = engines::kDeepSpeed;
  words["sharded_class"] = engines::kShardedClass;
  words["plans"] = plans();
  words["plan"] = engines::kPlan;
  words["plan_mesh"] = engines::kPlanMesh;
  words["copy"] = engines::kCopy;
  words["tensor_parallel"] = engines::kTensorParallel;
  words["expert_parallel"] = engines::kExpertParallel;
  words["cut_dimension"] = engines::kCutDimension;
  words["parallel_state"] = engines::kParallelState;
  words["handing_on"] = optimizers_that_keep(engines::Keeps::kElsewhere);
  words["by_piece"] = optimizers_that_keep(engines::Keeps::kByPiece);
  words["by_fragment"] = optimizers_that_keep(engines::Keeps::kByFragment);
  return words;
}

}  // namespace

void register_engines(py::module_& m) { m.def("words_of_engines", &words_of_engines); }
