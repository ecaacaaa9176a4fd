// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <set>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/monitor.h"
#include "msprobe/monitor_alarms.h"
#include "msprobe/monitor_plan.h"
#include "msprobe/torch_monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "torch/out_of_sight.h"

namespace msprobe::torch_adapter {
namespace {

constexpr std::size_t kMostAlarmsOfStep = 20;

// What is measured of each parameter, then of what modules hand over, as
// python/msprobe/monitoring/quantities.py has it.
struct ProgramQuantity {
  std::string_view name;
  monitor::Kind kind;
  std::vector<std::string_view> metrics;
};

const std::vector<ProgramQuantity>& program_quantities() {
  using monitor::Kind;
  static const std::vector<ProgramQuantity> all{
      {"gradient", Kind::kTensor, {"norm", "abs_max", "kurtosis", "zeros", "nonfinite"}},
      {"weight", Kind::kTensor, {"norm", "abs_max", "kurtosis"}},
      {"moment", Kind::kTensor, {"norm"}},
      {"second_moment", Kind::kTensor, {"norm", "abs_max"}},
      {"update", Kind::kPair, {"distance", "ratio"}},
      {"activation", Kind::kTensor, {"rms", "abs_max", "kurtosis", "zeros", "nonfinite"}},
      {"attention_logit", Kind::kTensor, {"max", "mean"}},
      {"attention_entropy", Kind::kTensor, {"mean", "min"}},
      {"expert_load",
       Kind::kCounts,
       {"largest", "smallest", "p10", "median", "p90", "dead", "dropped", "entropy"}},
      {"router_probability", Kind::kTensor, {"mean", "min"}},
      {"router_entropy", Kind::kTensor, {"mean"}},
  };
  return all;
}
enum PlaceOfQuantity : std::size_t {
  kGradients,
  kWeights,
  kMoments,
  kSecondMoments,
  kUpdates,
  kOfParameters,  // so many are measured of parameters
  kActivations = kOfParameters,
  kAttentionLogits,
  kAttentionEntropy,
  kExpertLoad,
  kRouterProbability,
  kRouterEntropy,
};

// "layers.3.mlp.weight" -> ("layers.3", 3); nothing: it lies in no numbered layer.
std::optional<std::pair<std::string, std::int64_t>> layer_of(const std::string& name) {
  std::size_t begin = name.find('.') + 1;
  while (begin != 0) {
    const std::size_t end = name.find('.', begin);
    if (end == std::string::npos) break;
    const std::string part = name.substr(begin, end - begin);
    if (!part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return std::pair(name.substr(0, end), std::stoll(part));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%FT%T+00:00", &parts);
  return {text.data(), size};
}

std::filesystem::path free_name(const std::filesystem::path& path) {
  for (int number = 1;; ++number) {
    std::filesystem::path name = path;
    name += "." + std::to_string(number);
    if (!std::filesystem::exists(std::filesystem::symlink_status(name))) return name;
  }
}

// An earlier record keeps its numbers under another name.
void put_aside(const std::filesystem::path& folder) {
  const std::filesystem::path store = folder / "monitor.db";
  const std::filesystem::path kept = free_name(store);
  for (const char* const ending : {"", "-wal", "-shm"}) {
    std::filesystem::path from = store;
    std::filesystem::path to = kept;
    from += ending;
    to += ending;
    if (std::filesystem::exists(from)) std::filesystem::rename(from, to);
  }
  const std::filesystem::path alarms = folder / "alarms.jsonl";
  if (std::filesystem::exists(alarms)) std::filesystem::rename(alarms, free_name(alarms));
}

std::unique_ptr<monitor::StoreWriter> open_record(const std::filesystem::path& folder, std::int64_t start) {
  const std::filesystem::path path = folder / "monitor.db";
  monitor::StoreWriter::Options options;
  options.info = {{"torch", TORCH_VERSION}, {"started", utc_now()}, {"world_size", "1"}, {"rank", "0"}};
  try {
    std::filesystem::create_directories(folder);
    const bool is_there = std::filesystem::exists(path);
    if (is_there && start > 0) options.resume_at = start;
    if (start == 0) put_aside(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw IoError("cannot write", folder.string(), error.code().value());
  }
  return std::make_unique<monitor::StoreWriter>(path, std::move(options));
}

// exp_avg and exp_avg_sq; undefined: the optimizer has none.
std::pair<at::Tensor, at::Tensor> moments_of(const torch::optim::OptimizerParamState* state) {
  if (const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(state)) {
    return {adam->exp_avg(), adam->exp_avg_sq()};
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWParamState*>(state)) {
    return {adamw->exp_avg(), adamw->exp_avg_sq()};
  }
  return {};
}

}  // namespace

struct ProgramMonitor::State {
  State(const torch::nn::Module& model, torch::optim::Optimizer& of, std::filesystem::path where,
        Options wanted)
      : options(std::move(wanted)),
        optimizer(of),
        folder(std::move(where)),
        rules(options.rules ? *options.rules : monitor::default_rules()),
        store(open_record(folder, options.start)),
        meter(meter_options(options.eps)),
        step(options.start) {
    for (const auto& item : model.named_parameters()) {
      if (item.value().requires_grad()) parameters.emplace_back(item.key(), item.value());
    }
    for (std::size_t place = 0; place < kOfParameters; ++place) {
      if (place == kUpdates && !options.updates) continue;
      add_series_of(program_quantities()[place], place);
    }
  }

  static TensorMeter::Options meter_options(double eps) {
    TensorMeter::Options of_meter;
    of_meter.eps = eps;
    return of_meter;
  }

  std::uint32_t series(std::string_view quantity, std::string_view metric, const std::string& name,
                       const std::string& scope, std::int64_t layer) {
    const monitor::Series one{std::string(quantity), std::string(metric), name, scope, layer, ""};
    const std::uint32_t number = store->add_series(one);
    if (keys.size() <= number) keys.resize(number + 1);  // a record that goes on has others, too
    keys[number] = one.key();
    return number;
  }

  std::uint32_t label(std::size_t place, std::size_t parameter) const {
    return static_cast<std::uint32_t>(place * parameters.size() + parameter);
  }

  // Of what the module `name` handed over; a new one becomes series.
  std::uint32_t module_label(std::size_t place, const std::string& name) {
    const auto next = static_cast<std::uint32_t>(kOfParameters * parameters.size() + module_labels.size());
    const auto [found, is_new] = module_labels.emplace(std::pair(place, name), next);
    if (is_new) {
      const ProgramQuantity& quantity = program_quantities()[place];
      const auto layer = layer_of(name);
      for (const std::string_view metric : quantity.metrics) {
        plan.add(next, quantity.kind, metric,
                 series(quantity.name, metric, name, "module", layer ? layer->second : -1));
      }
    }
    return found->second;
  }

  void add_series_of(const ProgramQuantity& quantity, std::size_t place) {
    std::vector<std::uint32_t> all;
    std::map<std::pair<std::int64_t, std::string>, std::vector<std::uint32_t>> layers;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].first;
      const auto layer = layer_of(name);
      const std::int64_t number = layer ? layer->second : -1;
      all.push_back(label(place, i));
      if (layer) layers[{number, layer->first}].push_back(all.back());
      for (const std::string_view metric : quantity.metrics) {
        plan.add(all.back(), quantity.kind, metric, series(quantity.name, metric, name, "parameter", number));
      }
    }
    for (const std::string_view metric : quantity.metrics) {
      for (const auto& [layer, labels] : layers) {
        plan.add_group(labels, quantity.kind, metric,
                       series(quantity.name, metric, layer.second, "layer", layer.first));
      }
      plan.add_group(all, quantity.kind, metric, series(quantity.name, metric, "", "model", -1));
    }
  }

  bool is_wanted() const { return (step - options.start) % options.every == 0; }

  void measure(std::size_t place, const std::vector<at::Tensor>& tensors) {
    std::vector<TensorMeter::Item> items;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].defined()) items.push_back({label(place, i), -1, tensors[i]});
    }
    meter.measure(frame, items, &calls);
  }

  void measure_attention(const std::string& name, const AttentionRows& rows) {
    const std::array<TensorMeter::Item, 2> items{
        TensorMeter::Item{module_label(kAttentionLogits, name), -1, rows.largest},
        TensorMeter::Item{module_label(kAttentionEntropy, name), -1, rows.entropy}};
    meter.measure(frame, items, &calls);
  }

  void measure_experts(const std::string& name, const at::Tensor& logits, std::int64_t top) {
    if (logits.dim() < 1 || logits.numel() == 0 || top < 1 || top > logits.size(-1)) {
      throw InvalidArgument("experts: expected logits of (..., experts), and top of 1 to experts");
    }
    const Routing found = routing(logits, top);
    meter.measure_counts(frame, module_label(kExpertLoad, name), found.counts, options.expert_capacity);
    const std::array<TensorMeter::Item, 2> items{
        TensorMeter::Item{module_label(kRouterProbability, name), -1, found.probability},
        TensorMeter::Item{module_label(kRouterEntropy, name), -1, found.entropy}};
    meter.measure(frame, items, &calls);
  }

  void measure_before() {
    if (!is_wanted()) return;
    std::vector<at::Tensor> gradients;
    for (const auto& [name, parameter] : parameters) gradients.push_back(parameter.grad());
    measure(kGradients, gradients);
    if (!options.updates) return;
    const c10::NoGradGuard no_grad;
    before.clear();
    for (const auto& [name, parameter] : parameters) before.push_back(parameter.detach().clone());
  }

  void measure_after(const std::map<std::string, double>& numbers) {
    if (is_wanted()) {
      std::vector<at::Tensor> weights;
      std::vector<at::Tensor> first;
      std::vector<at::Tensor> second;
      for (const auto& [name, parameter] : parameters) {
        weights.push_back(parameter);
        const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
        auto moments = moments_of(state == optimizer.state().end() ? nullptr : state->second.get());
        first.push_back(std::move(moments.first));
        second.push_back(std::move(moments.second));
      }
      measure(kWeights, weights);
      measure(kMoments, first);
      measure(kSecondMoments, second);
      if (options.updates) measure_updates(weights);
      meter.fetch();
      write(numbers);
      frame.clear();
      calls.reset();
    }
    ++step;
  }

  void measure_updates(const std::vector<at::Tensor>& weights) {
    const std::vector<stats::PairSums> sums = meter.pairs(before, weights);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].count == 0) continue;
      monitor::Row row;
      row.label = label(kUpdates, i);
      row.kind = monitor::Kind::kPair;
      row.sums = monitor::sums_of(sums[i]);
      frame.add(std::move(row));
    }
  }

  void write(const std::map<std::string, double>& numbers) {
    std::vector<double> values(keys.size(), monitor::absent());
    plan.evaluate(frame, values);
    for (const auto& [name, value] : numbers) {
      const std::uint32_t number = series(name, "", "", "model", -1);
      values.resize(std::max(values.size(), keys.size()), monitor::absent());
      values[number] = value;
    }
    store->append(step, values);
    for (; watched < keys.size(); ++watched) rules.add_series(keys[watched]);
    tell(rules.check(step, values));
  }

  void tell(const std::vector<monitor::Alarm>& alarms) {
    if (alarms.empty()) return;
    std::string lines;
    std::string first;
    for (std::size_t i = 0; i < std::min(alarms.size(), kMostAlarmsOfStep); ++i) {
      const monitor::Alarm& alarm = alarms[i];
      const std::string& rule = rules.rules()[alarm.rule].name;
      const std::string message = monitor::alarm_message(alarm, rule, keys[alarm.series]);
      if (i == 0) first = message;
      if (written < options.most_alarms) {
        ++written;
        lines += monitor::alarm_line(alarm, rule, keys[alarm.series], utc_now(), 0);
      }
      if (options.on_alarm) call_back(alarm, message);
    }
    if (alarms.size() > 1) first += "; " + std::to_string(alarms.size() - 1) + " other series, too";
    log(LogLevel::kWarning, first);
    std::ofstream file(folder / "alarms.jsonl", std::ios::binary | std::ios::app);
    file << lines << std::flush;
    if (!file && !std::exchange(complained, true)) {
      log(LogLevel::kWarning, "cannot write " + (folder / "alarms.jsonl").string() + "; training goes on");
    }
  }

  void call_back(const monitor::Alarm& alarm, const std::string& message) {
    try {
      options.on_alarm(alarm, keys[alarm.series], message);
    } catch (const std::exception& error) {
      log(LogLevel::kWarning, std::string("monitor: on_alarm: ") + error.what() + ": it is not called again");
      options.on_alarm = nullptr;
    }
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

  // Of a module: what cannot be measured is told, and left alone from then on.
  template <typename Work>
  void attempt_module(std::string_view name, Work work) {
    if (!open || !is_wanted() || !c10::GradMode::is_enabled()) return;
    const std::string of(name);
    if (refused.contains(of)) return;
    try {
      const OutOfSight out_of_sight;
      work(of);
    } catch (const std::exception& error) {
      refused.insert(of);
      log(LogLevel::kWarning, "monitor: " + of + " is not measured: " + error.what());
    }
  }

  Options options;
  torch::optim::Optimizer& optimizer;
  std::filesystem::path folder;
  monitor::Rules rules;
  std::unique_ptr<monitor::StoreWriter> store;
  TensorMeter meter;
  std::int64_t step;
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  std::vector<std::string> keys;  // of the series, by their numbers
  monitor::Plan plan;
  std::map<std::pair<std::size_t, std::string>, std::uint32_t> module_labels;  // by quantity and name
  std::set<std::string> refused;                                               // modules
  monitor::Frame frame{monitor::Frame::Again::kMerges};
  monitor::CallCounter calls;
  std::vector<at::Tensor> before;
  std::size_t watched = 0;  // series that the rules know
  std::size_t written = 0;  // alarms
  bool complained = false;
  bool open = true;
};

