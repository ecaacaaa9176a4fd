// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/step_walk.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "verdict/places.h"
#include "verdict/steps.h"

using namespace msprobe;
using compare::Finding;
using compare::FindingKind;
using compare::StepWalk;
using places::kFloat32;
using steps::call;
using steps::found;
using steps::number;
using steps::tensor;
using steps::walk;

TEST_CASE("step: a model that is computed once is off by no more than 256 roundings") {
  const auto parted = [](double roundings) {
    const StepWalk step = walk({call("Module.a.A.forward.0", tensor(), tensor({1 + roundings * kFloat32}))},
                               {call("Module.a.A.forward.0", tensor(), tensor())});
    return step.first_differing;
  };
  CHECK(parted(200).empty());
  CHECK(parted(400) == "Module.a.A.forward.0.output.0");
  // Not where a difference of two that are 8 times as large is left, and not of data that are other ones.
  const auto of_difference = [](double left, double data) {
    const auto run = [&](double off, double given) {
      const std::string one = tensor({3 * (1 + given)}), made = tensor({8 * (1 + off / 8)}),
                        result = tensor({left * (1 + off)});
      return steps::Run{call("Functional.linear.0.forward", one, made) + ", " +
                        call("Tensor.__sub__.0.forward", made + ", " + tensor({8 - left}), result)};
    };
    return walk(run(400 * kFloat32, data), run(0, 0)).first_differing;
  };
  CHECK(of_difference(1, 0).empty());
  CHECK(of_difference(8, 0) == "Tensor.__sub__.0.forward.output.0");
  CHECK(of_difference(8, kFloat32).empty());
  // Nor of what is made of gradients.
  const auto behind = [](std::string_view direction) {
    const auto run = [&](double off) {
      return steps::Run{call("Functional.linear.0." + std::string(direction), tensor({7}), tensor({3})) +
                        ", " + call("Tensor.abs.0.forward", tensor({3}), tensor({1 + off}))};
    };
    return walk(run(400 * kFloat32), run(0)).first_differing;
  };
  CHECK(behind("forward") == "Tensor.abs.0.forward.output.0");
  CHECK(behind("backward").empty());
}

TEST_CASE("step: what has next to nothing in common with the reference is noted") {
  const auto stranger = [](double size) {
    return walk({call("Functional.relu.0.forward", tensor(), tensor({size}))},
                {call("Functional.relu.0.forward", tensor(), tensor())})
        .stranger;
  };
  CHECK(stranger(0.5).empty());  // half of it is missing
  CHECK_FALSE(stranger(0.2).empty());
}

TEST_CASE("module: what its parameters are off by goes into it, as what it is given does") {
  const double moved = 1e-4;
  // `by`: what the parameter of the layer inside is off by; what comes out of both is off by `moved`.
  const auto effect_of_lone_call = [&](double by) {
    const std::string layer = "Module.m.a.A.forward.0", model = "Module.m.M.forward.0",
                      lone = "Tensor.sum.0.forward";
    const auto run = [&](bool is_target) {
      const std::string made = tensor({is_target ? 1 + moved : 1}),
                        weight = tensor({is_target ? 3 + by : 3, "float32"});
      return steps::Run{(is_target ? call(lone, tensor({2}), tensor({2})) + ", " : std::string()) +
                            steps::module_call(layer, tensor(), weight, made) + ", " +
                            call(model, tensor(), made),
                        {},
                        '"' + lone + R"(": ")" + model + R"(", ")" + layer + R"(": ")" + model + R"(", ")" +
                            model + R"(": null)"};
    };
    const StepWalk step = walk(run(true), run(false));
    const Finding* const extra = found(step, FindingKind::kExtraCall);
    REQUIRE(extra != nullptr);
    return extra->effect;
  };
  CHECK(effect_of_lone_call(3 * moved) < 1);
  CHECK(effect_of_lone_call(0) > 1);
}

TEST_CASE("number: one that is off by its rounding to float32 is the same") {
  const auto is_told = [](double off) {
    const StepWalk step =
        walk({call("Functional.dropout.0.forward", tensor() + ", " + number(0.5 + off / 2), tensor())},
             {call("Functional.dropout.0.forward", tensor() + ", " + number(0.5), tensor())});
    return found(step, FindingKind::kArgument) != nullptr;
  };
  // 3 x 2.9 roundings.
  CHECK_FALSE(is_told(7 * kFloat32));
  CHECK(is_told(11 * kFloat32));
}

