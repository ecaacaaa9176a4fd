// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/arrival.h"

#include <cmath>
#include <string>
#include <vector>

#include "catch.h"
#include "verdict/effects.h"
#include "verdict/steps.h"

using namespace msprobe;
using compare::StepWalk;
using steps::call;
using steps::entry;
using steps::tensor;
using steps::walk;

namespace {

// A call, a loss behind it, and their backward passes: how far off the result, the loss and the gradient at
// the optimizer are. `has_backward`: gradients went through the first call.
struct Step {
  double result = 0, loss = 0, gradient = 0;
  bool has_backward = true, requires_grad = false;

  steps::Run run() const {
    std::string out = tensor({2 + result});
    if (requires_grad) out.insert(out.size() - 1, R"(, "requires_grad": true)");
    const std::string made = call("Functional.gelu.0.forward", tensor(), out),
                      loss_of_it = call("Functional.mse_loss.0.forward", tensor({7}), tensor({3 + loss})),
                      backward = call("Functional.mse_loss.0.backward", tensor({9}), tensor({9})),
                      last = call("Functional.gelu.0.backward", tensor({9}), tensor({8}));
    const std::string gradients = R"({"w": )" + entry({1 + gradient}) + "}";
    return {made + ", " + loss_of_it + ", " + backward + (has_backward ? ", " + last : std::string()),
            R"("backward": [{"after_reduction": )" + gradients +
                R"(}], "gradients_at_optimizer": [{"gradients": )" + gradients + "}]"};
  }
  bool is_found() const {
    const Step other{.has_backward = has_backward, .requires_grad = requires_grad};
    return !walk(run(), other.run()).findings.empty();
  }
};

}  // namespace

TEST_CASE("arrival: what leaves nothing in the loss and the gradients is the same computed in another way") {
  CHECK_FALSE(Step{.result = 1}.is_found());
  CHECK(Step{.result = 1, .has_backward = false}
            .is_found());  // no gradient went through it: it may be a metric
  CHECK(Step{.result = 1, .loss = 1}.is_found());
  CHECK(Step{.result = 1, .gradient = 0.5}.is_found());
}

TEST_CASE("arrival: nothing comes of what requires a gradient, where the loss is not made of it") {
  CHECK_FALSE(Step{.result = 1, .has_backward = false, .requires_grad = true}.is_found());
  CHECK(Step{.result = 1, .loss = 1, .has_backward = false, .requires_grad = true}.is_found());
}

TEST_CASE("arrival: data that differ are other data, however little comes of them") {
  const auto run = [](double data) {
    return steps::Run{call("Torch.where.0.forward", tensor({2 + data}), tensor({3})) + ", " +
                          call("Torch.where.0.backward", tensor({9}), tensor({8})),
                      R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({1}) + "}}]"};
  };
  const StepWalk step = walk(run(1), run(0));
  CHECK(step.arriving < 1e-6);
  REQUIRE(step.findings.size() == 1);
  CHECK(step.findings[0].name == "Torch.where.0.forward.input.0");
}

TEST_CASE("arrival: an error that is as small as what arrives is looked at") {
  CHECK(Step{.result = 1e-4, .gradient = 5e-5}.is_found());
  CHECK_FALSE(Step{.result = 1e-3, .gradient = 5e-7}.is_found());
}

TEST_CASE("arrival: gradients of float32 that are computed in 16 bits have lost digits of these") {
  const auto arriving = [](std::string_view dtype, double gradient) {
    const auto run = [&](double off) {
      return steps::Run{call("Functional.gelu.0.forward", tensor(), tensor({2, dtype})),
                        R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({1 + off}) + "}}]"};
    };
    return walk(run(gradient), run(0)).arriving;
  };
  CHECK(std::isinf(arriving("float32", 0.01)));
  CHECK(std::isfinite(arriving("bfloat16", 0.01)));
  CHECK(std::isinf(arriving("bfloat16", 1)));
}

TEST_CASE("arrival: nothing is known of it where not all gradients were compared") {
  const StepWalk step = walk({"", R"("gradients_at_optimizer": [{"gradients": {}}])"},
                             {"", R"("gradients_at_optimizer": [{"gradients": {}}])"});
  CHECK(std::isinf(step.arriving));
  CHECK_FALSE(step.gradients_agree());
}

TEST_CASE("arrival: what no gradient goes through counts where losses or gradients of another step differ") {
  // A target that is computed without gradients by another number, which nothing of the first step shows.
  const auto run = [](double number, double loss, double gradient) {
    const std::string gradients = R"({"w": )" + entry({1 + gradient}) + "}";
    return steps::Run{
        call("Tensor.mul.0.forward", tensor({2}) + ", " + steps::number(number), tensor({2 * number})) +
            ", " + call("Functional.mse_loss.0.forward", tensor({7}), tensor({3 + loss})) + ", " +
            call("Functional.mse_loss.0.backward", tensor({9}), tensor({8})),
        R"("gradients_at_optimizer": [{"gradients": )" + gradients + "}]"};
  };
  StepWalk first = walk(run(1.1, 0, 0), run(1, 0, 0));
  CHECK(first.losses_agree);
  REQUIRE(first.findings.size() == 1);
  CHECK(first.findings[0].counts_later);
  const auto status = [&](const StepWalk* next) {
    std::vector<const StepWalk*> walks{&first};
    if (next != nullptr) walks.push_back(next);
    return compare::judge(walks).status;
  };
  const auto second = [&](double loss, double gradient) {
    StepWalk step = walk(run(1, loss, gradient), run(1, 0, 0), &first);
    step.step = 1;
    return step;
  };
  const StepWalk same = second(0, 0), another_loss = second(0.1, 0), another_gradient = second(0, 0.1);
  CHECK_FALSE(another_loss.losses_agree);
  CHECK(status(&same) == compare::Status::kRounding);
  CHECK(status(&another_loss) == compare::Status::kDiffer);
  CHECK(status(&another_gradient) == compare::Status::kDiffer);
  CHECK(status(nullptr) == compare::Status::kDiffer);  // one step alone tells nothing of the next
}

