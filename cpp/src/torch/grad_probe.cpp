// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/torch.h"
#include "torch/device_meters.h"
#include "torch/device_summary.h"
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

}  // namespace

struct GradProbe::State {
  // Gradients of a device, on their way to the host.
  class OfDevice {
   public:
    OfDevice(const std::vector<std::pair<std::string, at::Tensor>>& gradients, const gp::Options& options)
        : plan_(options), measurements_(prepared(gradients)), summaries_(requests(gradients)) {}

    std::vector<gp::Measurement> finish() {
      std::vector<stats::Summary> summaries = summaries_.finish();
      for (std::size_t i = 0; i < summaries.size(); ++i) {
        plan_.complete(measurements_[i], std::move(summaries[i]));
      }
      return std::move(measurements_);
    }

   private:
    std::vector<gp::Measurement> prepared(
        const std::vector<std::pair<std::string, at::Tensor>>& gradients) const {
      std::vector<gp::Measurement> measurements;
      for (const auto& [name, gradient] : gradients) {
        const auto sizes = gradient.sizes();
        const auto strides = gradient.strides();
        const TensorView layout{nullptr,
                                *dtype_of(gradient.scalar_type()),
                                {sizes.data(), sizes.size()},
                                {strides.data(), strides.size()}};
        measurements.push_back(plan_.prepare(name, layout));
      }
      return measurements;
    }

    std::vector<DeviceRequest> requests(const std::vector<std::pair<std::string, at::Tensor>>& gradients) {
      std::vector<DeviceRequest> all;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        const at::Tensor& gradient = gradients[i].second;
        const bool is_turned = measurements_[i].fortran_order;
        all.push_back({is_turned ? gradient.permute(reversed_dimensions(gradient)) : gradient,
                       plan_.request(measurements_[i])});
      }
      return all;
    }

    gp::MeasurementPlan plan_;
    std::vector<gp::Measurement> measurements_;
    ComingSummaries summaries_;
  };

  // What was recorded. Gradients of a device are completed at the next step, so that nobody waits for them.
  struct Step {
    std::int64_t number;
    std::vector<gp::Measurement> measured;
    std::unique_ptr<OfDevice> of_device;  // null: there are none
  };

  std::vector<std::pair<std::string, at::Tensor>> parameters;
  GradProbeSettings settings;
  gp::Writer writer;
  ThreadPool pool;
  std::unordered_map<std::string, std::size_t> index;  // of a parameter in the order of the csv
  std::set<std::string> warned;
  std::int64_t next_step = 0;
  std::optional<Step> last;  // not written yet

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
    Step step{next_step, gp::measure(on_host, settings.options, &pool, writer.spare()), nullptr};
    if (!on_device.empty()) step.of_device = std::make_unique<OfDevice>(on_device, settings.options);
    write_last();
    last = std::move(step);
    if (!last->of_device) write_last();
  }

  // A fault of ours must not stop the training.
  void write_last() noexcept {
    if (!last) return;
    Step step = *std::exchange(last, std::nullopt);
    try {
      if (step.of_device) add_of_device(step);
      writer.record(step.number, std::move(step.measured));
    } catch (const std::exception& e) {
      log(LogLevel::kError,
          "gradient probe: step " + std::to_string(step.number) + " is not recorded: " + e.what());
    }
  }

  // In the order of the csv.
  void add_of_device(Step& step) const {
    std::vector<gp::Measurement> more = step.of_device->finish();
    std::move(more.begin(), more.end(), std::back_inserter(step.measured));
    std::sort(step.measured.begin(), step.measured.end(),
              [this](const gp::Measurement& a, const gp::Measurement& b) {
                return index.at(a.name) < index.at(b.name);
              });
  }
};

GradProbe::GradProbe(std::vector<std::pair<std::string, at::Tensor>> parameters, GradProbeSettings settings)
    : state_(std::make_unique<State>(std::move(parameters), std::move(settings))) {}

GradProbe::~GradProbe() { state_->write_last(); }

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
  if (state_->last && state_->last->number != state_->next_step) state_->write_last();
  ++state_->next_step;
}

bool GradProbe::wants_next_step() const noexcept { return state_->wanted(state_->next_step); }

void GradProbe::skip_step() noexcept { ++state_->next_step; }

std::int64_t GradProbe::steps_seen() const noexcept { return state_->next_step; }

std::int64_t GradProbe::flush() {
  state_->write_last();
  return state_->writer.flush();
}

}  // namespace msprobe::torch_adapter
