// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "msprobe/step_walk.h"
#include "verdict/places.h"
#include "verdict/state_entry.h"
#include "verdict/steps.h"

using namespace msprobe;
using compare::Finding;
using compare::FindingKind;
using compare::StepWalk;
using places::kBFloat16;
using places::kFloat32;
using steps::call;
using steps::entry;
using steps::found;
using steps::number;
using steps::tensor;
using steps::walk;

namespace {

std::string gradients(const std::string& weight, const std::string& bias) {
  return R"({"w": )" + weight + R"(, "b": )" + bias + "}";
}

// A step of the training state, with what the gradients are behind backward() and at the optimizer.
std::string state(const std::string& made, const std::string& at_optimizer, const std::string& more = "") {
  return R"("backward": [{"after_reduction": )" + made + R"(}], "gradients_at_optimizer": [{"gradients": )" +
         at_optimizer + "}]" + more;
}

}  // namespace

TEST_CASE("averaged weights: made of what they were, and of the weights as the optimizer left them") {
  // The bias of a key, say: its gradient is 0 but for rounding, and the optimizer moves it in any direction.
  const auto state_of = [](double parameter, double average, const std::string& name) {
    return "\"parameters\": {\"key.bias\": " + entry({parameter}) + "}, \"buffers\": {\"" + name +
           "\": " + entry({average}) + "}";
  };
  const auto is_found = [&](double parameter, double average, const std::string& name) {
    const StepWalk before = walk({"", state_of(1, 1, name)}, {"", state_of(1, 1, name)});
    const StepWalk step = walk({"", state_of(parameter, average, name)}, {"", state_of(1, 1, name)}, &before);
    return found(step, FindingKind::kBuffer) != nullptr;
  };
  CHECK_FALSE(is_found(1.5, 1.4, "average.key.bias"));
  CHECK(is_found(1.5, 1.4, "running_mean"));           // no average of it
  CHECK(is_found(1 + 1e-6, 1.4, "average.key.bias"));  // other shares of old and new
}

TEST_CASE("clipping: by hand it is several calls, and all gradients are multiplied by one number") {
  const std::string made = gradients(entry({1}), entry({2}));
  const auto is_found = [&](double off) {
    const std::string clipped = gradients(entry({0.5}), entry({1}));
    const std::string by_hand = gradients(entry({0.5 * (1 + off)}), entry({1 + off}));
    const std::string call_of_torch =
        R"("clipping": [{"function": "clip_grad_norm_", "arguments": {}, "before": )" + made +
        R"(, "after": )" + clipped + "}]";
    const StepWalk step = walk({"", state(made, by_hand)}, {"", state(made, clipped, ", " + call_of_torch)});
    const Finding* const clipping = found(step, FindingKind::kClipping);
    REQUIRE(clipping != nullptr);
    return clipping->effect >= 1 || found(step, FindingKind::kGradient) != nullptr;
  };
  CHECK_FALSE(is_found(10 * kFloat32));
  CHECK(is_found(100 * kFloat32));
}

TEST_CASE("gradients: what calls of both runs make of them they tell, and what one run leaves is as it was") {
  // Of gradients of several tasks a program makes one, say.
  const std::string made = R"({"w": )" + entry({1}) + "}";
  const auto another = [](double size) {
    std::string one = entry({size});
    one.replace(one.find("max"), 3, "max\": 4, \"was");
    return R"({"w": )" + one + "}";
  };
  const auto is_found = [&](const std::string& target, const std::string& reference) {
    const steps::Run call_of_both{call("Tensor.mean.0.forward", tensor({3}), tensor({2}))};
    const StepWalk step =
        walk({call_of_both.calls, state(made, target)}, {call_of_both.calls, state(made, reference)});
    return found(step, FindingKind::kGradient) != nullptr;
  };
  CHECK_FALSE(is_found(another(1 + 1e-6), another(1)));
  CHECK(is_found(made, another(1)));
  CHECK(is_found(another(1), made));
  CHECK(is_found(R"({"w": )" + entry({1 + 1e-5}) + "}", made));
}

