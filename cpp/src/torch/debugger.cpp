// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/torch_debugger.h"

namespace msprobe::torch_adapter {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGradProbe = "grad_probe";

[[noreturn]] void refuse(const std::string& what) {
  throw UnsupportedError("PrecisionDebugger in a C++ program: " + what);
}

void check_config(const config::Config& config) {
  if (config.enable_dataloader)
    refuse("there is no data loader to watch, expected \"enable_dataloader\": false");
  if (config.task == kGradProbe) return;
  static const std::set<std::string_view> known = {"statistics", "tensor", "structure", "overflow_check"};
  if (!known.contains(config.task)) {
    refuse("task " + config.task +
           " needs Python, expected statistics, tensor, structure, overflow_check or grad_probe");
  }
  if (config.async_dump) refuse("expected \"async_dump\": false");
  if (config.level == "L2") refuse("level L2 needs Python, expected L0, L1, mix or debug");
  if (config.task == "overflow_check" && config.level != "L0") {
    refuse("task overflow_check records modules only, expected level L0, found " + config.level);
  }
  if (config.task == "tensor" && config.section.flag("online_run_ut"))
    refuse("expected \"online_run_ut\": false");
  const auto warn = [](const std::string& key) {
    log(LogLevel::kWarning, "\"" + key + "\" has no effect in a C++ program");
  };
  if (!config.section.texts("diagnosis").empty()) warn("diagnosis");
  if (config.section.text("api_set") != "default") warn("api_set");
  if (config.task != "structure" && config.section.flag("parameters")) warn("parameters");
}

bool records_modules(const config::Config& config) { return config.level == "L0" || config.level == "mix"; }
bool records_operators(const config::Config& config) { return config.level == "L1" || config.level == "mix"; }

}  // namespace

struct PrecisionDebugger::State {
  State(config::Config config_, std::optional<int> rank_) : config(std::move(config_)), rank(rank_) {
    config.dump_path = fs::absolute(config.dump_path).lexically_normal();
    if (config.task == kGradProbe) return;
    dump = std::make_unique<ProgramDump>(config::dump_options(config));
    dump->operators().use_filters();
  }

  config::Config config;
  std::optional<int> rank;
  std::int64_t step = 0;

  // The gradient probe.
  std::unique_ptr<GradProbe> probe;
  std::vector<at::Tensor> probed;  // its parameters
  bool warned = false;

  // The other tasks.
  std::unique_ptr<ProgramDump> dump;
  std::unordered_map<const torch::nn::Module*, std::string> paths;
  std::set<const torch::nn::Module*> unknown;  // were warned of
  bool collecting = false;

  bool is_wanted() const {
    const bool is_step =
        config.steps.empty() || std::binary_search(config.steps.begin(), config.steps.end(), step);
    return is_step && is_rank();
  }
  bool is_rank() const {
    return config.ranks.empty() ||
           (rank && std::binary_search(config.ranks.begin(), config.ranks.end(), *rank));
  }

  bool open() {
    const std::string folder = rank ? "rank" + std::to_string(*rank) : "rank";
    try {
      dump->open(fs::path(config.dump_path) / ("step" + std::to_string(step)) / folder);
      return true;
    } catch (const Error& error) {
      log(LogLevel::kWarning, "step " + std::to_string(step) + " is not recorded: " + error.what());
      return false;
    }
  }

  void start(const torch::nn::Module* model) {
    if (!dump || config.level == "debug" || collecting || !is_wanted()) return;
    if (records_modules(config)) name_modules(model);
    if (dump->session().has_enough_overflows() || !open()) return;
    collecting = true;
    if (records_operators(config)) dump->operators().start();
  }

  void name_modules(const torch::nn::Module* model) {
    if (!paths.empty()) return;
    if (model == nullptr) {
      throw InvalidArgument("PrecisionDebugger::start(): levels L0 and mix expect the model, found none");
    }
    for (const auto& module : model->named_modules()) {
      if (!module.key().empty()) paths.emplace(module.value().get(), module.key());
    }
  }

  void stop() {
    if (!std::exchange(collecting, false)) return;
    if (records_operators(config)) dump->operators().stop();
  }

  void end_step() {
    stop();
    if (dump) dump->close();
    if (probe) record_gradients();
    ++step;
  }

  void record_gradients() {
    const auto has_gradient = [](const at::Tensor& one) { return one.grad().defined(); };
    if (!warned && std::none_of(probed.begin(), probed.end(), has_gradient)) {
      warned = true;
      log(LogLevel::kWarning,
          "gradient probe: no parameter has a gradient at PrecisionDebugger::step(): call it before they are "
          "set "
          "to zero");
    }
    probe->step();
  }
};

PrecisionDebugger::PrecisionDebugger(const fs::path& config_path, const config::Arguments& arguments,
                                     std::optional<int> rank) {
  config::Config config = config::load(config_path, arguments);
  check_config(config);
  state_ = std::make_unique<State>(std::move(config), rank);
}

PrecisionDebugger::~PrecisionDebugger() {
  state_->stop();
  if (state_->dump) state_->dump->close();
}

void PrecisionDebugger::monitor(const torch::nn::Module& model) {
  if (state_->config.task != kGradProbe || !state_->is_rank()) return;
  const std::vector<std::string> wanted = state_->config.section.texts("param_list");
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& parameter : model.named_parameters()) {
    const bool is_wanted =
        wanted.empty() || std::find(wanted.begin(), wanted.end(), parameter.key()) != wanted.end();
    if (is_wanted) parameters.emplace_back(parameter.key(), parameter.value());
  }
  if (parameters.empty()) {
    log(LogLevel::kWarning,
        "param_list: none of its names is a parameter of the model, no gradient is recorded");
  }
  state_->probed.clear();
  for (const auto& [name, parameter] : parameters) state_->probed.push_back(parameter);
  state_->probe.reset();  // the record of another model is complete before this one begins
  state_->probe = std::make_unique<GradProbe>(std::move(parameters),
                                              grad_probe_settings(state_->config, state_->rank.value_or(0)));
}

void PrecisionDebugger::start(const torch::nn::Module& model) { state_->start(&model); }
void PrecisionDebugger::start() { state_->start(nullptr); }
void PrecisionDebugger::stop() { state_->stop(); }
void PrecisionDebugger::step() { state_->end_step(); }

void PrecisionDebugger::save(const at::Tensor& tensor, std::string_view name, bool with_gradient) {
  if (!state_->dump || state_->config.level != "debug" || !state_->is_wanted()) return;
  if (state_->open()) state_->dump->save(tensor, name, with_gradient);
}

void PrecisionDebugger::set_init_step(std::int64_t step) {
  if (step < 0) {
    throw InvalidArgument("PrecisionDebugger::set_init_step(): expected a number of 0 or more, found " +
                          std::to_string(step));
  }
  state_->stop();
  if (state_->dump) state_->dump->close();
  state_->step = step;
}

const config::Config& PrecisionDebugger::configuration() const noexcept { return state_->config; }

PrecisionDebugger::NamedCall PrecisionDebugger::call_of(const torch::nn::Module& module) {
  State& state = *state_;
  if (!state.collecting || !records_modules(state.config)) return {};
  const auto path = state.paths.find(&module);
  if (path != state.paths.end()) return {state.dump.get(), path->second};
  if (state.unknown.insert(&module).second) {
    log(LogLevel::kDebug,
        "a ModuleScope of " + module.name() +
            ", which is the model of PrecisionDebugger::start() or no part of it: no record");
  }
  return {};
}

}  // namespace msprobe::torch_adapter