TEST_CASE("number: one of an optimizer that everything before does not explain is another one") {
  // `before`: how far off the backward pass is.
  const auto is_another = [](double off, double before) {
    const auto run = [&](double rate, double error) {
      return steps::Run{call("Functional.relu.0.forward", tensor(), tensor()) + ", " +
                        call("Functional.relu.0.backward", tensor(), tensor({1 + error})) + ", " +
                        call("Tensor.add_.0.forward", tensor({3}) + ", " + number(rate), tensor({5}))};
    };
    const StepWalk step = walk(run(0.5 + off / 2, before), run(0.5, 0));
    for (const Finding& finding : step.findings) {
      if (finding.kind == FindingKind::kArgument) return std::isinf(finding.effect);
    }
    return false;
  };
  // 3 x 3 x (2.9 roundings and the distance of the backward pass).
  CHECK_FALSE(is_another(20 * kFloat32, 0));
  CHECK(is_another(32 * kFloat32, 0));
  CHECK_FALSE(is_another(32 * kFloat32, 1e-3));
}

TEST_CASE("number: one that the program made of what differs is no setting, and off as that") {
  const auto is_found = [](double ours, double theirs, double result) {
    const auto run = [](double error, double number_of_run, double made) {
      return steps::Run{
          call("Functional.relu.0.forward", tensor(), tensor({1 + error})) + ", " +
          call("Functional.dropout.0.forward", tensor({7}) + ", " + number(number_of_run), tensor({made}))};
    };
    return !walk(run(1e-7, ours, result), run(0, theirs, 1)).findings.empty();
  };
  CHECK_FALSE(is_found(0.5123456789 + 1e-6, 0.5123456789, 1 + 4e-6));
  CHECK(is_found(0.5123456789 + 1e-6, 0.5123456789, 1 + 4e-4));
  CHECK(is_found(0.5123456789 + 1e-3, 0.5123456789, 1 + 4e-4));
  CHECK(is_found(0.512346, 0.512345, 1 + 4e-6));  // people wrote them
}

TEST_CASE("argument: one that differs is judged by its call, though another tensor of it has another shape") {
  const auto run = [](const std::string& shape, double scale, double result) {
    const std::string other =
        R"({"type": "torch.Tensor", "shape": )" + shape +
        R"(, "dtype": "torch.float32", "Max": 1.25, "Min": -0.75, "Mean": 0.5, "Norm": 3.5})";
    return steps::Run{
        call("Functional.gelu.0.forward", tensor(), tensor({0.5})) + ", " +
        call("Torch.add.0.forward", tensor({0.5}) + ", " + other + ", " + number(scale), tensor({result}))};
  };
  const StepWalk step = walk(run("[2, 8]", 0.5, 2), run("[8, 2]", 0.7, 3));
  const Finding* argument = found(step, FindingKind::kArgument);
  REQUIRE(argument != nullptr);
  CHECK(argument->effect > 1);
}

TEST_CASE("argument: one of another shape is seen by the shape of what is made of it, if by nothing else") {
  const auto run = [](const std::string& shape) {
    const std::string values =
        R"({"type": "torch.Tensor", "shape": )" + shape +
        R"(, "dtype": "torch.float32", "Max": 1.25, "Min": -0.75, "Mean": 0.5, "Norm": 3.5})";
    return steps::Run{call("Functional.relu.0.forward", values, values)};
  };
  const StepWalk step = walk(run("[2, 8]"), run("[2, 9]"));
  const Finding* argument = found(step, FindingKind::kArgument);
  REQUIRE(argument != nullptr);
  CHECK(std::isinf(argument->effect));
}

TEST_CASE("argument: what is no tensor makes every difference of what equal tensors give") {
  const auto run = [](const std::string& more, double result) {
    return steps::Run{call("Functional.cross_entropy.0.forward", tensor() + more, tensor({result}))};
  };
  const auto effect = [&](const std::string& more) {
    const StepWalk step = walk(run(more, 1 + 1e-7), run("", 1));
    const Finding* argument = found(step, FindingKind::kArgument);
    return argument == nullptr ? 0 : argument->effect;
  };
  CHECK(std::isinf(effect(", " + number(0.02))));
  CHECK(std::isinf(effect(R"(, {"type": "str", "value": "sum"})")));
  CHECK(std::isinf(effect(R"(, {"type": "bool", "value": true})")));
  CHECK(effect(R"(, {"type": "bool", "value": true}, )" + tensor({3})) < 1);  // with a mask: another kernel
}