TEST_CASE("arrival: a loss is what each run calls last, whatever that is paired with") {
  // The reference adds two terms, the target has another order of them: means are paired that are not the
  // same.
  const auto run = [](double of_mean, const char* last) {
    return steps::Run{call("Tensor.mean.0.forward", tensor({2}), tensor({of_mean})) + ", " +
                          call(last, tensor({of_mean}), tensor({3})) + ", " +
                          call(std::string(last).replace(std::string(last).find("forward"), 7, "backward"),
                               tensor({9}), tensor({8})) +
                          ", " + call("Tensor.mean.0.backward", tensor({8}), tensor({7})),
                      R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({1}) + "}}]"};
  };
  const StepWalk step = walk(run(5, "Tensor.add.0.forward"), run(4, "Tensor.sub.0.forward"));
  CHECK(step.arriving < 1e-6);
  CHECK(step.losses_agree);
}

TEST_CASE("no distance: another number makes every difference of equal tensors, another kernel rounds") {
  const verdict::Outcome rounded{
      .visible = 0.3, .has_result = true, .in_is_equal = true, .out_is_equal = false};
  CHECK(std::isinf(rounded.effect(true)));
  CHECK(rounded.effect(false) == 0.3);
}

TEST_CASE("arrival: a loss is off by what its calls explain from where the runs are equal") {
  // The gradients agree within half of the digits of bfloat16, and the loss is computed in float32.
  const auto is_excused = [](double loss) {
    const auto run = [](double made, double end, double gradient) {
      return steps::Run{call("Functional.gelu.0.forward", tensor({1, "bfloat16"}), tensor({1, "bfloat16"})) +
                            ", " + call("Torch.sub.0.forward", tensor({5}), tensor({made})) + ", " +
                            call("Functional.mse_loss.0.forward", tensor({made}), tensor({end})) + ", " +
                            call("Functional.mse_loss.0.backward", tensor({9}), tensor({8})) + ", " +
                            call("Torch.sub.0.backward", tensor({8}), tensor({8})),
                        R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({1 + gradient}) + "}}]"};
    };
    return walk(run(4.1, 3 + loss, 0.01), run(1.7, 3, 0)).findings.empty();
  };
  CHECK(is_excused(1e-6));
  CHECK_FALSE(is_excused(0.01));
}

TEST_CASE(
    "arrival: a backward pass begins at a number, and one that begins elsewhere is told by its gradients") {
  const auto number = [](double value) {
    const std::string text = steps::digits(value);
    return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [], "Max": )" + text +
           R"(, "Min": )" + text + R"(, "Mean": )" + text + R"(, "Norm": )" + text + "}";
  };
  const auto run = [](const std::string& last, const std::string& made) {
    return steps::Run{call(last + ".0.forward", tensor({2}), made) + ", " +
                          call(last + ".0.backward", tensor({9}), tensor({8})),
                      R"("gradients_at_optimizer": [{"gradients": {"w": )" + entry({1}) + "}}]"};
  };
  const auto with = [&](const std::string& loss) { return run("Functional.nll_loss", loss); };
  const steps::Run with_outputs = run("Functional.a", tensor({5}) + ", " + number(3));
  CHECK(walk(with(number(3)), with_outputs).losses_agree);
  CHECK_FALSE(walk(with(number(4)), with_outputs).losses_agree);
  const StepWalk elsewhere = walk(with(tensor({5})), with(number(3)));
  CHECK(elsewhere.losses_agree);
  CHECK(elsewhere.gradients_agree());
}

TEST_CASE("judge: runs whose steps all end alike train the same, and other ones do not") {
  // The rows of a batch in another order.
  const auto status = [](double gradient, int steps, double before_clipping = 0) {
    const auto run = [](double data, double off, double before) {
      const auto gradients = [](double size) { return R"({"w": )" + entry({1 + size}) + "}"; };
      return steps::Run{call("Functional.gelu.0.forward", tensor({data}), tensor({data})) + ", " +
                            call("Functional.mse_loss.0.forward", tensor({7}), tensor({3})) + ", " +
                            call("Functional.mse_loss.0.backward", tensor({9}), tensor({8})),
                        R"("gradients_at_optimizer": [{"gradients": )" + gradients(off) +
                            R"(}], "clipping": [{"before": )" + gradients(before) + R"(, "after": )" +
                            gradients(off) + "}]"};
    };
    std::vector<StepWalk> walks;
    for (int step = 0; step < steps; ++step) {
      walks.push_back(walk(run(2, gradient, before_clipping), run(1, 0, 0), step == 0 ? nullptr : &walks[0]));
    }
    return steps::judged(walks).status;
  };
  CHECK(status(0, 2) == compare::Status::kRounding);
  CHECK(status(1e-7, 2) == compare::Status::kRounding);
  CHECK(status(1e-3, 2) == compare::Status::kDiffer);
  CHECK(status(0, 2, 1) == compare::Status::kDiffer);  // clipping takes away what gradients are off by
  CHECK(status(0, 1) == compare::Status::kDiffer);     // one step alone tells nothing of the next
}