TEST_CASE("gradients: of several backward passes, each parameter has that of the last one that reached it") {
  const auto run = [](double off) {
    const std::string both = gradients(entry({1 + off}), entry({2})),
                      one = R"({"w": null, "b": )" + entry({3}) + "}";
    return steps::Run{"", R"("backward": [{"after_reduction": )" + both + R"(}, {"after_reduction": )" + one +
                              R"(}], "gradients_at_optimizer": [{"gradients": )" +
                              gradients(entry({1 + off}), entry({3})) + "}]"};
  };
  const StepWalk step = walk(run(1e-3), run(0));
  CHECK(std::ranges::none_of(step.findings,
                             [](const Finding& one) { return one.phase == compare::Phase::kAtOptimizer; }));
}

TEST_CASE("clipping: in two groups, each gradient is what the call of its own group left") {
  const auto run = [](double w, double b, double left) {
    const std::string of_w = R"({"w": )" + entry({w}) + "}";
    const auto of_b = [](double size) { return R"({"b": )" + entry({size}) + "}"; };
    const auto call_of_torch = [](const std::string& before, const std::string& after) {
      return R"({"function": "clip_grad_norm_", "arguments": {}, "before": )" + before + R"(, "after": )" +
             after + "}";
    };
    return steps::Run{"", state(gradients(entry({w}), entry({b})), gradients(entry({w}), entry({left})),
                                R"(, "clipping": [)" + call_of_torch(of_w, of_w) + ", " +
                                    call_of_torch(of_b(b), of_b(left)) + "]")};
  };
  const auto is_found = [&](double off, double left) {
    const StepWalk step = walk(run(1, 1 + off, left + off), run(1, 1, 1));
    return std::ranges::any_of(step.findings,
                               [](const Finding& one) { return one.phase > compare::Phase::kGradients; });
  };
  CHECK_FALSE(is_found(1e-3, 1));  // as the backward pass gave it, which is told there
  CHECK(is_found(0, 1.001));
}

TEST_CASE("clipping: by hand, by a number that is made of all gradients") {
  const auto is_found = [](double other, double scaled) {
    const auto run = [](double b, double w_of_optimizer) {
      return steps::Run{
          "", state(gradients(entry({1}), entry({b})), gradients(entry({w_of_optimizer}), entry({b / 4})))};
    };
    const StepWalk step = walk(run(2 * (1 + other), 0.25 * (1 + scaled)), run(2, 0.25));
    return std::ranges::any_of(step.findings, [](const Finding& one) { return one.name == "w"; });
  };
  CHECK_FALSE(is_found(1e-4, 1e-4));
  CHECK(is_found(0, 1e-4));
  CHECK(is_found(1e-4, 1e-2));
}

TEST_CASE("clipping: a call that is given no gradient clips nothing") {
  const auto clipping = [](const std::string& given) {
    return R"("clipping": [{"function": "clip_grad_norm_", "arguments": {}, "before": )" + given +
           R"(, "after": )" + given + "}]";
  };
  const StepWalk step = walk({"", clipping("{}")}, {"", clipping(R"({"w": )" + entry() + "}")});
  const Finding* const missing = found(step, FindingKind::kClipping);
  REQUIRE(missing != nullptr);
  CHECK(text_of(missing->because) == "gradients are clipped 0 times (reference: 1)");
}

