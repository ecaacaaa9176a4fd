// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/program_monitor_modules.h"

#include <span>
#include <utility>

#include "msprobe/error.h"

namespace msprobe::torch_adapter {
namespace {

// The gradient of an activation, when the backward comes to it. The monitor may be gone by then.
class ActivationGradient final : public CallGradients::Listener {
 public:
  ActivationGradient(const std::shared_ptr<ProgramMeasurements>& to, std::uint32_t label)
      : to_(to), label_(label) {}

  void arrived(bool /*of_output*/, std::size_t /*index*/, const at::Tensor& gradient) override {
    const auto to = to_.lock();
    if (!to || !gradient.defined()) return;
    const TensorMeter::Item item{label_, -1, gradient};
    to->meter.measure(*to->frame, std::span(&item, 1), to->calls.get());
  }
  void complete() override {}

 private:
  std::weak_ptr<ProgramMeasurements> to_;
  std::uint32_t label_;
};

}  // namespace

ProgramModules::ProgramModules(const ProgramMonitor::Options& options, monitor::Session& series,
                               std::shared_ptr<ProgramMeasurements> to)
    : options_(options), series_(series), to_(std::move(to)) {}

void ProgramModules::measure(monitor::Measured of, const std::string& name, const at::Tensor& tensor) {
  const TensorMeter::Item item{series_.label(of, name), -1, tensor};
  to_->meter.measure(*to_->frame, std::span(&item, 1), to_->calls.get());
}

void ProgramModules::activation(const std::string& name, const at::Tensor& output) {
  if (!output.defined()) throw InvalidArgument("expected a tensor");
  if (!is_wanted_name(name, options_.targets)) return;
  measure(monitor::Measured::kActivation, name, output);
  if (!options_.activation_gradients || !output.requires_grad()) return;
  const std::uint32_t label = series_.label(monitor::Measured::kActivationGradient, name);
  gradients_.after_call(gradients_.before_call({}), {}, std::span(&output, 1),
                        std::make_unique<ActivationGradient>(to_, label));
}

void ProgramModules::attention(const std::string& name, const AttentionRows& rows) {
  measure(monitor::Measured::kAttentionLogit, name, rows.largest);
  measure(monitor::Measured::kAttentionEntropy, name, rows.entropy);
}

void ProgramModules::experts(const std::string& name, const at::Tensor& logits, std::int64_t top) {
  if (!logits.defined() || logits.dim() < 1 || logits.numel() == 0 || top < 1 || top > logits.size(-1)) {
    throw InvalidArgument("experts: expected logits of (..., experts), and top of 1 to experts");
  }
  const Routing found = routing(logits, top);
  to_->meter.measure_counts(*to_->frame, series_.label(monitor::Measured::kExpertLoad, name), found.counts,
                            options_.expert_capacity);
  measure(monitor::Measured::kRouterProbability, name, found.probability);
  measure(monitor::Measured::kRouterEntropy, name, found.entropy);
}

void ProgramModules::communication(const std::string& collective, const at::Tensor& result) {
  if (!result.defined()) throw InvalidArgument("expected a tensor");
  measure(monitor::Measured::kCommunication, collective, result);
}

}  // namespace msprobe::torch_adapter