TEST_CASE("argument: one that chooses how a call is computed is no difference") {
  const auto run = [](std::string_view name, bool weights, double result) {
    const std::string flag = weights ? "true" : "false";
    return steps::Run{'"' + std::string(name) + R"(": {"input_args": [)" + tensor() +
                      R"(], "input_kwargs": {"need_weights": {"type": "bool", "value": )" + flag +
                      R"(}}, "output": [)" + tensor({result}) + "]}"};
  };
  const auto is_found = [&](std::string_view name) {
    return found(walk(run(name, true, 1 + 1e-7), run(name, false, 1)), FindingKind::kArgument) != nullptr;
  };
  CHECK_FALSE(is_found("Functional.multi_head_attention_forward.0.forward"));
  CHECK(is_found("Functional.gelu.0.forward"));
}

TEST_CASE(
    "argument: it alone makes its difference where no other call makes another result of equal tensors") {
  const auto is_alone = [](double of_another_call) {
    const auto run = [](const std::string& more, double result, double other) {
      return steps::Run{call("Functional.gelu.0.forward", tensor() + more, tensor({result})) + ", " +
                        call("Torch.exp.0.forward", tensor({7}), tensor({other}))};
    };
    const StepWalk step =
        walk(run(R"(, {"type": "str", "value": "tanh"})", 1 + 1e-7, of_another_call), run("", 1, 5));
    const Finding* argument = found(step, FindingKind::kArgument);
    REQUIRE(argument != nullptr);
    return argument->is_hidden;
  };
  CHECK(is_alone(5));
  CHECK_FALSE(is_alone(5 + 1e-6));  // another kernel: rounding makes differences, too
}

TEST_CASE("argument: a number that multiplies another tensor is no number of its own") {
  // In noise that hides what comes of it: another factor of the same tensor, and of another one.
  const auto is_cause = [](bool is_another_tensor) {
    const auto run = [&](double noise, const char* made, double factor) {
      const std::string x = tensor({2 + noise}), part = tensor({1 + noise});
      return steps::Run{call("Functional.gelu.0.forward", tensor({7}), x) + ", " + call(made, x, part) +
                        ", " +
                        call("Tensor.mul.0.forward", part + ", " + number(factor), tensor({4 + 4 * noise}))};
    };
    const char* const other = is_another_tensor ? "Tensor.sum.0.forward" : "Tensor.mean.0.forward";
    const StepWalk step = walk(run(1e-5, "Tensor.mean.0.forward", 4.5), run(0, other, 2.5));
    const Finding* argument = found(step, FindingKind::kArgument);
    REQUIRE(argument != nullptr);
    return argument->is_hidden;
  };
  CHECK(is_cause(false));
  CHECK_FALSE(is_cause(true));
}

TEST_CASE("result: one that the other run has not at all is no other result, whichever run has it") {
  // A module that is given a mask of another dtype, and hands out weights beside its result, or None.
  const auto run = [](std::string_view mask, bool has_weights, double result) {
    const std::string beside = has_weights ? tensor({0.25}) : "null";
    return steps::Run{call("Functional.gelu.0.forward", tensor(), tensor({0.5})) + ", " +
                      call("Module.attention.Attention.forward.0",
                           tensor({0.5}) + (mask.empty() ? "" : ", " + tensor({3, mask})),
                           tensor({result}) + ", " + beside)};
  };
  const auto suspects = [&](std::string_view mask, bool has_weights, double result) {
    const StepWalk step =
        walk(run(mask.empty() ? "" : "float32", has_weights, result), run(mask, !has_weights, 1));
    return std::count_if(step.findings.begin(), step.findings.end(), [](const Finding& one) {
      return std::isnan(one.effect) ? one.strength >= 1 : one.effect >= 1;
    });
  };
  for (const bool has_weights : {true, false}) {
    CAPTURE(has_weights);
    CHECK(suspects("int64", has_weights, 1 + 1e-7) == 0);
    CHECK(suspects("int64", has_weights, 1.01) > 0);
    CHECK(suspects("", has_weights, 1) == 0);
  }
}

TEST_CASE(
    "own change: what calls of one run make of a value is measured in that run, whatever goes in is off by") {
  // The residual `x` goes into a sum; in one run it is multiplied before. Both runs differ by another kernel.
  const auto run = [](double noise, double factor) {
    const std::string x = tensor({1 + noise, "bfloat16"});
    const std::string scaled = tensor({(1 + noise) * factor, "bfloat16"});
    const std::string sum = tensor({2 + 2 * noise, "bfloat16"});
    const bool is_changed = factor != 1;
    return steps::Run{call("Functional.conv2d.0.forward", tensor({7}), x) + ", " +
                      (is_changed ? call("Tensor.__mul__.0.forward", x, scaled) + ", " : "") +
                      call("Torch.cat.0.forward", is_changed ? scaled : x, sum)};
  };
  const auto effect = [](const StepWalk& step) {
    const Finding* extra = found(step, FindingKind::kExtraCall);
    if (extra == nullptr) extra = found(step, FindingKind::kMissingCall);
    REQUIRE(extra != nullptr);
    return extra->effect;
  };
  CHECK(effect(walk(run(0.02, 1.03), run(0, 1))) > 1);
  CHECK(effect(walk(run(0.02, 1), run(0, 1.03))) > 1);
  CHECK(effect(walk(run(0.02, 1.001), run(0, 1))) < 1);
}

TEST_CASE("calls of one run: named after the first that does more than move elements or make a constant") {
  const auto name = [](std::string_view second) {
    const std::string last = call("Tensor.norm.0.forward", tensor({5}), tensor({9}));
    const StepWalk step =
        walk({last}, {call("Torch.arange.0.forward", "", tensor({3})) + ", " +
                      call(second, tensor({3}), tensor({4})) + ", " +
                      call("Tensor.__mul__.0.forward", tensor({4}), tensor({5})) + ", " + last});
    const Finding* const missing = found(step, FindingKind::kMissingCall);
    REQUIRE(missing != nullptr);
    return missing->record;
  };
  CHECK(name("Tensor.exp.0.forward") == "Tensor.exp.0.forward");
  CHECK(name("Tensor.unsqueeze.0.forward") == "Tensor.__mul__.0.forward");
}

TEST_CASE("calls of one run: what such a call is given, it did not make") {
  // An unseen index of `x` goes into a call of one run, and into one of both.
  const auto run = [](double off, std::string_view alone) {
    const std::string index = tensor({1.2345 + off});
    return steps::Run{call("Functional.gelu.0.forward", tensor({7}), tensor({3.4321 + off})) + ", " +
                      call(alone, index, tensor({9.8765})) + ", " +
                      call("Tensor.norm.0.forward", index, number(1))};
  };
  const StepWalk step = walk(run(1e-7, "Torch.exp.0.forward"), run(0, "Functional.softplus.0.forward"));
  CHECK(std::ranges::none_of(step.findings, [](const Finding& one) { return one.effect >= 1; }));
}

TEST_CASE("collective: what another rank gives may be off by more than what this one gives") {
  const auto walks = [](double given, double got) {
    const auto run = [](double in, double out) {
      return steps::Run{call("Distributed.all_reduce.0.forward", tensor({1 + in}), tensor({2 + out}))};
    };
    std::vector<StepWalk> ranks = {walk(run(0, got), run(0, 0)), walk(run(given, got), run(0, 0))};
    ranks[1].rank = 1;
    for (Finding& one : ranks[1].findings) one.rank = 1;
    return ranks;
  };
  const auto is_accused = [&](double given, double got) {
    const std::vector<StepWalk> ranks = walks(given, got);
    const StepWalk* const both[] = {&ranks[0], &ranks[1]};
    const compare::Verdict verdict = compare::judge(both);
    return std::ranges::any_of(verdict.culprits,
                               [](const Finding& one) { return one.kind == FindingKind::kReduction; });
  };
  CHECK_FALSE(is_accused(1e-4, 1e-4));
  CHECK(is_accused(1e-6, 1e-4));
}

TEST_CASE("collective: what is received is as far off as what others send") {
  const auto is_accused = [](double sent) {
    const auto receives = [](double got) {
      return steps::Run{call("Distributed.irecv.0.forward", tensor({9}), tensor({1 + got}))};
    };
    const auto sends = [](double given) {
      return steps::Run{call("Distributed.isend.0.forward", tensor({1 + given}), tensor({9}))};
    };
    std::vector<StepWalk> ranks = {walk(receives(1e-4), receives(0)), walk(sends(sent), sends(0))};
    ranks[1].rank = 1;
    for (Finding& one : ranks[1].findings) one.rank = 1;
    const StepWalk* const both[] = {&ranks[0], &ranks[1]};
    const compare::Verdict verdict = compare::judge(both);
    return std::ranges::any_of(verdict.culprits, [](const Finding& one) { return one.rank == 0; });
  };
  CHECK_FALSE(is_accused(1e-4));
  CHECK(is_accused(0));
}

TEST_CASE("takers: a gradient that is the sum of what several calls give back is of the calls of one run") {
  // Both runs take `x` for their head; one for a branch as well, whose result is next to nothing.
  const auto run = [](bool has_branch) {
    const std::string x = tensor({1}), gradient = tensor({has_branch ? 1.5 : 1.2});
    return steps::Run{call("Functional.relu.0.forward", tensor({7}), x) + ", " +
                      (has_branch ? call("Tensor.sigmoid.0.forward", x, tensor({1e-9})) + ", " : "") +
                      call("Functional.silu.0.forward", x, tensor({3})) + ", " +
                      call("Functional.silu.0.backward", tensor({5}), tensor({1.2})) + ", " +
                      call("Functional.relu.0.backward", gradient, tensor({has_branch ? 1.6 : 1.3}))};
  };
  for (const bool is_missing : {true, false}) {
    const StepWalk step = walk(run(!is_missing), run(is_missing));
    const Finding* const branch =
        found(step, is_missing ? FindingKind::kMissingCall : FindingKind::kExtraCall);
    REQUIRE(branch != nullptr);
    CHECK(branch->effect > 1);
    CHECK(found(step, FindingKind::kGradient) == nullptr);
  }
}

TEST_CASE(
    "cast: what one run hands on as it is gets the gradient of all that takes it, and not of the cast") {
  const auto run = [](std::string_view dtype, double gradient) {
    const steps::Values x{1, dtype};
    return steps::Run{call("Tensor.float.0.forward", tensor(x), tensor({1})) + ", " +
                      call("Functional.silu.0.forward", tensor({1}), tensor({3})) + ", " +
                      call("Functional.silu.0.backward", tensor({5}), tensor({1.2})) + ", " +
                      call("Tensor.float.0.backward", tensor({gradient}), tensor({gradient, dtype}))};
  };
  const auto is_found = [&](std::string_view dtype) {
    return !walk(run(dtype, 1.5), run("bfloat16", 1.2)).findings.empty();
  };
  CHECK_FALSE(is_found("float32"));
  CHECK(is_found("bfloat16"));
}

TEST_CASE("calls of one run: made of gradients that a loss is made of they are no handling of gradients") {
  const std::string handled = call("Tensor.neg.0.forward", tensor({1.3}), tensor({1.7}));
  const auto phase = [&](bool is_in_front_of_a_loss) {
    const auto run = [&](bool calls_it) {
      const std::string inner = call("Functional.relu.0.forward", tensor(), tensor({2})) + ", " +
                                call("Functional.relu.0.backward", tensor({5}), tensor({1.3})) + ", ";
      const std::string loss = call("Functional.silu.0.forward", tensor({6}), tensor({7})) + ", " +
                               call("Functional.silu.0.backward", tensor({8}), tensor({9}));
      return steps::Run{is_in_front_of_a_loss ? inner + (calls_it ? handled + ", " : "") + loss
                                              : inner + loss + (calls_it ? ", " + handled : ""),
                        R"("backward": [])"};
    };
    const StepWalk step = walk(run(false), run(true));
    const Finding* const missing = found(step, FindingKind::kMissingCall);
    REQUIRE(missing != nullptr);
    return missing->phase;
  };
  CHECK(phase(true) == compare::Phase::kCalls);
  CHECK(phase(false) == compare::Phase::kReduction);
}

TEST_CASE("calls of one run: the other one rounds elsewhere") {
  // Between both and the call of both, one run has a place in 16 bits that the other one does not go through.
  const auto effect = [](double off) {
    const auto run = [&](bool is_coarse) {
      const steps::Values made{2.5 * (is_coarse ? 1 : 1 + off), is_coarse ? "bfloat16" : "float32"};
      return steps::Run{call("Functional.relu.0.forward", tensor(), tensor({2, "bfloat16"})) + ", " +
                        (is_coarse ? call("Torch.where.0.forward", tensor({2, "bfloat16"}), tensor(made))
                                   : call("Torch.addcmul.0.forward", tensor(), tensor(made))) +
                        ", " + call("Functional.silu.0.forward", tensor(made), tensor({made.size}))};
    };
    const StepWalk step = walk(run(false), run(true));
    const Finding* const missing = found(step, FindingKind::kMissingCall);
    REQUIRE(missing != nullptr);
    return missing->effect;
  };
  CHECK(effect(1e-3) < 1);
  CHECK(effect(0.2) > 1);
}

TEST_CASE("in backward: what an autograd function calls is no update, and what comes of it is measured") {
  const auto run = [](bool scales) {
    const std::string x = tensor({1}), gradient = tensor({1.1}), scaled = tensor({1.4});
    return steps::Run{call("Functional.silu.0.forward", x, tensor({2})) + ", " +
                      call("Functional.relu.0.forward", tensor({2}), tensor({3})) + ", " +
                      call("Functional.relu.0.backward", tensor({4}), gradient) + ", " +
                      (scales ? call("Tensor.__mul__.0.forward", gradient, scaled) + ", " : "") +
                      call("Tensor.neg.0.forward", scales ? scaled : gradient, tensor({scales ? 1.7 : 1.6})) +
                      ", " + call("Functional.silu.0.backward", tensor({5}), tensor({6}))};
  };
  const StepWalk step = walk(run(false), run(true));
  const Finding* const missing = found(step, FindingKind::kMissingCall);
  REQUIRE(missing != nullptr);
  CHECK(missing->phase == compare::Phase::kCalls);
  CHECK(missing->effect > 1);
}

TEST_CASE("passes: a backward is made of all before where an earlier pass was computed with") {
  const auto is_found = [](int passes, int of_reference) {
    const auto run = [](double apart, int count) {
      std::string backward = call("Functional.silu.0.backward", tensor({5}), tensor({6 + 6 * apart}));
      if (count > 1) backward.insert(backward.size() - 1, R"(, "passes": )" + std::to_string(count));
      return steps::Run{call("Functional.silu.0.forward", tensor({7}), tensor({2})) + ", " +
                        call("Functional.square.0.forward", tensor({1}), tensor({2 + 2 * apart})) + ", " +
                        backward};
    };
    const StepWalk step = walk(run(0.01, passes), run(0, of_reference));
    return std::ranges::any_of(step.findings, [](const Finding& one) {
      return one.record == "Functional.silu.0.backward" && !(one.effect < 1);
    });
  };
  CHECK(is_found(1, 1));
  CHECK_FALSE(is_found(2, 2));
  CHECK_FALSE(is_found(1, 2));  // records of different passes
  CHECK_FALSE(is_found(2, 1));
}

TEST_CASE("confidence: by how far it is beyond the limit, less in noise, and half at each further place") {
  Finding exact;
  exact.exact_before = true;
  exact.distance = compare::Distance::unmeasurable();
  CHECK(compare::confidence(exact, 0) == Approx(0.95));
  CHECK(compare::confidence(exact, 1) == Approx(0.475));
  exact.is_hidden = true;
  CHECK(compare::confidence(exact, 0) == Approx(0.3));
  CHECK(compare::confidence(exact, 60) == Approx(0.001));
  Finding measured;
  measured.distance = {.value = 1, .low = 1, .high = 1, .equal = false};
  measured.exact_before = false;
  measured.strength = 1;
  CHECK(compare::confidence(measured, 0) == Approx(0.5));
  measured.strength = 4;
  CHECK(compare::confidence(measured, 0) == Approx(0.9 - 0.4 / 4));
  measured.exact_before = true;
  CHECK(compare::confidence(measured, 0) == Approx(0.95 - 0.45 / 4));
}

TEST_CASE(
    "call: one of a module that is called another number of times, with another shape, is another call") {
  const std::string of_rows = R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 16], )"
                              R"("Max": 2.25, "Min": -1.625, "Mean": 0.1875, "Norm": 5.83})";
  const auto once = call("Module.fc.Linear.forward.0", of_rows, of_rows);
  const auto twice = call("Module.fc.Linear.forward.0", tensor(), tensor()) + ", " +
                     call("Module.fc.Linear.forward.1", tensor({2}), tensor({2}));
  const StepWalk step = walk({once}, {twice});
  CHECK(found(step, FindingKind::kArgument) == nullptr);
  CHECK(found(step, FindingKind::kMissingCall) != nullptr);
  CHECK(found(walk({once}, {call("Module.fc.Linear.forward.0", tensor(), tensor())}),
              FindingKind::kArgument) != nullptr);
}