TEST_CASE("gradients agree: within 3 x half of the digits of the dtype that is computed in") {
  const auto agree = [](std::string_view dtype, double limit, double share) {
    // Statistics tell a distance to a factor: one of `share` of the limit at least, by trying.
    double off = limit;
    const auto low = [&](double by) {
      const std::string ours = R"("x": )" + entry({1 + by, dtype}), theirs = R"("x": )" + entry({1, dtype});
      const auto a = steps::state_of({"", ours}), b = steps::state_of({"", theirs});
      return verdict::entry_distance(a->root["x"], b->root["x"]).low;
    };
    while (low(off) > share * limit) off *= 0.98;
    while (low(off) < share * limit) off *= 1.01;
    const std::string ours = R"({"w": )" + entry({1 + off, dtype}) + "}",
                      theirs = R"({"w": )" + entry({1, dtype}) + "}";
    return walk({"", state(ours, ours)}, {"", state(theirs, theirs)}).gradients_agree();
  };
  CHECK(agree("float32", 3 * std::sqrt(kFloat32), 0.9));
  CHECK_FALSE(agree("float32", 3 * std::sqrt(kFloat32), 1.1));
  CHECK(agree("bfloat16", 3 * std::sqrt(kBFloat16), 0.9));
  CHECK_FALSE(agree("bfloat16", 3 * std::sqrt(kBFloat16), 1.1));
}

TEST_CASE("optimizer: what its calls get, and what is clipped, is judged by the training state") {
  const auto run = [](double size, const std::string& state, const std::string& around) {
    return steps::Run{call("Tensor.mul_.0.forward", tensor({size}) + ", " + number(0.9), tensor({size})),
                      state, "\"Tensor.mul_.0.forward\": \"" + around + "\", \"" + around + "\": null"};
  };
  for (const std::string around : {"optimizer", "clip_grad"}) {
    CAPTURE(around);
    const auto judged = [&](const std::string& state) {
      std::vector<StepWalk> step = {walk(run(1.5, state, around), run(1, state, around))};
      return steps::judged(step);
    };
    CHECK_FALSE(judged("").culprits.empty());
    const compare::Verdict verdict = judged(R"("parameters": {})");
    CHECK(verdict.culprits.empty());
    CHECK(verdict.notes.size() == 1);  // it is told
  }
}

TEST_CASE(
    "optimizer: a state that holds steps is off by steps of single elements, one of gradients by theirs") {
  const auto is_found = [](std::string_view optimizer, double gradient) {
    const auto run = [&](double by, double size) {
      const std::string made = R"({"w": )" + entry({by}) + "}";
      return steps::Run{"", state(made, made,
                                  R"(, "optimizer": [{"class": "torch.optim.)" + std::string(optimizer) +
                                      R"(", "groups": [], "state_before": {}, "state_after": {"w": )"
                                      R"({"momentum_buffer": )" +
                                      entry({size}) + "}}}]")};
    };
    return found(walk(run(gradient, 1.001), run(1, 1)), FindingKind::kOptimizerState) != nullptr;
  };
  CHECK(is_found("SGD", 1 + 2e-6));
  CHECK_FALSE(is_found("RMSprop", 1 + 2e-6));
  CHECK(is_found("RMSprop", 1));  // of equal gradients
}

TEST_CASE("update: of equal gradients a step is the same, whatever calls make it") {
  const auto is_found = [](double gradient) {
    const auto run = [](double by, double moved) {
      const std::string made = R"({"w": )" + entry({by}) + "}";
      return steps::Run{
          call("Tensor.sub_.0.forward", tensor({1}) + ", " + tensor({moved - 1}), tensor({moved})),
          state(made, made,
                R"(, "parameters": {"w": )" + entry({1}) +
                    R"(}, "optimizer": [{"class": "Own", "groups": )"
                    R"([{"parameters": ["w"]}], "state_before": {}, "state_after": {}}])")};
    };
    const auto after = [](double size) {
      return steps::Run{"", R"("parameters": {"w": )" + entry({size}) + "}"};
    };
    const StepWalk before = walk(run(gradient, 1.02), run(1, 1.01));
    return found(walk(after(1.02), after(1.01), &before), FindingKind::kWeight) != nullptr;
  };
  CHECK(is_found(1));
  CHECK_FALSE(is_found(1 + 2e-6));  // which may be of any size where the rule divides by it
}

