// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// The data dump of a libtorch training without Python: two steps of a small classifier, with its modules, all
// operators of forward, backward and optimizer, and the gradients of its parameters. Then the files are read
// back to see that it is all there, and that the training went as it does without the dump.
//
//   dump OUT      exit code 0: it is, 1: something is missing or different, 2: an error

#include "msprobe/dump.h"

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/log.h"
#include "msprobe/torch_dump.h"

namespace {

using msprobe::torch_adapter::ModuleScope;
using msprobe::torch_adapter::ProgramDump;

constexpr std::int64_t kSteps = 2;
constexpr std::int64_t kFeatures = 12;
constexpr std::int64_t kHidden = 16;
constexpr std::int64_t kClasses = 3;

struct Block : torch::nn::Module {
  Block() {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }

  // What a scope is given the path of is found in the dump under that path and the name of its class.
  torch::Tensor forward(ProgramDump& dump, const std::string& path, const torch::Tensor& x) {
    ModuleScope scope(dump, path, *this, {x});
    torch::Tensor y = call(dump, path + ".norm", norm, x);
    y = torch::gelu(call(dump, path + ".up", up, y));
    return scope.output(x + call(dump, path + ".down", down, y));
  }

  template <typename Holder>
  static torch::Tensor call(ProgramDump& dump, const std::string& path, Holder& module,
                            const torch::Tensor& x) {
    ModuleScope scope(dump, path, *module, {x});
    return scope.output(module(x));
  }

  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kFeatures})};
  torch::nn::Linear up{kFeatures, kHidden};
  torch::nn::Linear down{kHidden, kFeatures};
};

struct Classifier : torch::nn::Module {
  Classifier() {
    for (int i = 0; i < 2; ++i)
      layers.push_back(register_module("layers" + std::to_string(i), std::make_shared<Block>()));
    register_module("head", head);
  }

  torch::Tensor forward(ProgramDump& dump, torch::Tensor x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i]->forward(dump, "layers" + std::to_string(i), x);
    }
    return Block::call(dump, "head", head, x);
  }

  std::vector<std::shared_ptr<Block>> layers;
  torch::nn::Linear head{kFeatures, kClasses};
};

std::filesystem::path step_directory(const std::filesystem::path& out, std::int64_t step) {
  return out / ("step" + std::to_string(step)) / "rank0";
}

/// The losses of all steps. Without `out` nothing is recorded.
std::vector<double> train(const std::filesystem::path& out) {
  torch::manual_seed(7);
  Classifier model;
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  ProgramDump dump;
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const torch::Tensor x = torch::randn({8, kFeatures});
    const torch::Tensor target = torch::randint(kClasses, {8});
    if (!out.empty()) {
      dump.open(step_directory(out, step));
      dump.operators().start();
    }
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model.forward(dump, x), target);
    loss.backward();
    optimizer.step();
    dump.operators().stop();
    dump.close();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// How many of the names the dump of a step lacks; each is printed.
int missing_in(const std::filesystem::path& directory) {
  const std::string data = read_text(directory / "dump.json");
  const std::string hierarchy = read_text(directory / "construct.json");
  int missing = 0;
  for (const char* name :
       {"Module.layers0.Block.forward.0", "Module.layers1.up.Linear.forward.0",
        "Module.layers1.norm.LayerNorm.backward.0", "Module.head.Linear.parameters_grad",
        "Aten.gelu.1.forward", "Aten.gelu_backward.1.backward", "Aten.nll_loss_backward.0.backward"}) {
    if (data.find("\"" + std::string(name) + "\": {") != std::string::npos) continue;
    std::printf("%s: no record %s\n", directory.string().c_str(), name);
    ++missing;
  }
  const char* inside = "\"Aten.addmm.0.forward\": \"Module.layers0.up.Linear.forward.0\"";
  if (hierarchy.find(inside) == std::string::npos) {
    std::printf("%s: construct.json lacks %s\n", directory.string().c_str(), inside);
    ++missing;
  }
  return missing;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s OUT\n", argv[0]);
    return 2;
  }
  msprobe::set_log_sink([](msprobe::LogLevel level, std::string_view message) {
    if (level >= msprobe::LogLevel::kWarning)
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  });
  const std::filesystem::path out = argv[1];
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::filesystem::remove_all(step_directory(out, step));  // files of an earlier run prove nothing
  }
  const std::vector<double> plain = train({});
  const std::vector<double> recorded = train(out);
  int wrong = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) wrong += missing_in(step_directory(out, step));
  if (plain != recorded) {
    std::puts("the losses differ from those without the dump");
    ++wrong;
  }
  std::printf("%s: %s\n", out.string().c_str(),
              wrong == 0 ? "complete, and the losses are the same" : "wrong");
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
