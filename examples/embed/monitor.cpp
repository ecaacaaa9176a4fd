// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// The monitor in a libtorch training loop without Python: norms of gradients and weights of every step in one
// file, for `msprobe trend OUT/run_a OUT/run_b`. The second run multiplies one gradient by ten from a step
// on, and the program finds where it parts from the first.
//
//   monitor OUT         exit code 0: the planted step was found, 1: it was not, 2: an error

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/monitor_parting.h"
#include "msprobe/monitor_plan.h"
#include "msprobe/monitor_store.h"
#include "msprobe/torch_monitor.h"

namespace monitor = msprobe::monitor;

namespace {

constexpr std::int64_t kSteps = 200;
constexpr std::int64_t kWrongFrom = 120;

// Measures parameters and gradients of a model, and appends the numbers of each step to a store.
class Monitor {
 public:
  Monitor(const torch::nn::Module& model, const std::filesystem::path& folder)
      : parameters_(model.named_parameters().pairs()), store_(prepared(folder) / "monitor.db", {}) {
    for (const std::string_view quantity : {"gradient", "weight"}) {
      std::vector<std::uint32_t> all;
      for (const auto& [name, tensor] : parameters_) {
        all.push_back(labels_.add({0, name, 0}));
        plan_.add(all.back(), monitor::Kind::kTensor, "norm", series(quantity, name, "parameter"));
      }
      plan_.add_group(all, monitor::Kind::kTensor, "norm", series(quantity, "", "model"));
    }
    loss_ = store_.add_series({"loss", "", "", "model", -1, ""});
  }

  // Between backward() and the step of the optimizer.
  void before_step() {
    measure(0, [](const torch::Tensor& parameter) { return parameter.grad(); });
  }

  void after_step(std::int64_t step, double loss) {
    measure(parameters_.size(), [](const torch::Tensor& parameter) { return parameter; });
    meter_.fetch();
    std::vector<double> numbers(loss_ + 1, monitor::absent());
    plan_.evaluate(frame_, numbers);
    numbers[loss_] = loss;
    store_.append(step, numbers);
    frame_.clear();
    calls_.reset();
  }

 private:
  static std::filesystem::path prepared(const std::filesystem::path& folder) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder;
  }

  std::uint32_t series(std::string_view quantity, const std::string& name, const std::string& scope) {
    return store_.add_series({std::string(quantity), "norm", name, scope, -1, ""});
  }

  template <typename Tensor>
  void measure(std::size_t first_label, Tensor tensor_of) {
    std::vector<msprobe::torch_adapter::TensorMeter::Item> items;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      items.push_back({static_cast<std::uint32_t>(first_label + i), -1, tensor_of(parameters_[i].second)});
    }
    meter_.measure(frame_, items, &calls_);
  }

  std::vector<std::pair<std::string, torch::Tensor>> parameters_;
  monitor::StoreWriter store_;  // what is waiting is on disk when it is gone
  monitor::Labels labels_;
  monitor::Plan plan_;
  monitor::Frame frame_;
  monitor::CallCounter calls_;
  msprobe::torch_adapter::TensorMeter meter_{{}};
  std::uint32_t loss_ = 0;
};

void train(const std::filesystem::path& folder, bool wrong) {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(16, 32), torch::nn::GELU(), torch::nn::Linear(32, 4));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  Monitor watch(*model, folder);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const torch::Tensor x = torch::randn({32, 16});
    const torch::Tensor loss = torch::mse_loss(model->forward(x), x.slice(1, 0, 4));
    optimizer.zero_grad();
    loss.backward();
    if (wrong && step >= kWrongFrom) model->parameters().front().mutable_grad().mul_(10);
    watch.before_step();
    optimizer.step();
    watch.after_step(step, loss.item<double>());
  }
}

// Whether the planted step is found, and says what is.
bool found(const std::filesystem::path& reference_folder, const std::filesystem::path& target_folder) {
  const monitor::StoreReader reference(reference_folder / "monitor.db");
  const monitor::StoreReader target(target_folder / "monitor.db");
  const std::vector<monitor::Series> series = reference.series();
  std::vector<monitor::SeriesPair> pairs;
  for (std::uint32_t i = 0; i < series.size(); ++i) pairs.push_back({i, i, true});
  const monitor::Partings partings = monitor::find_partings(reference, target, pairs);
  if (partings.found.empty()) {
    std::puts("the runs do not part");
    return false;
  }
  const monitor::Parting& first = partings.found.front();
  std::printf("the runs part at step %lld: %s is %.4g, the reference %.4g +- %.2g\n",
              static_cast<long long>(first.step), series[first.pair].key().c_str(), first.target,
              first.reference, first.band);
  return first.step == kWrongFrom;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: monitor OUT\n", stderr);
    return 2;
  }
  try {
    const std::filesystem::path out = argv[1];
    train(out / "run_a", false);
    train(out / "run_b", true);
    return found(out / "run_a", out / "run_b") ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
