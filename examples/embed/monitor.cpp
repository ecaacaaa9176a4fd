// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// The monitor in a libtorch training loop without Python: gradients, weights, moments, updates, directions,
// activations and their gradients, attention, experts, collectives and spectra in one file, for
// `msprobe trend OUT/run_a OUT/run_b`; alarms in another. The second run multiplies one gradient by ten from
// a step on, and the program finds where it diverges from the first.
//
//   monitor OUT         exit code 0: the planted step was found, 1: it was not, 2: an error

#include "msprobe/monitor.h"

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/torch_program_monitor.h"

namespace monitor = msprobe::monitor;
using msprobe::torch_adapter::ProgramMonitor;

namespace {

constexpr std::int64_t kSteps = 200;
constexpr std::int64_t kWrongFrom = 120;
constexpr std::int64_t kExperts = 4;

// Attention over four places, then four experts, weighted. It tells the monitor what it is asked for:
// activations, logits, and what the router decides.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    qkv = register_module("qkv", torch::nn::Linear(16, 48));
    gate = register_module("gate", torch::nn::Linear(16, kExperts));
    experts = register_module("experts", torch::nn::ModuleList());
    for (std::int64_t i = 0; i < kExperts; ++i) experts->push_back(torch::nn::Linear(16, 4));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const std::vector<torch::Tensor> parts = qkv(x).chunk(3, -1);
    if (monitor != nullptr) monitor->attention("attention", parts[0], parts[1]);
    torch::Tensor seen = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    const torch::Tensor chance = torch::softmax(gate(seen), -1);
    if (monitor != nullptr) {
      seen = monitor->activation("attention", seen);
      monitor->experts("gate", chance, 2);
    }
    torch::Tensor sum;
    for (std::int64_t i = 0; i < kExperts; ++i) {
      const torch::Tensor part =
          experts[i]->as<torch::nn::Linear>()->forward(seen) * chance.slice(-1, i, i + 1);
      sum = i == 0 ? part : sum + part;
    }
    return sum;
  }

  torch::nn::Linear qkv{nullptr};
  torch::nn::Linear gate{nullptr};
  torch::nn::ModuleList experts;
  ProgramMonitor* monitor = nullptr;  // null: nobody watches
};
TORCH_MODULE(Net);

// Stands for that of a program with several processes, which adds up what they have.
torch::Tensor all_reduce(const torch::Tensor& gradient) { return gradient; }

void train(const std::filesystem::path& folder, bool wrong) {
  torch::manual_seed(0);
  Net model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  ProgramMonitor::Options options;
  options.updates = true;
  options.directions = true;            // of gradients, beside their moment and from step to step
  options.activation_gradients = true;  // of what activation() is given
  options.spectra = true;               // of the matrices, every 50th step
  options.matrix_every = 50;
  options.on_alarm = [](const auto&, const auto&, const std::string& message) {
    std::printf("alarm: %s\n", message.c_str());
  };
  ProgramMonitor watch(*model, optimizer, folder, options);
  model->monitor = &watch;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const torch::Tensor x = torch::randn({8, 4, 16});
    const torch::Tensor loss = torch::mse_loss(model->forward(x), x.slice(-1, 0, 4));
    optimizer.zero_grad();
    loss.backward();
    if (wrong && step >= kWrongFrom) model->parameters().front().mutable_grad().mul_(10);
    for (const torch::Tensor& one : model->parameters()) {
      watch.communication("all_reduce", all_reduce(one.grad()));
    }
    watch.add("tokens", static_cast<double>(x.numel() / x.size(-1)));
    watch.before_update();
    optimizer.step();
    watch.after_update({{"loss", loss.item<double>()}});
  }
}

// Whether the planted step is found, and says what is.
bool found(const std::filesystem::path& reference_folder, const std::filesystem::path& target_folder) {
  const monitor::StoreReader reference(reference_folder / "monitor.db");
  const monitor::StoreReader target(target_folder / "monitor.db");
  const std::vector<monitor::Series> series = reference.series();
  std::vector<monitor::SeriesPair> pairs;
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < series.size(); ++i) {
    if (series[i].quantity == "step_seconds") continue;  // another day, another speed
    pairs.push_back({i, i, series[i].quantity != "learning_rate"});
    keys.push_back(series[i].key());
  }
  const monitor::Partings partings = monitor::find_partings(reference, target, pairs);
  if (partings.found.empty()) {
    std::puts("the runs do not part");
    return false;
  }
  const monitor::Parting& first = partings.found.front();
  std::printf("the runs part at step %lld: %s is %.4g, the reference %.4g +- %.2g\n",
              static_cast<long long>(first.step), keys[first.pair].c_str(), first.target, first.reference,
              first.band);
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
