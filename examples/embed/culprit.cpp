// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

// Where do two trainings part? Records a step of a small model twice, the second time with SiLU in place of
// GELU in one block, compares the two records and prints the culprit, all in one program without Python.
//
//   culprit OUT      exit code 0: the verdict names the planted place, 1: it does not, 2: an error

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/torch_dump.h"
#include "msprobe/verdict.h"

namespace {

namespace compare = msprobe::compare;
using msprobe::torch_adapter::ModuleScope;
using msprobe::torch_adapter::ProgramDump;

constexpr std::int64_t kWidth = 16;
constexpr int kBlocks = 3;
constexpr int kFaultyBlock = 1;

struct Block : torch::nn::Module {
  explicit Block(bool is_faulty) : is_faulty(is_faulty) {
    register_module("up", up);
    register_module("down", down);
  }

  torch::Tensor forward(ProgramDump& dump, const std::string& path, const torch::Tensor& x) {
    ModuleScope scope(dump, path, *this, {x});
    torch::Tensor y = call(dump, path + ".up", up, x);
    y = is_faulty ? torch::silu(y) : torch::gelu(y);
    return scope.output(x + call(dump, path + ".down", down, y));
  }

  static torch::Tensor call(ProgramDump& dump, const std::string& path, torch::nn::Linear& module,
                            const torch::Tensor& x) {
    ModuleScope scope(dump, path, *module, {x});
    return scope.output(module(x));
  }

  bool is_faulty;
  torch::nn::Linear up{kWidth, 4 * kWidth};
  torch::nn::Linear down{4 * kWidth, kWidth};
};

void train(const std::filesystem::path& out, bool is_faulty) {
  torch::manual_seed(7);
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(std::make_shared<Block>(is_faulty && i == kFaultyBlock));
  torch::Tensor x = torch::randn({8, kWidth});
  ProgramDump dump;
  dump.open(out);
  dump.operators().start();
  for (int i = 0; i < kBlocks; ++i)
    x = blocks[static_cast<std::size_t>(i)]->forward(dump, "blocks" + std::to_string(i), x);
  x.square().mean().backward();
  dump.operators().stop();
  dump.close();
}

int run(const std::filesystem::path& out) {
  train(out / "reference", false);
  train(out / "target", true);

  const compare::ComparedDumps dumps[] = {
      {.target = out / "target" / "dump.json", .reference = out / "reference" / "dump.json"}};
  const compare::Verdict verdict = compare::judge_dumps(dumps);

  std::printf("%s\n", std::string(compare::status_name(verdict.status)).c_str());
  for (std::size_t i = 0; i < verdict.culprits.size(); ++i) {
    const compare::Finding& culprit = verdict.culprits[i];
    std::printf("%zu. %s %s in %s: %s (confidence %.2f)\n", i + 1,
                std::string(compare::kind_name(culprit.kind)).c_str(), culprit.name.c_str(),
                culprit.module.c_str(), compare::text_of(culprit.because).c_str(),
                compare::confidence(culprit, i));
  }
  const std::string place = "blocks" + std::to_string(kFaultyBlock);
  return !verdict.culprits.empty() && verdict.culprits.front().module == place ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: culprit OUT\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "culprit: %s\n", error.what());
    return 2;
  }
}
