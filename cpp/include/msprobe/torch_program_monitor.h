// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The monitor of a C++ program with libtorch: what `msprobe.monitor` does in Python (docs/monitor.md), in
/// the same files. `msprobe trend` and `view` open them.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/monitor.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace msprobe::torch_adapter {

/// Records gradients, weights, moments and updates of all parameters, by parameter, layer and model, and
/// raises alarms.
///
///     ProgramMonitor monitor(*model, optimizer, "out");
///     for (...) {
///       loss.backward();
///       monitor.before_update();
///       optimizer.step();
///       monitor.after_update({{"loss", loss.item<double>()}});
///     }
///
/// A module of libtorch has no hooks, so its forward hands over what is to be seen inside of it:
///
///     x = monitor.activation("layers.0.up", up(x));
///     monitor.attention("layers.0.attention", query, key, mask);
///     monitor.experts("layers.0.mlp.gate", router_logits, 2);
///
/// These calls do nothing in steps that are not recorded and where gradients are off, as in an evaluation.
/// All calls of a step with one name are one: those of micro batches, too.
///
/// Changes no bit of the training. Not thread-safe.
class MSPROBE_API ProgramMonitor {
 public:
  struct Options {
    std::int64_t start = 0;  // number of the first step; above 0 the record in the folder goes on
    std::int64_t every = 1;  // a step in so many is recorded
    bool updates = false;    // how far weights move: a copy of them, and two reads
    double eps = 1e-8;       // zeros: |x| < eps
    std::int64_t attention_queries = 64;  // of each head that are looked at; 0: all
    double expert_capacity = 1.25;        // of an expert, as a multiple of the mean load
    std::size_t most_alarms = 1000;       // that are written
    std::optional<std::vector<monitor::Rule>> rules = std::nullopt;  // nothing: the default ones
    /// Told of each alarm, with the key of its series and what there is to say. The first exception ends it.
    std::function<void(const monitor::Alarm&, const std::string& key, const std::string& message)> on_alarm =
        {};
  };

  /// `model` and `optimizer` outlive it. Creates `folder`; a record in it that does not go on is put aside as
  /// monitor.db.1. Throws InvalidArgument for options that make no sense, IoError and FormatError.
  ProgramMonitor(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                 std::filesystem::path folder, Options options);
  ProgramMonitor(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                 std::filesystem::path folder)
      : ProgramMonitor(model, optimizer, std::move(folder), Options{}) {}
  /// Everything is on disk when it returns.
  ~ProgramMonitor();
  ProgramMonitor(const ProgramMonitor&) = delete;
  ProgramMonitor& operator=(const ProgramMonitor&) = delete;

  /// The output of the module `name`, as torch::nn::Module::named_modules() has it. Returns it.
  at::Tensor activation(std::string_view name, at::Tensor output);
  /// Logits and entropy of scaled dot-product attention, as torch's function of this name is called; of each
  /// head Options::attention_queries queries are looked at, evenly spread.
  void attention(std::string_view name, const at::Tensor& query, const at::Tensor& key,
                 const at::Tensor& mask = {}, bool is_causal = false,
                 std::optional<double> scale = std::nullopt);
  /// The same of scores that the program computes itself: (..., queries, keys), before the softmax.
  void attention_scores(std::string_view name, const at::Tensor& scores);
  /// Load of the experts and certainty of their router: `logits` or probabilities of (..., experts), of which
  /// each token takes the `top` best.
  void experts(std::string_view name, const at::Tensor& logits, std::int64_t top = 1);
  // None of these throws: what cannot be measured is a warning, once for each name.

  /// When the gradients of a step are complete.
  void before_update();
  /// When the optimizer has stepped. `numbers` of the step by the names of their series, as "loss".
  /// Neither throws: a fault ends the monitor with an error in the log.
  void after_update(const std::map<std::string, double>& numbers = {});

  /// The number of the step that runs.
  std::int64_t step() const;
  bool is_open() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::torch_adapter