ProgramMonitor::ProgramMonitor(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                               std::filesystem::path folder, Options options) {
  if (options.every < 1) throw InvalidArgument("ProgramMonitor: every: expected 1 or more");
  if (options.start < 0) throw InvalidArgument("ProgramMonitor: start: expected 0 or more");
  if (options.attention_queries < 0) {
    throw InvalidArgument("ProgramMonitor: attention_queries: expected 0 or more");
  }
  if (!(options.expert_capacity > 0)) {
    throw InvalidArgument("ProgramMonitor: expert_capacity: expected a number above 0");
  }
  state_ = std::make_unique<State>(model, optimizer, std::move(folder), std::move(options));
}

ProgramMonitor::~ProgramMonitor() = default;

at::Tensor ProgramMonitor::activation(std::string_view name, at::Tensor output) {
  state_->attempt_module(name, [&](const std::string& of) {
    if (!output.defined()) throw InvalidArgument("expected a tensor");
    const TensorMeter::Item item{state_->module_label(kActivations, of), -1, output};
    state_->meter.measure(state_->frame, std::span(&item, 1), &state_->calls);
  });
  return output;
}

void ProgramMonitor::attention(std::string_view name, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& mask, bool is_causal, std::optional<double> scale) {
  state_->attempt_module(name, [&](const std::string& of) {
    if (!query.defined() || !key.defined()) throw InvalidArgument("attention: expected queries and keys");
    state_->measure_attention(
        of, attention_rows(query, key, mask, is_causal, scale, state_->options.attention_queries));
  });
}

void ProgramMonitor::attention_scores(std::string_view name, const at::Tensor& scores) {
  state_->attempt_module(name, [&](const std::string& of) {
    if (!scores.defined()) throw InvalidArgument("attention: expected scores");
    state_->measure_attention(of, attention_rows(scores, state_->options.attention_queries));
  });
}

void ProgramMonitor::experts(std::string_view name, const at::Tensor& logits, std::int64_t top) {
  state_->attempt_module(name, [&](const std::string& of) {
    if (!logits.defined()) throw InvalidArgument("experts: expected logits");
    state_->measure_experts(of, logits, top);
  });
}

void ProgramMonitor::before_update() {
  state_->attempt([&] { state_->measure_before(); });
}

void ProgramMonitor::after_update(const std::map<std::string, double>& numbers) {
  state_->attempt([&] { state_->measure_after(numbers); });
}

std::int64_t ProgramMonitor::step() const { return state_->step; }
bool ProgramMonitor::is_open() const { return state_->open; }

}  // namespace msprobe::torch_adapter
