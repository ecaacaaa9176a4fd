// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/operators.h"

using namespace msprobe::operators;

namespace {

double terms(std::string_view name, const std::vector<std::vector<std::int64_t>>& shapes, double result,
             std::optional<std::int64_t> number = {}, std::vector<std::int64_t> numbers = {}) {
  return term_count(find(name), {shapes, result, number, std::move(numbers)});
}

}  // namespace

TEST_CASE("operators: the catalogue has no empty and no double name, and every word has a meaning") {
  CHECK(problems().empty());
  CHECK(rows().size() > 150);
  for (const std::string_view name : names()) CHECK_FALSE(name.empty());
  CHECK_FALSE(find("").is_known());
  CHECK_FALSE(find("_").is_known());
}

TEST_CASE("operators: one row for all spellings of an operator") {
  for (const char* name : {"Torch.add", "Tensor.add_", "Tensor.__add__", "Tensor.__iadd__", "Tensor.__radd__",
                           "Aten.add", "_foreach_add_", "add_ex"}) {
    CAPTURE(name);
    CHECK(find(name).name == find("add").name);
    CHECK(find(name).gain == Gain::kSum);
  }
  CHECK(find("subtract").gain == Gain::kSum);
  CHECK(find("subtract").condition == Condition::kDifference);
  CHECK(find("Conv2d").name == find("conv3d").name);
  CHECK(find("CrossEntropyLoss").name == find("cross_entropy").name);
  CHECK(find("max_pool2d_with_indices").name == find("MaxPool1d").name);
  CHECK(find("linalg_vector_norm").condition == Condition::kNorm);
  CHECK(find("view_copy").only_moves());
  CHECK(find("ravel").only_moves());
}

TEST_CASE("operators: classes of modules are known by what they are") {
  CHECK(find("LlamaRMSNorm").gain == Gain::kScaleFree);
  CHECK(find("ColumnParallelLinear").gain == Gain::kProduct);
  CHECK(find("VocabParallelEmbedding").only_moves());
  CHECK_FALSE(find("LlamaDecoderLayer").is_known());
}

TEST_CASE("operators: what works in place says so by its name, known or not") {
  CHECK(find("add_").is_in_place);
  CHECK(find("__imul__").is_in_place);
  CHECK(find("my_own_function_").is_in_place);
  CHECK_FALSE(find("my_own_function_").is_known());
  CHECK_FALSE(find("__add__").is_in_place);
  CHECK_FALSE(find("__invert__").is_in_place);
  CHECK(find("relu").inplace_position == 1);
  CHECK(find("copy_").overwrites);
  CHECK(find("normal_").overwrites);
  CHECK_FALSE(find("dropout_").overwrites);
}

TEST_CASE("operators: a collective is not the function of the same name") {
  CHECK(find("Distributed.scatter").writes == "0,tensor,output");
  CHECK(Row::names(find("Distributed.scatter").writes, "tensor"));
  CHECK_FALSE(Row::names(find("Distributed.scatter").writes, "tens"));
  CHECK(Row::names(find("multi_head_attention_forward").how, "need_weights"));
  CHECK(find("Torch.scatter").writes.empty());
  CHECK(find("MintDistributed.all_reduce").updates == "0");
}

TEST_CASE("operators: the backward of a linear function is linear, of another one nothing is known") {
  CHECK(find("expand_backward").gain == Gain::kSum);
  CHECK(find("convolution_backward").gain == Gain::kProduct);
  CHECK(find("native_layer_norm_backward").gain == Gain::kOther);
  CHECK(find("native_layer_norm_backward").is_known());
}

TEST_CASE("operators: terms follow from shapes and arguments") {
  CHECK(terms("add", {{4, 4}, {4, 4}}, 16) == 1);
  CHECK(terms("sum", {{4, 6}}, 4) == 6);
  CHECK(terms("linear", {{8, 32}, {16, 32}, {16}}, 128) == 32);
  CHECK(terms("addmm", {{16}, {8, 32}, {32, 16}}, 128) == 32);
  CHECK(terms("einsum", {{4, 8}, {8, 2}}, 8) == 8);
  CHECK(terms("conv2d", {{16, 3, 96, 96}, {16, 3, 3, 3}, {16}}, 16 * 16 * 47 * 47) == 28);
  CHECK(terms("conv_transpose2d", {{1, 4, 8, 8}, {4, 2, 3, 3}}, 512) == 37);
  CHECK(terms("softmax", {{2, 3, 5}}, 30, 1) == 3);
  CHECK(terms("softmax", {{2, 3, 5}}, 30, -1) == 5);
  CHECK(terms("layer_norm", {{2, 3, 5}}, 30, {}, {3, 5}) == 15);
  CHECK(terms("batch_norm", {{8, 3, 4, 4}}, 384) == 128);
  CHECK(terms("group_norm", {{8, 6, 4}}, 192, 3) == 8);
  CHECK(terms("scaled_dot_product_attention", {{2, 4, 16, 8}, {2, 4, 32, 8}}, 1024) == 40);
  CHECK(terms("chain_matmul", {{2, 64}, {64, 8}, {8, 4}}, 8) == 128);
  CHECK(terms("linear", {}, 1) == 1);
  CHECK(terms("linear", {{}}, 0) == 1);
  CHECK(terms("einsum", {{0}, {0}}, 0) == 1);
}

TEST_CASE("operators: the gradient of a convolution's weight sums over batch and positions") {
  const double forward = terms("conv2d", {{16, 3, 96, 96}, {16, 3, 3, 3}}, 16.0 * 16 * 47 * 47);
  const double weight = term_count_of_gradient(forward, 16.0 * 16 * 47 * 47, 16 * 3 * 3 * 3);
  CHECK(weight == Approx(16 * 47 * 47).epsilon(0.05));
}