TEST_CASE("argument: a tensor that shows in no result of its call comes to nothing") {
  const auto is_cause = [](double result, bool has_backward) {
    const auto run = [&](double given, double made) {
      const std::string backward = call("Functional.relu.0.backward", tensor({5}), tensor({6}));
      return steps::Run{call("Functional.relu.0.forward", tensor({given}), tensor({made})) +
                        (has_backward ? ", " + backward : std::string())};
    };
    const StepWalk step = walk(run(2, 1 + result), run(1, 1));
    const StepWalk* const walks[] = {&step};
    return !compare::judge(walks).culprits.empty();
  };
  CHECK_FALSE(is_cause(0, false));
  CHECK(is_cause(1, false));
  CHECK(is_cause(0, true));  // it is kept for the backward pass
}

TEST_CASE("argument: named after the module around, where that is given something else, too") {
  // Inside of a module, and of it, from what was made before.
  const auto name = [](double given_in_reference) {
    const auto run = [](double module, double inside) {
      return steps::Run{call("Tensor.add.0.forward", tensor({3}), tensor({1.1})) + ", " +
                            call("Tensor.sub.0.forward", tensor({3}), tensor({1.3})) + ", " +
                            call("Tensor.mul.0.forward", tensor({inside}), tensor({9 * inside})) + ", " +
                            call("Module.m.M.forward.0", tensor({module}), tensor({9 * inside})),
                        "", R"("Tensor.mul.0.forward": "Module.m.M.forward.0")"};
    };
    const StepWalk step = walk(run(1.3, 1.3), run(given_in_reference, 1.1));
    return step.findings.empty() ? std::string() : step.findings[0].name;
  };
  CHECK(name(1.1) == "Module.m.M.forward.0.input.0");
  CHECK(name(1.3) == "Tensor.mul.0.forward.input.0");
}

