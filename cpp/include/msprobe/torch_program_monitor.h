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

/// Records gradients, weights, moments, updates, directions and spectra of all parameters, by parameter,
/// layer and model, and raises alarms.
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
/// All calls of a step with one name are one: those of micro batches, too. With activation_gradients the
/// gradient of an output is measured when the backward comes to it, in the step in which it was handed over.
///
/// Of tensors on a GPU nobody waits for the numbers: a step is written, and its alarms are raised, when the
/// next one ends, the last one by the destructor; with `gather` at once, as the processes wait for each
/// other.
///
/// Changes no bit of the training. Not thread-safe; the backward may run in any thread.
class MSPROBE_API ProgramMonitor {
 public:
  struct Options {
    std::int64_t start = 0;  // number of the first step; above 0 the record in the folder goes on
    std::int64_t every = 1;  // a step in so many is recorded

    // What is recorded, in the words of docs/monitor.md.
    bool training = true;  // learning rates, and the seconds of a step
    bool gradients = true;
    bool weights = true;
    bool moments = true;                     // of Adam and AdamW
    bool updates = false;                    // how far weights move: a copy of them, and two reads
    bool directions = false;                 // of gradients: a copy of them, and three reads
    bool activation_gradients = false;       // of what activation() is given
    bool spectra = false;                    // of weights of two dimensions
    std::vector<std::string> matrices = {};  // patterns of those whose spectrum is taken; empty: all
    std::int64_t matrix_every = 100;         // recorded steps between two spectra

    /// Parameters and activations: names, their beginnings up to a dot, or patterns with * and ?; empty: all.
    std::vector<std::string> targets = {};
    std::vector<std::string> metrics = {};  // of each quantity; empty: those that it has by default
    std::vector<std::string> levels = {"parameter", "layer", "model"};
    double eps = 1e-8;                    // zeros: |x| < eps
    std::int64_t attention_queries = 64;  // of each head that are looked at; 0: all
    double expert_capacity = 1.25;        // of an expert, as a multiple of the mean load

    std::size_t most_alarms = 1000;                                  // that are written
    std::optional<std::vector<monitor::Rule>> rules = std::nullopt;  // nothing: the default ones
    /// Told of each alarm, with the key of its series and what there is to say. The first exception ends it.
    std::function<void(const monitor::Alarm&, const std::string& key, const std::string& message)> on_alarm =
        {};
    /// Gets the numbers of each recorded step by the keys of their series. The first exception ends it.
    std::function<void(std::int64_t step, const std::map<std::string, double>& numbers)> on_step = {};

    /// One of several processes. Each writes a record of its own, monitor.rank{R}.db; with `gather` there is
    /// one, of the values of all, which process 0 writes, and the functions above are called there alone. The
    /// loss is the mean of all, other numbers of the program are those of process 0.
    int rank = 0;
    int world_size = 1;
    /// Called at the end of each recorded step, in all processes alike: gives `mine` to all, and returns what
    /// all gave, by rank. After an exception the monitor of this process ends, and it is not called again.
    std::function<std::vector<std::string>(const std::string& mine)> gather = {};
    /// With `gather`: patterns, as those of targets, of parameters of which each process has another part. Of
    /// all others every process has the same, as in data parallelism, and one of them measures it.
    std::vector<std::string> split = {};
  };

  /// `model` and `optimizer` outlive it. Creates `folder`; a record in it that does not go on is put aside as
  /// monitor.db.1. Throws InvalidArgument for options that make no sense, IoError and FormatError.
  ProgramMonitor(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                 std::filesystem::path folder, Options options);
  ProgramMonitor(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                 std::filesystem::path folder)
      : ProgramMonitor(model, optimizer, std::move(folder), Options{}) {}
  /// Several make one step. Names begin with "0.", "1.", ... where there are several models.
  ProgramMonitor(const std::vector<const torch::nn::Module*>& models,
                 const std::vector<torch::optim::Optimizer*>& optimizers, std::filesystem::path folder,
                 Options options);
  /// Everything is on disk when it returns. Backwards that run later are not looked at.
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
  /// The result of a collective when it is there, "all_reduce"; also where gradients are off.
  void communication(std::string_view collective, const at::Tensor& result);
  /// A number of the program's own of the step that runs: the series "custom/{name}".
  void add(std::string_view name, double value);
  // None of these throws: what cannot be measured is a warning, once for each name.

  /// When the gradients of a step are complete.
  void before_update();
  /// When those of one optimizer are, where several take turns; once for each that steps.
  void before_update(const torch::optim::Optimizer& optimizer);
  /// When the optimizers have stepped. `numbers` of the step: "loss", "loss_scale"; others are as by add().
  void after_update(const std::map<std::string, double>& numbers = {});
  // None of these throws: a fault ends the monitor with an error in the log.

  /// The number of the step that runs.
  std::int64_t step() const;
  bool is_open() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::torch_adapter