TEST_CASE("optimizers: each step is held against that of the same parameters, in any order and number") {
  // Words of optimizers: the parameter that each has, and its rate.
  const auto is_found = [](const std::string& ours, const std::string& theirs) {
    const auto run = [](const std::string& steps) {
      std::string all;
      for (std::size_t i = 0; i < steps.size(); i += 2)
        all += std::string(i == 0 ? "" : ", ") + R"({"class": "Own", "groups": [{"parameters": [")" +
               steps[i] + R"("], "hyper": {"lr": )" + steps[i + 1] + "}}]}";
      return steps::Run{"", R"("optimizer": [)" + all + "]"};
    };
    return found(walk(run(ours), run(theirs)), FindingKind::kOptimizerSetting) != nullptr;
  };
  CHECK_FALSE(is_found("a1b2", "b2a1"));
  CHECK_FALSE(is_found("a1a2b3", "b3a1a2"));
  CHECK(is_found("a1a2", "a2a1"));
  CHECK(is_found("a1b2", "b1a2"));
}

TEST_CASE("input: what another call of a model is given may be a result, and is no data then") {
  const auto is_found = [](double given) {
    const auto run = [&](double made, double again) {
      return steps::Run{call("Functional.silu.0.forward", tensor({7}), tensor({made})),
                        R"("inputs": [{"tensors": {"x": )" + entry({7}) + R"(}}, {"tensors": {"state": )" +
                            entry({again}) + "}}]"};
    };
    return found(walk(run(1.1, 1.1 * given), run(1, given)), FindingKind::kInputData) != nullptr;
  };
  CHECK_FALSE(is_found(1));
  CHECK(is_found(2));
}

TEST_CASE("input: what a call in front of the model makes of equal data is its result, and no data") {
  const auto run = [](double noise, double label, const std::string& around) {
    return steps::Run{call("Torch.mul.0.forward", tensor({noise}), tensor({label})),
                      R"("inputs": [{"tensors": {"args.0": )" + entry({label}) + "}}]",
                      R"("Torch.mul.0.forward": ")" + around + '"'};
  };
  const auto is_data = [&](const steps::Run& target, const steps::Run& reference) {
    return found(walk(target, reference), FindingKind::kInputData) != nullptr;
  };
  CHECK_FALSE(is_data(run(1, 3, "preparation"), run(1, 2, "preparation")));
  CHECK(is_data(run(1, 3, ""), run(1, 2, "")));
  const StepWalk step = walk(run(1, 3, "preparation"), run(1, 2, "preparation"));
  CHECK(found(step, FindingKind::kOperator) != nullptr);
  // Made by a call that one run has alone.
  steps::Run other = run(1, 3, "preparation");
  other.calls = call("Torch.add.0.forward", tensor({1}), tensor({3}));
  other.construct = R"("Torch.add.0.forward": "preparation")";
  CHECK_FALSE(is_data(other, run(1, 2, "preparation")));
}

TEST_CASE("parameter: what a call between the steps wrote into it explains it") {
  const auto run = [](double written, const std::string& around) {
    return steps::Run{
        call("Tensor.copy_.0.forward", tensor({1}) + ", " + tensor({written}), tensor({written})),
        R"("parameters": {"w": )" + entry({written}) + '}', R"("Tensor.copy_.0.forward": ")" + around + '"'};
  };
  const StepWalk before = walk(run(1, ""), run(1, ""));
  const auto is_found = [&](const std::string& around) {
    return found(walk(run(3, around), run(2, around), &before), FindingKind::kWeight) != nullptr;
  };
  CHECK_FALSE(is_found("preparation"));
  CHECK(is_found(""));
}

TEST_CASE("parameter: what other processes reduce into it between the steps explains it") {
  const auto run = [](double reduced) {
    return steps::Run{call("Distributed.all_reduce.0.forward", tensor({1}), tensor({reduced})),
                      R"("parameters": {"w": )" + entry({reduced}) + '}',
                      R"("Distributed.all_reduce.0.forward": "preparation")"};
  };
  const StepWalk before = walk(run(1), run(1));
  CHECK(found(walk(run(3), run(2), &before), FindingKind::kWeight) == nullptr);
}

