// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/program_monitor_parameters.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <array>

#include "msprobe/config.h"
#include "msprobe/error.h"
#include "msprobe/log.h"

namespace msprobe::torch_adapter {
namespace {

TensorMeter::Options options_of_meter(double eps, bool powers) {
  TensorMeter::Options options;
  options.eps = eps;
  options.powers = powers;
  return options;
}

// exp_avg and exp_avg_sq; undefined: the optimizer has none.
std::pair<at::Tensor, at::Tensor> moments_in(const torch::optim::Optimizer& optimizer,
                                             const at::Tensor& parameter) {
  const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (state == optimizer.state().end()) return {};
  if (const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(state->second.get())) {
    return {adam->exp_avg(), adam->exp_avg_sq()};
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWParamState*>(state->second.get())) {
    return {adamw->exp_avg(), adamw->exp_avg_sq()};
  }
  return {};
}

std::string prefix_of_model(std::size_t place, std::size_t count) {
  return count > 1 ? std::to_string(place) + "." : "";
}

}  // namespace

ProgramMeasurements::ProgramMeasurements(double eps, monitor::Session& session)
    : meter(options_of_meter(eps, true)), frame(session.frame({})), calls(session.calls()) {}

ProgramParameters::ProgramParameters(const std::vector<const torch::nn::Module*>& models,
                                     Optimizers optimizers, const ProgramMonitor::Options& options,
                                     monitor::Session& series, ProgramMeasurements& to)
    : options_(options), series_(series), to_(to), optimizers_(std::move(optimizers)) {
  find(models);
  warn_of_unmatched(models);
  make_labels();
}

// Those with gradients whose names match, each once.
void ProgramParameters::find(const std::vector<const torch::nn::Module*>& models) {
  const bool joins = joins_peers(options_);
  std::set<const at::TensorImpl*> seen;
  int turn = 0;  // what all processes have is measured by each in its turn
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (const auto& item : models[i]->named_parameters()) {
      const std::string name = prefix_of_model(i, models.size()) + item.key();
      if (!item.value().requires_grad() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
      if (!is_wanted_name(name, options_.targets)) continue;
      const bool is_split = joins && !options_.split.empty() && is_wanted_name(name, options_.split);
      const bool here = !joins || is_split || turn++ % options_.world_size == options_.rank;
      parameters_.push_back({name, item.value(), here, is_split});
    }
  }
}

void ProgramParameters::warn_of_unmatched(const std::vector<const torch::nn::Module*>& models) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::string prefix = prefix_of_model(i, models.size());
    for (const auto& item : models[i]->named_parameters()) names.push_back(prefix + item.key());
    for (const auto& item : models[i]->named_modules("", false)) names.push_back(prefix + item.key());
  }
  for (const std::string& target : options_.targets) {
    if (std::any_of(names.begin(), names.end(),
                    [&](const auto& name) { return is_wanted_name(name, {target}); }))
      continue;
    const std::string close = config::closest_word(target, names, 0.5);
    log(LogLevel::kWarning, "monitor: targets: nothing in the model is called \"" + target + "\"" +
                                (close.empty() ? "" : "; close to it: " + close));
  }
}

// In blocks by quantity, so that the rows of one lie side by side.
void ProgramParameters::make_labels() {
  using Q = monitor::Measured;
  const std::array<std::pair<Q, bool>, 7> all{{{Q::kGradient, options_.gradients},
                                               {Q::kWeight, options_.weights},
                                               {Q::kMoment, options_.moments},
                                               {Q::kSecondMoment, options_.moments},
                                               {Q::kUpdate, options_.updates},
                                               {Q::kGradientMoment, options_.directions},
                                               {Q::kGradientChange, options_.directions}}};
  for (const auto& [of, wanted] : all) {
    if (!wanted) continue;
    for (Parameter& one : parameters_) one.labels[of] = series_.label(of, one.name);
  }
}

// Those of its groups; all, where it updates others in their place, as copies in float32.
ProgramParameters::Some ProgramParameters::of_optimizer(const torch::optim::Optimizer& optimizer) {
  std::set<const at::TensorImpl*> own;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& one : group.params()) own.insert(one.unsafeGetTensorImpl());
  }
  Some found;
  Some all;
  bool any = false;
  for (Parameter& one : parameters_) {
    const bool is_own = own.contains(one.tensor.unsafeGetTensorImpl());
    any = any || is_own;
    if (!one.is_measured_here) continue;
    all.push_back(&one);
    if (is_own) found.push_back(&one);
  }
  return any ? found : all;
}

