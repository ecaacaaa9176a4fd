// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// A libtorch training that is watched as a configuration file says, with the same calls as in Python. The
// program does not know which task that is: it is run with several files (CMakeLists.txt).
//
//   debugger CONFIG OUT      exit code 0: something was recorded in OUT, and the losses are those of the same
//                            training without the debugger, 1: not so, 2: an error

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/log.h"
#include "msprobe/torch_debugger.h"

namespace {

using msprobe::torch_adapter::ModuleScope;
using msprobe::torch_adapter::PrecisionDebugger;

struct ClassifierImpl : torch::nn::Module {
  ClassifierImpl() {
    register_module("up", up);
    register_module("down", down);
  }

  // libtorch has no hooks for a forward: levels L0 and mix record the calls that stand in a scope.
  torch::Tensor forward(PrecisionDebugger* debugger, const torch::Tensor& x) {
    return call(debugger, down, torch::relu(call(debugger, up, x)));
  }

  template <typename Holder>
  static torch::Tensor call(PrecisionDebugger* debugger, Holder& module, const torch::Tensor& x) {
    if (debugger == nullptr) return module(x);
    ModuleScope scope(*debugger, *module, {x});
    return scope.output(module(x));
  }

  torch::nn::Linear up{12, 16};
  torch::nn::Linear down{16, 3};
};
TORCH_MODULE(Classifier);

/// The losses of all steps. Null: nothing is recorded.
std::vector<double> train(PrecisionDebugger* debugger) {
  torch::manual_seed(7);
  Classifier model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<double> losses;
  if (debugger != nullptr) debugger->monitor(*model);
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor x = torch::randn({8, 12});
    const torch::Tensor target = torch::randint(3, {8});
    optimizer.zero_grad();
    if (debugger != nullptr) debugger->start(*model);
    const torch::Tensor logits = model->forward(debugger, x);
    if (debugger != nullptr) debugger->save(logits, "logits");
    const torch::Tensor loss = torch::nn::functional::cross_entropy(logits, target);
    loss.backward();
    optimizer.step();
    if (debugger != nullptr) {
      debugger->stop();
      debugger->step();
    }
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CONFIG OUT\n", argv[0]);
    return 2;
  }
  msprobe::set_log_sink([](msprobe::LogLevel level, std::string_view message) {
    if (level >= msprobe::LogLevel::kWarning)
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  });
  const std::filesystem::path out = argv[2];
  std::filesystem::remove_all(out);  // files of an earlier run prove nothing
  std::vector<double> recorded;
  {
    PrecisionDebugger debugger(argv[1], {.dump_path = {out.string()}});
    recorded = train(&debugger);
    std::printf("task %s, level %s\n", debugger.configuration().task.c_str(),
                debugger.configuration().level.c_str());
  }
  if (!std::filesystem::exists(out)) {
    std::printf("%s: nothing was recorded\n", out.string().c_str());
    return 1;
  }
  if (recorded != train(nullptr)) {
    std::puts("the losses differ from those without the debugger");
    return 1;
  }
  std::printf("%s: recorded, and the losses are the same\n", out.string().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