TEST_CASE("input: data of a later step may be made with the model, and integers are read") {
  const auto is_found = [](std::string_view dtype, double weight, double off, bool is_later) {
    const auto run = [&](double given, double by) {
      return steps::Run{"", R"("parameters": {"w": )" + entry({1 + by}) +
                                R"(}, "inputs": [{"tensors": {"x": )" + entry({1 + given, dtype}) + "}}]"};
    };
    const StepWalk before;
    const StepWalk step = walk(run(off, weight), run(0, 0), is_later ? &before : nullptr);
    return found(step, FindingKind::kInputData) != nullptr;
  };
  CHECK(is_found("float32", 0, 1e-4, true));
  CHECK_FALSE(is_found("float32", 1e-4, 1e-4, true));
  CHECK(is_found("float32", 1e-4, 0.5, true));
  CHECK(is_found("float32", 1e-4, 1e-4, false));
  CHECK(is_found("int64", 1e-4, 1, true));
}

TEST_CASE("input: where one run calls the model more often, its later calls are given something else") {
  const auto is_found = [](double first, bool is_called_again) {
    const auto run = [](double one, double other, bool again) {
      const auto given = [](double value) { return R"({"tensors": {"x": )" + entry({value}) + "}}"; };
      return steps::Run{"", R"("inputs": [)" + given(one) + ", " + given(other) +
                                (again ? ", " + given(5) : std::string()) + "]"};
    };
    return found(walk(run(first, 3, is_called_again), run(1, 5, false)), FindingKind::kInputData) != nullptr;
  };
  CHECK(is_found(1, false));
  CHECK_FALSE(is_found(1, true));
  CHECK(is_found(2, true));
}

TEST_CASE("update: a step is that of another rule beyond 3 x 9 times what rounding allows") {
  const auto is_other = [](double off) {
    const auto optimizer = [](double by) {
      return R"("optimizer": [{"class": "A", "groups": [], "update": {"off": )" + std::to_string(by) +
             R"(, "rule": "Adam", "of": "exp_avg", "parameter": "w"}}])";
    };
    return found(walk({"", optimizer(off)}, {"", optimizer(1)}), FindingKind::kUpdate) != nullptr;
  };
  CHECK_FALSE(is_other(20));
  CHECK(is_other(30));
}

TEST_CASE("gradients: none, and one of zeros, are the same") {
  const auto is_found = [](double size) {
    const std::string weight = entry({1}), made = gradients(weight, weight);
    const StepWalk step = walk({"", state(made, gradients(weight, entry({size})))},
                               {"", state(made, gradients(weight, "null"))});
    return !step.findings.empty();
  };
  CHECK(is_found(1));
  CHECK_FALSE(is_found(0));
}