TEST_CASE("preparation: a value that a model may have made has half of its digits") {
  const auto is_found = [](double off, const std::string& state) {
    const auto run = [&](double value) {
      return steps::Run{call("Tensor.mul.0.forward", tensor({value}), tensor({3 * value})), state,
                        R"("Tensor.mul.0.forward": "preparation")"};
    };
    return found(walk(run(1 + off), run(1)), FindingKind::kArgument) != nullptr;
  };
  const std::string model = R"("preparation": {"model_calls": 1})", none = R"("version": 1)";
  CHECK_FALSE(is_found(1e-4, model));
  CHECK(is_found(1e-2, model));
  CHECK(is_found(1e-4, none));
}

TEST_CASE("preparation: what is recorded of a model tells before what it made in front of it") {
  const auto run = [](double value, double result) {
    return steps::Run{call("Tensor.mul.0.forward", tensor({value}), tensor({3 * value})) + ", " +
                          call("Functional.linear.0.forward", tensor({5}), tensor({result})),
                      R"("preparation": {"model_calls": 1})", R"("Tensor.mul.0.forward": "preparation")"};
  };
  const StepWalk step = walk(run(2, 1.3), run(1, 1.1));
  REQUIRE_FALSE(step.findings.empty());
  CHECK(step.findings.back().name == "Tensor.mul.0.forward.input.0");
  CHECK(step.findings.front().name == "Functional.linear.0.forward");
}

TEST_CASE("input: what is only seen in another way, for calls of one run, is a part of these") {
  const auto is_found = [](const char* ours, const char* theirs) {
    const auto run = [](double mask, const char* taker) {
      return steps::Run{call("Tensor.unsqueeze.0.forward", tensor({mask}), tensor({mask})) + ", " +
                        call(taker, tensor({5}) + ", " + tensor({mask}), tensor({7}))};
    };
    return found(walk(run(3, ours), run(2, theirs)), FindingKind::kInputData) != nullptr;
  };
  CHECK_FALSE(is_found("Tensor.masked_fill.0.forward", "Torch.where.0.forward"));
  CHECK(is_found("Torch.where.0.forward", "Torch.where.0.forward"));
}
