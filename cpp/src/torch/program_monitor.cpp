// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/monitor.h"
#include "msprobe/torch_monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "torch/out_of_sight.h"
#include "torch/program_monitor_modules.h"
#include "torch/program_monitor_parameters.h"
#include "torch/program_monitor_peers.h"
#include "torch/program_monitor_record.h"

namespace msprobe::torch_adapter {
namespace {

using Clock = std::chrono::steady_clock;
using Models = std::vector<const torch::nn::Module*>;
using Optimizers = std::vector<torch::optim::Optimizer*>;
using Numbers = std::map<std::string, double>;

void expect_option(bool holds, const std::string& what) {
  if (!holds) throw InvalidArgument("ProgramMonitor: " + what);
}

ProgramMonitor::Options checked_options(ProgramMonitor::Options options) {
  expect_option(options.every >= 1, "every: expected 1 or more");
  expect_option(options.start >= 0, "start: expected 0 or more");
  expect_option(options.matrix_every >= 1, "matrix_every: expected 1 or more");
  expect_option(options.attention_queries >= 0, "attention_queries: expected 0 or more");
  expect_option(options.expert_capacity > 0, "expert_capacity: expected a number above 0");
  expect_option(options.rank >= 0 && options.rank < options.world_size,
                "rank: expected 0 or more, and less than world_size");
  return options;
}

std::string names_of_models(const Models& models) {
  std::string names;
  for (const auto* model : models) names += (names.empty() ? "" : ", ") + model->name();
  return names;
}

// Of each group, by the end of its name; "" is that of the only one.
Numbers learning_rates(const Optimizers& optimizers) {
  Numbers rates;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    const auto& groups = optimizers[i]->param_groups();
    for (std::size_t k = 0; k < groups.size(); ++k) {
      std::string name = optimizers.size() > 1 ? std::to_string(i) : "";
      if (groups.size() > 1) name += (name.empty() ? "" : ".") + std::to_string(k);
      try {
        if (groups[k].has_options()) rates[name] = groups[k].options().get_lr();
      } catch (const std::exception&) {
        continue;  // an optimizer of the program's own that has none
      }
    }
  }
  return rates;
}

}  // namespace

struct ProgramMonitor::State {
  State(const Models& models, const Optimizers& optimizers, std::filesystem::path folder, Options wanted)
      : options(checked_options(std::move(wanted))),
        writes(!joins_peers(options) || options.rank == 0),
        record(std::move(folder), options, writes, names_of_models(models)),
        measured(std::make_shared<ProgramMeasurements>(options.eps, record.session())),
        parameters(models, optimizers, options, record.session(), *measured),
        modules(options, record.session(), measured),
        step(options.start) {
    if (joins_peers(options)) peers.emplace(options, record.session());
  }

  bool is_wanted(std::int64_t which) const { return (which - options.start) % options.every == 0; }

  void before_update(const torch::optim::Optimizer& optimizer) {
    attempt([&] { parameters.before_update(optimizer, is_wanted(step), is_wanted(step + 1)); });
  }

  // A step that is over. Rows of a device are completed when the next one is, so that nobody waits for them.
  struct Ended {
    struct Number {
      monitor::Measured of;
      std::string metric;
      std::string name;
      double value;
    };
    std::int64_t step;
    std::shared_ptr<monitor::Frame> rows;
    std::vector<Number> numbers;
  };

  void after_update(const Numbers& numbers) {
    modules.end_step();
    std::optional<Ended> ended;
    if (is_wanted(step)) {
      std::optional<double> loss;
      if (const auto found = numbers.find("loss"); found != numbers.end()) loss = found->second;
      attempt([&] { parameters.end_step(); });
      ended = Ended{step, record.session().take_rows(), {}};
      attempt([&] { ended->rows->bring(); });
      if (peers) {
        attempt([&] {
          ended->rows->complete();
          loss = peers->join(step, *ended->rows, loss);
        });
      }
      if (peers && !open) peers->leave(step);
      attempt([&] { ended->numbers = numbers_of_step(numbers, loss); });
      ++recorded;
    }
    write_last();
    last = std::move(ended);
    if (last && last->rows->is_complete()) write_last();
    parameters.forget_stepped();
    custom.clear();
    ended_at = Clock::now();
    ++step;
  }

  void write_last() {
    if (!last) return;
    const Ended ended = *std::exchange(last, std::nullopt);
    if (writes) attempt([&] { write(ended); });
  }

  void write(const Ended& ended) {
    monitor::Session& session = record.session();
    ended.rows->complete();
    session.evaluate(*ended.rows);
    for (const auto& [of, metric, name, value] : ended.numbers) session.set(of, metric, name, value);
    record.write(ended.step);
  }