void ProgramParameters::before_update(const torch::optim::Optimizer& optimizer, bool recorded,
                                      bool next_recorded) {
  if (std::find(optimizers_.begin(), optimizers_.end(), &optimizer) == optimizers_.end()) {
    throw InvalidArgument("before_update: expected an optimizer that the monitor was made with");
  }
  stepped_.insert(&optimizer);
  if (!recorded && !(next_recorded && options_.directions)) return;
  const Some parameters = of_optimizer(optimizer);
  Tensors gradients;
  for (const Parameter* one : parameters) gradients.push_back(one->tensor.grad());
  const c10::NoGradGuard no_grad;
  if (recorded) {
    measure(monitor::Measured::kGradient, parameters, gradients);
    if (options_.directions) {
      Tensors moments;
      Tensors last;
      for (const Parameter* one : parameters) {
        moments.push_back(moments_in(optimizer, one->tensor).first);
        last.push_back(one->last_gradient);
      }
      measure_pairs(monitor::Measured::kGradientMoment, parameters, gradients, moments,
                    /*left_is_kept=*/false);
      measure_pairs(monitor::Measured::kGradientChange, parameters, last, gradients, /*left_is_kept=*/true);
    }
    if (options_.updates) {
      Tensors weights;
      for (const Parameter* one : parameters) weights.push_back(one->tensor);
      keep(&Parameter::before, parameters, weights);
    }
  }
  if (options_.directions && next_recorded) keep(&Parameter::last_gradient, parameters, gradients);
}

void ProgramParameters::keep(at::Tensor Parameter::* place, const Some& parameters, const Tensors& tensors) {
  Tensors kept;
  for (const Parameter* one : parameters) kept.push_back(one->*place);
  to_.meter.keep(kept, tensors);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->*place = kept[i];
}

void ProgramParameters::end_step() {
  Some here;
  Tensors weights;
  for (Parameter& one : parameters_) {
    if (!one.is_measured_here) continue;
    here.push_back(&one);
    weights.push_back(one.tensor);
  }
  measure(monitor::Measured::kWeight, here, weights);
  for (const torch::optim::Optimizer* optimizer : optimizers_) {
    if (!stepped_.contains(optimizer)) continue;
    const Some parameters = of_optimizer(*optimizer);
    Tensors first;
    Tensors second;
    Tensors before;
    Tensors behind;
    for (const Parameter* one : parameters) {
      auto moments = moments_in(*optimizer, one->tensor);
      first.push_back(std::move(moments.first));
      second.push_back(std::move(moments.second));
      before.push_back(one->before);
      behind.push_back(one->tensor);
    }
    measure(monitor::Measured::kMoment, parameters, first);
    measure(monitor::Measured::kSecondMoment, parameters, second);
    if (options_.updates) {
      measure_pairs(monitor::Measured::kUpdate, parameters, before, behind, /*left_is_kept=*/true);
    }
  }
}

void ProgramParameters::spectra_to(
    const std::function<void(const std::string&, const metrics::Spectrum&)>& number) const {
  std::vector<const Parameter*> chosen;
  Tensors matrices;
  for (const Parameter& one : parameters_) {
    const at::Tensor& tensor = one.tensor;
    // Of a part of a matrix the spectrum would be another.
    if (one.is_split || tensor.dim() != 2 || std::min(tensor.size(0), tensor.size(1)) < 2) continue;
    if (!is_wanted_name(one.name, options_.matrices)) continue;
    chosen.push_back(&one);
    matrices.push_back(tensor);
  }
  const std::vector<metrics::Spectrum> found = spectra(matrices);
  for (std::size_t i = 0; i < found.size(); ++i) number(chosen[i]->name, found[i]);
}

// One that takes no more than the metrics of a quantity need: sums of powers and counts of small elements
// take half as long again as everything else.
TensorMeter& ProgramParameters::meter_for(monitor::Measured of) {
  const auto metrics = monitor::chosen_metrics(monitor::quantity(of), options_.metrics);
  const auto has = [&](std::string_view name) {
    return std::find(metrics.begin(), metrics.end(), name) != metrics.end();
  };
  const bool powers = has("kurtosis") || has("abs_mean");
  const bool small = has("zeros");
  if (powers && small) return to_.meter;
  auto& meter = lean_[{powers, small}];
  if (!meter) meter = std::make_unique<TensorMeter>(options_of_meter(small ? options_.eps : 0.0, powers));
  return *meter;
}

void ProgramParameters::measure(monitor::Measured of, const Some& parameters, const Tensors& tensors) {
  std::vector<TensorMeter::Item> items;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto label = parameters[i]->labels.find(of);
    if (label == parameters[i]->labels.end()) return;  // it is not wanted
    if (tensors[i].defined()) items.push_back({label->second, -1, tensors[i]});
  }
  meter_for(of).measure(*to_.frame, items, to_.calls.get());
}

void ProgramParameters::measure_pairs(monitor::Measured of, const Some& parameters, const Tensors& left,
                                      const Tensors& right, bool left_is_kept) {
  std::vector<std::uint32_t> labels;
  for (const Parameter* one : parameters) labels.push_back(one->labels.at(of));
  to_.meter.measure_pairs(*to_.frame, labels, left, right, left_is_kept);
}

}  // namespace msprobe::torch_adapter
