// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/torch.h"
#include "torch/device_meters.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

namespace gp = grad_probe;

unsigned thread_count(unsigned wanted) {
  return wanted != 0 ? wanted : static_cast<unsigned>(std::max(1, at::get_num_threads()));
}

std::vector<std::int64_t> reversed_dimensions(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = tensor.dim() - 1 - static_cast<std::int64_t>(i);
  return order;
}

// Gradients of a device, measured there. As gp::measure for host memory.
std::vector<gp::Measurement> measure_on_device(
    const std::vector<std::pair<std::string, at::Tensor>>& gradients, const gp::Options& options) {
  const gp::MeasurementPlan plan(options);
  std::vector<gp::Measurement> measurements(gradients.size());
  std::vector<DeviceRequest> requests(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& [name, gradient] = gradients[i];
    const auto sizes = gradient.sizes();
    const auto strides = gradient.strides();
    const TensorView layout{nullptr,
                            *dtype_of(gradient.scalar_type()),
                            {sizes.data(), sizes.size()},
                            {strides.data(), strides.size()}};
    measurements[i] = plan.prepare(name, layout);
    requests[i].tensor =
        measurements[i].fortran_order ? gradient.permute(reversed_dimensions(gradient)) : gradient;
    requests[i].options = plan.request(measurements[i]);
  }
  std::vector<stats::Summary> summaries = summarize_on_device(requests);
  for (std::size_t i = 0; i < gradients.size(); ++i) plan.complete(measurements[i], std::move(summaries[i]));
  return measurements;
}

}  // namespace

struct GradProbe::State {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  GradProbeSettings settings;
  gp::Writer writer;
  ThreadPool pool;
  std::unordered_map<std::string, std::size_t> index;  // of a parameter in the order of the csv
  std::set<std::string> warned;
  std::int64_t next_step = 0;

  State(std::vector<std::pair<std::string, at::Tensor>> all, GradProbeSettings wanted)
      : parameters(std::move(all)),
        settings(std::move(wanted)),
        writer(settings.options),
        pool(thread_count(settings.threads)) {
    std::sort(settings.steps.begin(), settings.steps.end());
    for (std::size_t i = 0; i < parameters.size(); ++i) index.emplace(parameters[i].first, i);
  }

  bool wanted(std::int64_t step) const {
    return settings.steps.empty() || std::binary_search(settings.steps.begin(), settings.steps.end(), step);
  }

  void warn_once(const std::string& name, const std::string& reason) {
    if (!warned.insert(name).second) return;
    log(LogLevel::kWarning, "gradient probe: the gradient of " + name + " " + reason + "; it is left out");
  }

  void record(const std::vector<at::Tensor>& gradients) {
    if (gradients.size() != parameters.size()) {
      throw InvalidArgument("gradient probe: expected " + std::to_string(parameters.size()) +
                            " gradients, found " + std::to_string(gradients.size()));
    }
    std::vector<at::Tensor> kept;  // what the views of host gradients point into
    std::vector<gp::Gradient> on_host;
    std::vector<std::pair<std::string, at::Tensor>> on_device;
    kept.reserve(gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const std::string& name = parameters[i].first;
      if (!gradients[i].defined()) {
        log(LogLevel::kDebug, "grad is None: " + name);
        continue;
      }
      if (const std::string reason = why_unreadable(gradients[i]); !reason.empty()) {
        warn_once(name, reason);
        continue;
      }
      if (gradients[i].is_complex()) {
        warn_once(name, "is complex");
        continue;
      }
      const at::Tensor& gradient = kept.emplace_back(resolved(gradients[i]));
      if (!is_elsewhere(gradient)) {
        on_host.push_back({name, view_of(gradient)});
      } else {
        on_device.emplace_back(name, gradient);
      }
    }
    std::vector<gp::Measurement> measured = gp::measure(on_host, settings.options, &pool, writer.spare());
    if (!on_device.empty()) {
      std::vector<gp::Measurement> more = measure_on_device(on_device, settings.options);
      std::move(more.begin(), more.end(), std::back_inserter(measured));
      std::sort(measured.begin(), measured.end(), [this](const gp::Measurement& a, const gp::Measurement& b) {
        return index.at(a.name) < index.at(b.name);
      });
    }
    writer.record(next_step, std::move(measured));
  }
};

GradProbe::GradProbe(std::vector<std::pair<std::string, at::Tensor>> parameters, GradProbeSettings settings)
    : state_(std::make_unique<State>(std::move(parameters), std::move(settings))) {}

GradProbe::~GradProbe() = default;

void GradProbe::step() {
  std::vector<at::Tensor> gradients;
  if (wants_next_step()) {
    gradients.reserve(state_->parameters.size());
    for (const auto& [name, parameter] : state_->parameters) gradients.push_back(parameter.grad());
  }
  step(gradients);
}

void GradProbe::step(const std::vector<at::Tensor>& gradients) {
  if (wants_next_step()) {
    try {
      state_->record(gradients);
    } catch (const std::exception& e) {  // a fault of ours must not stop the training
      log(LogLevel::kError,
          "gradient probe: step " + std::to_string(state_->next_step) + " is not recorded: " + e.what());
    }
  }
  ++state_->next_step;
}

bool GradProbe::wants_next_step() const noexcept { return state_->wanted(state_->next_step); }

void GradProbe::skip_step() noexcept { ++state_->next_step; }

std::int64_t GradProbe::steps_seen() const noexcept { return state_->next_step; }

std::int64_t GradProbe::flush() { return state_->writer.flush(); }

}  // namespace msprobe::torch_adapter
