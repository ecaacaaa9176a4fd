// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What torch, Megatron, DeepSpeed and transformers call the ways in which a training lies over its ranks:
/// the one table of these words, for joining, recording, the monitor, the merge of graphs and checkpoints.
/// Python reads the same rows (python/msprobe/engines.py). An engine is added by its rows.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace msprobe::engines {

// ---- wrappers of models

/// What the wrapper of torch.compile() calls the module that it holds.
inline constexpr std::string_view kCompiled = "_orig_mod";
/// What wrappers that keep copies call it, and some models a part of their own.
inline constexpr std::string_view kModule = "module";
/// What other wrappers call the one module that they hold; no model has them for a part of its own.
inline constexpr std::array kPrivatelyHeld = {kCompiled, std::string_view("_forward_module"),
                                              std::string_view("_checkpoint_wrapped_module"),
                                              std::string_view("_fsdp_wrapped_module")};

/// A class around a model.
struct Wrapper {
  std::string_view name;
  /// Attributes of which the first that is there is, or returns, its process group. Empty: there are no more.
  std::array<std::string_view, 3> groups;
  /// Each rank has the whole model. False: pieces of flat parameters.
  bool keeps_copies = true;
};

inline constexpr std::string_view kDeepSpeed = "DeepSpeedEngine";
inline constexpr std::array kWrappers = {
    Wrapper{"DistributedDataParallel", {"process_group", "data_parallel_group", "dp_group"}},
    Wrapper{kDeepSpeed, {"data_parallel_group"}},
    Wrapper{"FullyShardedDataParallel", {"process_group"}, false},
};

/// fully_shard() gives a module a class of its own, "FSDPBlock", which the model on one process has not.
inline constexpr std::string_view kShardedClass = "FSDP";

// ---- parts of matrices

/// Layers that each hold a part of a matrix, which is cut along one of its dimensions.
enum class Cut : std::uint8_t { kColumns, kRows };

struct CutLayer {
  std::string_view name;  // in that of a class
  Cut cut;
};

inline constexpr std::array kCutLayers = {
    CutLayer{"ColumnParallelLinear", Cut::kColumns},
    CutLayer{"RowParallelLinear", Cut::kRows},
};

/// Also of a class that joins others with them: "TELayerNormColumnParallelLinear".
constexpr bool is_cut(std::string_view type, Cut cut) {
  return std::any_of(kCutLayers.begin(), kCutLayers.end(), [&](const CutLayer& layer) {
    return layer.cut == cut && type.find(layer.name) != std::string_view::npos;
  });
}

/// A class that says it is a part: "RowParallelLinear". Data parallelism reduces gradients, also while
/// modules run.
constexpr bool is_parallel(std::string_view type) {
  return type.find("Parallel") != std::string_view::npos &&
         type.find("DataParallel") == std::string_view::npos;
}

/// What transformers writes on a module of plain tensors that it has cut itself. Other plans say nothing
/// here: parts that are packed into one tensor are each cut, experts in ways of their own. Where it makes
/// DTensors, these tell.
struct Plan {
  std::string_view name;
  int matrix;  // the dimension along which a matrix is cut
  int vector;  // and a vector, as a bias
};

inline constexpr int kCopy = -1;  // in the place of a dimension
inline constexpr std::array kPlans = {
    Plan{"colwise", 0, 0},
    Plan{"colwise_rep", 0, 0},
    Plan{"colwise_gather_output", 0, 0},
    Plan{"local_colwise", 0, 0},
    Plan{"rowwise", 1, kCopy},
    Plan{"rowwise_rep", 1, kCopy},
    Plan{"rowwise_split_input", 1, kCopy},
    Plan{"local_rowwise", 1, kCopy},
    Plan{"embedding_rowwise", 0, kCopy},
};
/// Attributes of such a module.
inline constexpr std::string_view kPlan = "_hf_tp_plan", kPlanMesh = "_hf_device_mesh";

// ---- Megatron

/// Its kinds of parallelism, as its settings ("tensor_model_parallel_size") and its state of a job
/// ("get_tensor_model_parallel_group") call them; a parameter that is cut says the first of itself, too.
inline constexpr std::string_view kTensorParallel = "tensor_model_parallel",
                                  kPipelineParallel = "pipeline_model_parallel",
                                  kExpertParallel = "expert_model_parallel",
                                  kExpertTensorParallel = "expert_tensor_parallel";
/// The attribute of a parameter that is cut: along which dimension.
inline constexpr std::string_view kCutDimension = "partition_dim";
inline constexpr std::string_view kParallelState = "megatron.core.parallel_state";

/// In the names of modules and parameters: of experts, of all of them in one tensor, and before the number of
/// one of this rank.
inline constexpr std::string_view kExperts = ".experts.", kStackedExperts = "experts.experts.",
                                  kLocalExperts = ".local_experts.", kOneExpert = "experts.local_experts.";

// ---- optimizers

/// Where an optimizer of an engine has what belongs to a parameter.
enum class Keeps : std::uint8_t {
  kElsewhere,  // it hands its step to another one, of this rank's share of the parameters
  kByPiece,
  kByFragment
};

struct Optimizer {
  std::string_view name;
  Keeps keeps;
};

inline constexpr std::array kOptimizers = {
    Optimizer{"ZeroRedundancyOptimizer", Keeps::kElsewhere},
    Optimizer{"DeepSpeedZeroOptimizer_Stage3", Keeps::kByPiece},
    Optimizer{"DeepSpeedZeroOptimizer", Keeps::kByFragment},
    Optimizer{"BF16_Optimizer", Keeps::kByFragment},
};

}  // namespace msprobe::engines