TEST_CASE("optimizer: another class with the same settings is a cause where its step is another one") {
  const auto is_cause = [](std::string_view name, double rate, double stepped) {
    const auto run = [](double weight, std::string_view of, double lr) {
      // What one class has alone is none of its settings here.
      const std::string own = of.starts_with("mine") ? "" : R"(, "momentum": 0)";
      const std::string given = R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({5}) + "}}], ";
      return steps::Run{"", given + R"("parameters": {"w": )" + entry({weight}) +
                                R"(}, "optimizer": [{"class": ")" + std::string(of) +
                                R"(", "groups": [{"parameters": ["w"], "hyper": {"lr": )" +
                                std::to_string(lr) + own + "}}]}]"};
    };
    std::vector<StepWalk> both = {walk(run(1, name, rate), run(1, "torch.optim.SGD", 1))};
    both.push_back(walk(run(stepped, name, rate), run(2, "torch.optim.SGD", 1), &both.front()));
    const compare::Verdict verdict = steps::judged(both);
    return !verdict.culprits.empty() && verdict.culprits.front().kind == FindingKind::kOptimizerSetting;
  };
  CHECK_FALSE(is_cause("mine.SGD", 1, 2));
  CHECK(is_cause("mine.SGD", 1, 3));
  CHECK(is_cause("mine.SGD", 2, 2));  // a setting is a cause, whatever comes of it
}

TEST_CASE("optimizer: a call of one run alone is a cause where the weights that it leaves are others") {
  const auto is_cause = [](double stepped) {
    const auto run = [](double weight, const std::string& more) {
      return steps::Run{
          call("Tensor.mul.0.forward", tensor({7}), tensor({7})) + more,
          R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({5}) + R"(}}], "parameters": {"w": )" +
              entry({weight}) +
              R"(}, "optimizer": [{"class": "Own", "groups": [{"parameters": ["w"], "hyper": {}}]}])",
          R"("Tensor.mul.0.forward": "optimizer", "Tensor.sqrt.0.forward": "optimizer")"};
    };
    const std::string more = ", " + call("Tensor.sqrt.0.forward", tensor({7}), tensor({3}));
    std::vector<StepWalk> both = {walk(run(1, more), run(1, ""))};
    both.push_back(walk(run(stepped, more), run(2, ""), &both.front()));
    const compare::Verdict verdict = steps::judged(both);
    return !verdict.culprits.empty() && verdict.culprits.front().name == "Tensor.sqrt.0.forward";
  };
  CHECK(is_cause(3));
  CHECK_FALSE(is_cause(2));
}

TEST_CASE(
    "gradients: a call of one run alone is a cause where the optimizer gets other ones than backward gave") {
  const auto is_cause = [](double given) {
    const auto run = [](double gets, const std::string& more) {
      return steps::Run{call("Functional.mse_loss.0.forward", tensor({7}), tensor({3})) + ", " +
                            call("Functional.mse_loss.0.backward", tensor({9}), tensor({8})) + more,
                        R"("backward": [{"after_reduction": {"w": )" + entry({8}) +
                            R"(}}], "gradients_at_optimizer": [{"gradients": {"w": )" + entry({gets}) +
                            "}}]"};
    };
    std::vector<StepWalk> step = {
        walk(run(given, ", " + call("Torch.sign.0.forward", tensor({8}), tensor({2}))), run(8, ""))};
    const compare::Verdict verdict = steps::judged(step);
    return !verdict.culprits.empty() && verdict.culprits.front().name == "Torch.sign.0.forward";
  };
  CHECK(is_cause(2));
  CHECK_FALSE(is_cause(8));
}

TEST_CASE("optimizer: a number that is made of gradients is as far off as their norms") {
  const auto is_other = [](double rate, double gradient) {
    const auto run = [](double lr, double off) {
      return steps::Run{"", R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({1 + off}) +
                                R"(}}], "optimizer": [{"class": "SGD", "groups": [{"parameters": ["w"], )" +
                                R"("hyper": {"lr": )" + steps::digits(lr) + "}}]}]"};
    };
    const StepWalk step = walk(run(rate, gradient), run(1.23456789, 0));
    const Finding* const one = found(step, FindingKind::kOptimizerSetting);
    return one != nullptr && std::isinf(one->effect);
  };
  CHECK(is_other(1.2400001, 0));
  CHECK_FALSE(is_other(1.2400001, 0.01));
  CHECK(is_other(2.3456789, 0.01));
  CHECK(is_other(1.24, 0.01));  // somebody wrote it
}

TEST_CASE("optimizer state: where nobody knows the rule, the calls that made it tell") {
  // A step that is kept for the next one, as of a gradient over its size.
  const auto is_found = [](const std::string& update, double made) {
    const auto run = [&](double step, double state) {
      return steps::Run{call("Tensor.div.0.forward", tensor({7}), tensor({step})),
                        R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({5}) +
                            R"(}}], "optimizer": [{"class": "Own", "groups": [], )" + update +
                            R"("state_before": {}, "state_after": {"w": {"last": )" + entry({state}) + "}}}]",
                        R"("Tensor.div.0.forward": "optimizer")"};
    };
    return found(walk(run(made, 1.1), run(1, 1)), FindingKind::kOptimizerState) != nullptr;
  };
  CHECK_FALSE(is_found("", 1.1));
  CHECK(is_found("", 1));
  CHECK(is_found(R"("update": {"rule": "Adam"}, )", 1.1));
}

TEST_CASE("optimizer state: a number is the same in a tensor of one element") {
  const auto distance = [](double value, std::string_view shape) {
    const auto state = steps::state_of(
        {"",
         R"("number": {"value": )" + std::to_string(value) +
             R"(}, "tensor": {"dtype": "torch.float32", "min": 3, "max": 3, "mean": 3, "norm": 3, "shape": )" +
             std::string(shape) + "}"});
    return verdict::entry_distance(state->root["number"], state->root["tensor"]).low;
  };
  CHECK(distance(3, "[]") == 0);
  CHECK(distance(4, "[]") == Approx(0.25));
  CHECK(std::isinf(distance(3, "[2]")));
}

TEST_CASE("parameters: those of another optimizer, whose turn it is not, stay as they are") {
  const auto is_found = [](double now) {
    const auto run = [](double other) {
      return steps::Run{
          "", R"("parameters": {"w": )" + entry() + R"(, "other": )" + entry({1 + other}) +
                  R"(}, "optimizer": [{"class": "SGD", "groups": [{"parameters": ["w"], "hyper": {}}]}])"};
    };
    const StepWalk before = walk(run(0.01), run(0));
    return found(walk(run(now), run(0), &before), FindingKind::kWeight) != nullptr;
  };
  CHECK_FALSE(is_found(0.01));
  CHECK(is_found(5));
}

TEST_CASE("optimizer: parameters with another setting are named, however they are grouped") {
  const auto group = [](const std::string& names, const std::string& decay) {
    return R"({"hyper": {"lr": 0.1, "weight_decay": )" + decay + R"(, "foreach": null}, "parameters": [)" +
           names + "]}";
  };
  const auto told = [](const std::string& target, const std::string& reference) {
    const auto optimizer = [](const std::string& groups) {
      return R"("optimizer": [{"class": "A", "groups": [)" + groups + "]}]";
    };
    std::vector<std::string> said;
    for (const Finding& one : walk({"", optimizer(target)}, {"", optimizer(reference)}).findings)
      said.push_back(text_of(one.because));
    return said;
  };
  const std::string decayed = group(R"("w", "n.w")", "0.1"), all = group(R"("w", "n.w", "n.b")", "0.1"),
                    rest = group(R"("n.b")", "0.0"), bare = group(R"("n.w", "n.b")", "0.0");
  using Said = std::vector<std::string>;
  CHECK(told(all, decayed + ", " + rest) == Said{"optimizer: weight_decay = 0.1 (reference: 0.0) for n.b"});
  CHECK(told(all, group(R"("w")", "0.1") + ", " + bare) ==
        Said{"optimizer: weight_decay = 0.1 (reference: 0.0) for n.w and 1 more parameters"});
  CHECK(told(decayed, all) == Said{"optimizer: only the reference updates n.b"});
  CHECK(told(decayed + ", " + rest, rest + ", " + decayed).empty());
  CHECK(told(decayed, group(R"("w", "n.w")", "0.2")) ==
        Said{"optimizer: groups.0.weight_decay = 0.1 (reference: 0.2)"});
}

TEST_CASE(
    "gradient: of runs that are joined it is as coarse as what their modules compute, as under autocast") {
  const auto is_found = [](std::string_view computed) {
    const auto run = [&](double gradient) {
      return steps::Run{
          call("Module.fc.Linear.forward.0", tensor(), tensor({1, computed})),
          R"("joined": "true", "backward": [{"after_reduction": {"fc.weight": )" + entry({gradient}) + "}}]"};
    };
    return found(walk(run(1.005), run(1)), FindingKind::kGradient) != nullptr;
  };
  CHECK(is_found("float32"));
  CHECK_FALSE(is_found("bfloat16"));
}

TEST_CASE("buffer: one that is 0 but for rounding is measured against the others of its kind") {
  const auto is_found = [](double mean, double of_others) {
    const auto state = [&](double size) {
      return R"("buffers": {"a.running_mean": )" + entry({size}) + R"(, "b.running_mean": )" +
             entry({of_others}) + R"(, "c.running_mean": )" + entry({of_others}) + "}";
    };
    const StepWalk before = walk({"", state(1)}, {"", state(1)});
    return found(walk({"", state(mean)}, {"", state(2 * mean)}, &before), FindingKind::kBuffer) != nullptr;
  };
  CHECK_FALSE(is_found(1e-9, 1));
  CHECK(is_found(1e-9, 1e-9));
}

TEST_CASE("optimizer state: a weight decay that is not decoupled brings in what the parameter is off by") {
  const auto is_found = [](double parameter, std::string_view decay) {
    const auto run = [&](double weight, double mean) {
      const std::string gradient = R"({"w": )" + entry() + "}";
      return steps::Run{
          "",
          R"("parameters": {"w": )" + entry({weight}) + R"(}, "gradients_at_optimizer": [{"gradients": )" +
              gradient +
              R"(}], "optimizer": [{"class": "torch.optim.adam.Adam", "groups": [{"parameters": ["w"], )" +
              R"("hyper": {)" + std::string(decay) + R"(}}], "state_after": {"w": {"exp_avg": )" +
              entry({mean}) + "}}}]"};
    };
    const StepWalk before;
    const StepWalk step = walk(run(1 + parameter, 1.001), run(1, 1), &before);
    return found(step, FindingKind::kOptimizerState) != nullptr;
  };
  const std::string_view coupled = R"("weight_decay": {"value": 0.1})",
                         decoupled =
                             R"("weight_decay": {"value": 0.1}, "decoupled_weight_decay": {"value": true})";
  CHECK_FALSE(is_found(0.5, coupled));
  CHECK(is_found(0.5, decoupled));
  CHECK(is_found(1e-6, coupled));
}

TEST_CASE("optimizer state: an error of a negligible gradient is a part of what it is measured against") {
  // The gradient of `small` is next to nothing, its mean is not much smaller than that of the others.
  const auto is_found = [](double gradient, double off) {
    const auto run = [&](double by, double mean) {
      const auto all = [](const std::string& one) {
        return R"("a": )" + entry({100}) + R"(, "b": )" + entry({100}) + R"(, "small": )" + one;
      };
      const std::string mean_of = R"({"exp_avg": )";
      return steps::Run{
          "", R"("gradients_at_optimizer": [{"gradients": {)" + all(entry({gradient * (1 + by)})) +
                  R"(}}], "optimizer": [{"state_after": {"a": )" + mean_of + entry() + R"(}, "b": )" +
                  mean_of + entry() + R"(}, "small": )" + mean_of + entry({0.1 * (1 + mean)}) + "}}}]"};
    };
    return found(walk(run(0.01, off), run(0, 0)), FindingKind::kOptimizerState) != nullptr;
  };
  CHECK_FALSE(is_found(1e-3, 1e-3));  // of 0.1 x 100, which it is measured against
  CHECK(is_found(1e-3, 1));
}

TEST_CASE("optimizer state: what the step made of gradients of another pass is not read") {
  const auto is_found = [](double off, bool is_made) {
    const auto run = [&](double value) {
      const std::string made = call("Tensor.lerp_.0.forward", tensor({5}), tensor({value}));
      const std::string other = call("Tensor.add.0.forward", tensor({5}), tensor({7}));
      return steps::Run{is_made ? made : other,
                        R"("optimizer": [{"state_before": {"w": {"curved": )" + entry({value}) + "}}}]"};
    };
    return found(walk(run(1.1 * (1 + off)), run(1.1)), FindingKind::kOptimizerState) != nullptr;
  };
  CHECK_FALSE(is_found(1e-6, true));
  CHECK(is_found(1e-6, false));
  CHECK(is_found(0.5, true));
}
