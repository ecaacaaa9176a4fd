// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <utility>

#include "msprobe/torch_debugger.h"
#include "msprobe/torch_dump.h"

namespace msprobe::test {

/// Two layers, told of as a program tells a debugger or a dump.
struct NetworkImpl : torch::nn::Module {
  NetworkImpl() {
    register_module("first", first);
    register_module("second", second);
  }

  at::Tensor forward(torch_adapter::PrecisionDebugger& debugger, at::Tensor x) {
    torch_adapter::ModuleScope scope(debugger, *this, {x});
    for (auto* const layer : {&first, &second}) {
      torch_adapter::ModuleScope inner(debugger, **layer, {x});
      x = inner.output((*layer)(x));
    }
    return scope.output(x);
  }

  at::Tensor forward(torch_adapter::ProgramDump& dump, at::Tensor x) {
    torch_adapter::ModuleScope scope(dump, "net", *this, {x});
    for (auto& [name, layer] : {std::pair("net.first", &first), std::pair("net.second", &second)}) {
      torch_adapter::ModuleScope inner(dump, name, **layer, {x});
      x = inner.output((*layer)(x));
    }
    return scope.output(x.relu_());
  }

  torch::nn::Linear first{3, 4};
  torch::nn::Linear second{4, 2};
};
TORCH_MODULE(Network);

}  // namespace msprobe::test
