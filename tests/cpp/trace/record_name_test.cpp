// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/record_name.h"

#include "catch.h"
#include "msprobe/trace_match.h"
#include "msprobe/trace_reader.h"

namespace msprobe::trace {
namespace {

std::string without_count(std::string_view name) {
  std::string out;
  append_without_count(out, name);
  return out;
}

TEST_CASE("record names: calls of functions, of every prefix") {
  struct Case {
    std::string_view text, callee, prefix, path, function, count;
  };
  const std::initializer_list<Case> cases = {
      {"Functional.linear.5.forward", "Functional.linear", "Functional", "linear", "linear", "5"},
      {"Tensor.__add__.12.forward", "Tensor.__add__", "Tensor", "__add__", "__add__", "12"},
      {"Primitive.matmul.MatMul.0.forward", "Primitive.matmul.MatMul", "Primitive", "matmul.MatMul", "MatMul",
       "0"},
      {"Mint.add.3.forward", "Mint.add", "Mint", "add", "add", "3"},
      {"NPU.npu_fusion_attention.4.forward", "NPU.npu_fusion_attention", "NPU", "npu_fusion_attention",
       "npu_fusion_attention", "4"},
      {"Aten.my_lib::my_op.1.forward", "Aten.my_lib::my_op", "Aten", "my_lib::my_op", "my_lib::my_op", "1"},
      {"Own.op.0.forward", "Own.op", "Own", "op", "op", "0"},
      {"Distributed.all_reduce.3.forward", "Distributed.all_reduce", "Distributed", "all_reduce",
       "all_reduce", "3"},
      {"Torch.add.forward", "Torch.add", "Torch", "add", "add", ""},
  };
  for (const Case& expected : cases) {
    INFO(expected.text);
    const RecordName name(expected.text);
    CHECK(name.kind() == NameKind::kCall);
    CHECK(name.is_forward());
    CHECK(name.callee() == expected.callee);
    CHECK(name.prefix() == expected.prefix);
    CHECK(name.path() == expected.path);
    CHECK(name.function() == expected.function);
    CHECK(name.count() == expected.count);
    CHECK(std::string(name.call()) + ".forward" == expected.text);
    CHECK(name.type().empty());
    CHECK(name.place().empty());
    CHECK_FALSE(name.has_module_prefix());
    const std::string backward = name.with(Direction::kBackward);
    CHECK(backward == std::string(name.call()) + ".backward");
    CHECK(RecordName(backward).is_backward());
    CHECK(RecordName(backward).with(Direction::kForward) == expected.text);
  }
  CHECK(RecordName("Distributed.all_reduce.3.forward").has_collective_prefix());
  CHECK(RecordName("MintDistributed.all_reduce.3.forward").has_collective_prefix());
  CHECK_FALSE(RecordName("DistributedThing.all_reduce.3.forward").has_collective_prefix());
}

TEST_CASE("record names: calls of modules and their gradients") {
  const RecordName call("Module.blocks.0.mlp.MLP.backward.2");
  CHECK(call.kind() == NameKind::kModule);
  CHECK(call.is_backward());
  CHECK(call.callee() == "Module.blocks.0.mlp.MLP");
  CHECK(call.place() == "Module.blocks.0.mlp");
  CHECK(call.path() == "blocks.0.mlp");
  CHECK(call.type() == "MLP");
  CHECK(call.count() == "2");
  CHECK(call.call().empty());
  CHECK(call.function().empty());
  CHECK(call.with(Direction::kForward) == "Module.blocks.0.mlp.MLP.forward.2");
  CHECK(call.with(Direction::kBackward) == call.text());

  const RecordName cell("Cell.fc1.Dense.forward.0");
  CHECK(cell.kind() == NameKind::kModule);
  CHECK(cell.has_module_prefix());
  CHECK(cell.path() == "fc1");

  // A path that looks like something else.
  const RecordName odd("Module.forward.backward.Linear.forward.0");
  CHECK(odd.path() == "forward.backward");
  CHECK(odd.with(Direction::kBackward) == "Module.forward.backward.Linear.backward.0");

  const RecordName whole("Module.Net.forward.0");
  CHECK(whole.path().empty());
  CHECK(whole.place() == "Module");
  CHECK(whole.type() == "Net");

  for (const std::string_view text :
       {"Cell.fc1.Dense.parameters_grad", "Module.fc1.Linear.parameters_grad.1"}) {
    INFO(text);
    const RecordName gradients(text);
    CHECK(gradients.kind() == NameKind::kGradients);
    CHECK(gradients.direction() == Direction::kNone);
    CHECK(gradients.path() == "fc1");
    CHECK(gradients.with(Direction::kForward).empty());
    CHECK(holds_gradients(text));
  }
  CHECK_FALSE(holds_gradients("Module.parameters_grad.Linear.forward.0"));
}

TEST_CASE("record names: everything else is one whole") {
  for (const std::string_view text : {"", ".", "..", "5", "optimizer", "clip_grad", "loss.0.debug",
                                      "Module.fc.Linear.forward", "Module.fc.Linear.0.forward", "a.b.c.d",
                                      "Apis_Between_Modules.3", "forward", "forward.0", "parameters_grad"}) {
    INFO(text);
    const RecordName name(text);
    CHECK(name.kind() == NameKind::kOther);
    CHECK(name.direction() == Direction::kNone);
    CHECK(name.callee() == text);
    CHECK(name.path().empty());
    CHECK(name.type().empty());
    CHECK(name.function().empty());
    CHECK(name.call().empty());
    CHECK(name.with(Direction::kForward).empty());
    CHECK(without_count(text) == text);
  }
}

TEST_CASE("record names: what counts calls is left out") {
  CHECK(without_count("Torch.add.3.forward") == "Torch.add.forward");
  CHECK(without_count("Primitive.matmul.MatMul.0.backward") == "Primitive.matmul.MatMul.backward");
  CHECK(without_count("Module.fc.Linear.forward.0") == "Module.fc.forward.0");
  CHECK(without_count("Cell.fc.Dense.parameters_grad") == "Cell.fc.parameters_grad");
  CHECK(without_count("Torch.add.forward") == "Torch.add.forward");
}

TEST_CASE("record names: names that begin as those of functions do") {
  CHECK(begins_as_call("Torch.add.0.forward"));
  CHECK(begins_as_call("Tensorboard"));
  CHECK_FALSE(begins_as_call("Tensor"));
  CHECK_FALSE(begins_as_call("Module.Tensor.forward.0"));
}

}  // namespace
}  // namespace msprobe::trace