  std::vector<Ended::Number> numbers_of_step(const Numbers& numbers, std::optional<double> loss) const {
    using monitor::Measured;
    std::vector<Ended::Number> all;
    if (options.training) {
      all.push_back(
          {Measured::kStepSeconds, "", "", std::chrono::duration<double>(Clock::now() - ended_at).count()});
      for (const auto& [name, rate] : learning_rates(parameters.optimizers())) {
        all.push_back({Measured::kLearningRate, "", name, rate});
      }
    }
    if (loss) all.push_back({Measured::kLoss, "", "", *loss});
    for (const auto& [name, value] : numbers) {
      if (name == "loss_scale") all.push_back({Measured::kLossScale, "", "", value});
      if (name != "loss" && name != "loss_scale") all.push_back({Measured::kCustom, "", name, value});
    }
    for (const auto& [name, value] : custom) all.push_back({Measured::kCustom, "", name, value});
    if (options.spectra && recorded % options.matrix_every == 0) {
      parameters.spectra_to([&](const std::string& name, const metrics::Spectrum& spectrum) {
        all.push_back({Measured::kMatrix, "spectral_norm", name, spectrum.spectral_norm});
        all.push_back({Measured::kMatrix, "stable_rank", name, spectrum.stable_rank});
      });
    }
    return all;
  }

  template <typename Work>
  void attempt(Work work) {
    if (!open) return;
    try {
      const OutOfSight out_of_sight;
      work();
    } catch (const std::exception& error) {
      open = false;
      log(LogLevel::kError,
          "monitor: step " + std::to_string(step) + ": " + error.what() + ": nothing more is recorded");
    }
  }

  // Of what is handed over: what cannot be measured is told, and left alone from then on.
  template <typename Work>
  void attempt_handed(std::string_view what, std::string_view name, Work work) {
    if (!open || !is_wanted(step)) return;
    const std::string of(name);
    const std::string key = std::string(what) + " of " + of;
    if (refused.contains(key)) return;
    try {
      const OutOfSight out_of_sight;
      work(of);
    } catch (const std::exception& error) {
      refused.insert(key);
      log(LogLevel::kWarning, "monitor: " + key + " is not measured: " + error.what());
    }
  }

  // Of a module: not where gradients are off, as in an evaluation.
  template <typename Work>
  void attempt_module(std::string_view what, std::string_view name, Work work) {
    if (c10::GradMode::is_enabled()) attempt_handed(what, name, std::move(work));
  }

  const Options options;
  const bool writes;  // false: another process does
  ProgramRecord record;
  std::shared_ptr<ProgramMeasurements> measured;
  ProgramParameters parameters;
  ProgramModules modules;
  std::optional<ProgramPeers> peers;  // values are those of all processes
  std::int64_t step;
  std::int64_t recorded = 0;  // steps
  Numbers custom;             // of the step that runs
  std::optional<Ended> last;  // not written yet
  Clock::time_point ended_at = Clock::now();
  std::set<std::string> refused;  // what is not measured
  bool open = true;
};

ProgramMonitor::ProgramMonitor(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                               std::filesystem::path folder, Options options)
    : ProgramMonitor(Models{&model}, Optimizers{&optimizer}, std::move(folder), std::move(options)) {}

ProgramMonitor::ProgramMonitor(const std::vector<const torch::nn::Module*>& models,
                               const std::vector<torch::optim::Optimizer*>& optimizers,
                               std::filesystem::path folder, Options options) {
  const auto has_all = [](const auto& pointers) {
    return !pointers.empty() && std::find(pointers.begin(), pointers.end(), nullptr) == pointers.end();
  };
  expect_option(has_all(models) && has_all(optimizers), "expected models and optimizers");
  state_ = std::make_unique<State>(models, optimizers, std::move(folder), std::move(options));
}

ProgramMonitor::~ProgramMonitor() { state_->write_last(); }

at::Tensor ProgramMonitor::activation(std::string_view name, at::Tensor output) {
  state_->attempt_module("the output", name,
                         [&](const std::string& of) { state_->modules.activation(of, output); });
  return output;
}

void ProgramMonitor::attention(std::string_view name, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& mask, bool is_causal, std::optional<double> scale) {
  state_->attempt_module("the attention", name, [&](const std::string& of) {
    if (!query.defined() || !key.defined()) throw InvalidArgument("expected queries and keys");
    state_->modules.attention(
        of, attention_rows(query, key, mask, is_causal, scale, state_->options.attention_queries));
  });
}

void ProgramMonitor::attention_scores(std::string_view name, const at::Tensor& scores) {
  state_->attempt_module("the attention", name, [&](const std::string& of) {
    if (!scores.defined()) throw InvalidArgument("expected scores");
    state_->modules.attention(of, attention_rows(scores, state_->options.attention_queries));
  });
}

void ProgramMonitor::experts(std::string_view name, const at::Tensor& logits, std::int64_t top) {
  state_->attempt_module("the router", name,
                         [&](const std::string& of) { state_->modules.experts(of, logits, top); });
}

void ProgramMonitor::communication(std::string_view collective, const at::Tensor& result) {
  state_->attempt_handed("the result", collective,
                         [&](const std::string& of) { state_->modules.communication(of, result); });
}

void ProgramMonitor::add(std::string_view name, double value) { state_->custom[std::string(name)] = value; }

void ProgramMonitor::before_update() {
  for (const torch::optim::Optimizer* optimizer : state_->parameters.optimizers()) {
    state_->before_update(*optimizer);
  }
}

void ProgramMonitor::before_update(const torch::optim::Optimizer& optimizer) {
  state_->before_update(optimizer);
}

void ProgramMonitor::after_update(const std::map<std::string, double>& numbers) {
  state_->after_update(numbers);
}

std::int64_t ProgramMonitor::step() const { return state_->step; }
bool ProgramMonitor::is_open() const { return state_->open; }

}  // namespace msprobe::torch_adapter
