// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// A libtorch training loop without Python, watched by the gradient probe: a small transformer learns fourteen
// sonnets twice, the second time with one layer computed wrongly from step 3 on. Then both records are
// compared.
//
//   train TEXT OUT      exit code 0: the planted step and layer were found, 1: they were not, 2: an error

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/grad_probe.h"
#include "msprobe/log.h"
#include "msprobe/torch.h"

namespace {

constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kWrongFrom = 3;
constexpr std::int64_t kWrongLayer = 1;
constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kContext = 48;
constexpr std::int64_t kBatch = 16;

torch::nn::Linear projection(std::int64_t in, std::int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("attention_norm", attention_norm);
    register_module("query", query);
    register_module("key", key);
    register_module("value", value);
    register_module("output", output);
    register_module("mlp_norm", mlp_norm);
    register_module("up", up);
    register_module("down", down);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(attention_norm(x));
    return x + down(torch::gelu(up(mlp_norm(x))));
  }

  torch::Tensor attention(const torch::Tensor& x) {
    const auto split = [&](torch::nn::Linear& project) {
      return project(x).view({x.size(0), x.size(1), kHeads, kHidden / kHeads}).transpose(1, 2);
    };
    const torch::Tensor scores = torch::matmul(split(query), split(key).transpose(-2, -1)) * scale;
    const torch::Tensor future = torch::ones({x.size(1), x.size(1)}, torch::kBool).triu(1);
    const torch::Tensor weights = torch::softmax(scores.masked_fill(future, -INFINITY), -1);
    return output(torch::matmul(weights, split(value)).transpose(1, 2).reshape(x.sizes()));
  }

  double scale = 1 / std::sqrt(static_cast<double>(kHidden / kHeads));
  torch::nn::LayerNorm attention_norm{torch::nn::LayerNormOptions({kHidden})};
  torch::nn::Linear query = projection(kHidden, kHidden);
  torch::nn::Linear key = projection(kHidden, kHidden);
  torch::nn::Linear value = projection(kHidden, kHidden);
  torch::nn::Linear output = projection(kHidden, kHidden);
  torch::nn::LayerNorm mlp_norm{torch::nn::LayerNormOptions({kHidden})};
  torch::nn::Linear up{kHidden, 4 * kHidden};
  torch::nn::Linear down{4 * kHidden, kHidden};
};
TORCH_MODULE(Block);

struct Decoder : torch::nn::Module {
  explicit Decoder(std::int64_t vocabulary)
      : token(vocabulary, kHidden), position(kContext, kHidden), head(projection(kHidden, vocabulary)) {
    register_module("token", token);
    register_module("position", position);
    register_module("layers", layers);
    for (std::int64_t i = 0; i < kLayers; ++i) layers->push_back(Block());
    register_module("norm", norm);
    register_module("head", head);
  }

  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = token(tokens) + position(torch::arange(tokens.size(1)));
    for (const auto& layer : *layers) x = layer->as<Block>()->forward(x);
    return head(norm(x));
  }

  torch::nn::Embedding token;
  torch::nn::Embedding position;
  torch::nn::ModuleList layers;
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kHidden})};
  torch::nn::Linear head;
};

/// The characters of a text file, numbered in the order of their codes.
struct Text {
  torch::Tensor tokens;
  std::int64_t vocabulary = 0;
};

Text read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() <= kContext)
    throw std::runtime_error(path.string() + ": must be a text of some thousand characters");
  std::string alphabet = text;
  std::sort(alphabet.begin(), alphabet.end());
  alphabet.erase(std::unique(alphabet.begin(), alphabet.end()), alphabet.end());
  std::vector<std::int64_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<std::int64_t>(alphabet.find(c)));
  return {torch::tensor(tokens), static_cast<std::int64_t>(alphabet.size())};
}

void train(const Text& text, const std::filesystem::path& dump_path, bool with_fault) {
  torch::manual_seed(7);
  Decoder model(text.vocabulary);
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(1e-3));

  msprobe::torch_adapter::GradProbeSettings settings;
  settings.options.dump_path = dump_path;
  msprobe::torch_adapter::GradProbe probe(model.named_parameters().pairs(), settings);

  for (std::int64_t step = 0; step < kSteps; ++step) {
    if (with_fault && step == kWrongFrom) {
      model.layers[kWrongLayer]->as<Block>()->scale = 1;  // as by a kernel that ignores its scale argument
    }
    const torch::Tensor starts = torch::randint(text.tokens.size(0) - kContext, {kBatch, 1});
    const torch::Tensor batch = text.tokens.index({starts + torch::arange(kContext + 1)});
    const torch::Tensor logits = model.forward(batch.slice(1, 0, kContext));
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(logits.flatten(0, 1), batch.slice(1, 1).flatten());
    optimizer.zero_grad();
    loss.backward();
    probe.step();  // right before the optimizer
    optimizer.step();
    std::printf("  step %lld loss %.4f\n", static_cast<long long>(step), loss.item<double>());
  }
  if (probe.flush() != 0) throw std::runtime_error(dump_path.string() + ": some steps could not be written");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TEXT OUT\n", argv[0]);
    return 2;
  }
  msprobe::set_log_sink([](msprobe::LogLevel level, std::string_view message) {
    if (level >= msprobe::LogLevel::kWarning)
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  });
  const Text text = read_text(argv[1]);
  const std::filesystem::path out = argv[2];

  std::puts("run A");
  train(text, out / "run_a", false);
  std::printf("run B, wrong in layers.%lld from step %lld on\n", static_cast<long long>(kWrongLayer),
              static_cast<long long>(kWrongFrom));
  train(text, out / "run_b", true);

  const msprobe::grad_probe::Comparison comparison =
      msprobe::grad_probe::compare(out / "run_a" / "rank0", out / "run_b" / "rank0");
  msprobe::grad_probe::write_similarities(comparison, out / "similarities.csv");
  const std::vector<msprobe::grad_probe::Finding> findings = msprobe::grad_probe::judge(comparison);
  if (findings.empty()) {
    std::puts("the two runs agree: the planted fault was NOT found");
    return 1;
  }
  const msprobe::grad_probe::Finding& first = findings.front();
  std::printf("the runs part at step %lld\n%s\n", static_cast<long long>(first.step), first.reason.c_str());
  std::printf("all values: %s\n", (out / "similarities.csv").string().c_str());
  const std::string layer = "layers." + std::to_string(kWrongLayer) + ".";
  return first.step == kWrongFrom && first.name.rfind(layer, 0) == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
