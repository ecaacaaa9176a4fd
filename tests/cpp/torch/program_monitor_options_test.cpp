// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>

#include "catch.h"
#include "contains.h"
#include "log_capture.h"
#include "monitored_training.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "temp_dir.h"

using msprobe::monitor::StoreReader;
using msprobe::test::column_of;
using msprobe::test::contains;
using msprobe::test::has_series;
using msprobe::test::LogCapture;
using msprobe::test::MonitoredTraining;
using msprobe::test::read_bytes;
using msprobe::test::TempDir;
using msprobe::torch_adapter::ProgramMonitor;

namespace {

ProgramMonitor::Options everything() {
  ProgramMonitor::Options options;
  options.updates = options.directions = options.activation_gradients = options.spectra = true;
  options.matrix_every = 1;
  return options;
}

}  // namespace

TEST_CASE("ProgramMonitor: with everything that it measures the training stays the same to the last bit") {
  const TempDir directory;
  MonitoredTraining plain;
  plain.train(nullptr, 4);
  MonitoredTraining watched;
  ProgramMonitor monitor(*watched.model, *watched.optimizer, directory / "run", everything());
  watched.train(&monitor, 4);
  REQUIRE(monitor.is_open());
  const auto a = plain.model->parameters();
  const auto b = watched.model->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(at::equal(a[i], b[i]));
}

TEST_CASE("ProgramMonitor: directions and spectra are what torch computes in double") {
  const TempDir directory;
  MonitoredTraining training;
  std::vector<at::Tensor> gradients;  // of the first weight
  at::Tensor moment;                  // of the first weight, before the last step
  at::Tensor singular;
  {
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", everything());
    const at::Tensor weight = training.model->parameters().front();
    for (int step = 0; step < 3; ++step) {
      if (step == 2) {
        const auto& state = training.optimizer->state().at(weight.unsafeGetTensorImpl());
        moment = static_cast<const torch::optim::AdamWParamState&>(*state).exp_avg().clone();
      }
      training.train(&monitor, 1);
      gradients.push_back(weight.grad().to(torch::kDouble).flatten().clone());
    }
    singular = torch::linalg_svdvals(weight.detach().to(torch::kDouble));
  }
  const StoreReader reader(directory / "run/monitor.db");
  const auto last = [&](const std::string& key) { return column_of(reader, key).back(); };
  const auto cosine = [](const at::Tensor& x, const at::Tensor& y) {
    return (x.dot(y) / x.norm() / y.norm()).item<double>();
  };
  moment = moment.to(torch::kDouble).flatten();
  CHECK(msprobe::monitor::is_absent(column_of(reader, "gradient_change.cosine/0.weight").front()));
  CHECK(std::abs(last("gradient_change.cosine/0.weight") - cosine(gradients[2], gradients[1])) < 1e-6);
  CHECK(std::abs(last("gradient_moment.cosine/0.weight") - cosine(gradients[2], moment)) < 1e-6);
  const double agreement = gradients[2].sign().eq(moment.sign()).to(torch::kDouble).mean().item<double>();
  CHECK(std::abs(last("gradient_moment.agreement/0.weight") - agreement) < 1e-9);
  CHECK(std::abs(last("matrix.spectral_norm/0.weight") - singular.max().item<double>()) < 1e-6);
  const double rank = (singular.square().sum() / singular.max().square()).item<double>();
  CHECK(std::abs(last("matrix.stable_rank/0.weight") - rank) < 1e-6);
  CHECK_FALSE(has_series(reader, "matrix.stable_rank/0.bias"));
}

TEST_CASE("ProgramMonitor: directions where not every step is recorded are those of successive steps") {
  const TempDir directory;
  MonitoredTraining training;
  std::vector<at::Tensor> gradients;
  ProgramMonitor::Options options = everything();
  options.every = 2;
  {
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
    for (int step = 0; step < 3; ++step) {
      training.train(&monitor, 1);
      gradients.push_back(training.model->parameters().front().grad().to(torch::kDouble).flatten().clone());
    }
  }
  const double cosine =
      (gradients[2].dot(gradients[1]) / gradients[2].norm() / gradients[1].norm()).item<double>();
  const StoreReader reader(directory / "run/monitor.db");
  CHECK(std::abs(column_of(reader, "gradient_change.cosine/0.weight").back() - cosine) < 1e-6);
}

TEST_CASE("ProgramMonitor: gradients of activations are those of all micro batches of a step") {
  const TempDir directory;
  MonitoredTraining training;
  std::vector<at::Tensor> outputs;
  std::optional<ProgramMonitor> monitor;
  monitor.emplace(*training.model, *training.optimizer, directory / "run", everything());
  for (int micro = 0; micro < 2; ++micro) {
    const at::Tensor out =
        monitor->activation("0", training.model[0]->as<torch::nn::Linear>()->forward(torch::randn({5, 4})));
    out.retain_grad();
    outputs.push_back(out);
    (out * out + out).sum().backward();  // two shares of one gradient
  }
  monitor->activation("leaf", torch::ones({2}));  // has no gradient
  monitor->before_update();
  monitor->after_update();
  const at::Tensor late =
      monitor->activation("0", training.model[0]->as<torch::nn::Linear>()->forward(torch::randn({5, 4})));
  monitor->before_update();
  monitor->after_update();
  late.sum().backward();  // belongs to no step
  monitor->before_update();
  monitor->after_update();
  const at::Tensor later =
      monitor->activation("0", training.model[0]->as<torch::nn::Linear>()->forward(torch::randn({5, 4})));
  monitor.reset();
  later.sum().backward();  // nobody is there
  const StoreReader reader(directory / "run/monitor.db");
  const at::Tensor both = torch::cat({outputs[0].grad(), outputs[1].grad()}).to(torch::kDouble);
  const auto rms = column_of(reader, "activation_gradient.rms/0");
  REQUIRE(rms.size() == 3);
  CHECK(std::abs(rms[0] / both.square().mean().sqrt().item<double>() - 1) < 1e-6);
  CHECK(column_of(reader, "activation_gradient.abs_max/0")[0] == both.abs().max().item<double>());
  CHECK(msprobe::monitor::is_absent(rms[1]));
  CHECK(msprobe::monitor::is_absent(rms[2]));
  CHECK_FALSE(has_series(reader, "activation_gradient.rms/leaf"));
}

TEST_CASE("ProgramMonitor: results of collectives count where gradients are off, too") {
  const TempDir directory;
  MonitoredTraining training;
  {
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run");
    const torch::NoGradGuard no_grad;
    monitor.communication("all_reduce", torch::full({3}, 2.0));
    monitor.communication("all_reduce", torch::full({1}, -4.0));
    monitor.communication("broadcast", at::Tensor());  // a warning
    monitor.before_update();
    monitor.after_update();
  }
  const StoreReader reader(directory / "run/monitor.db");
  CHECK(std::abs(column_of(reader, "communication.norm/all_reduce").back() - std::sqrt(28.0)) < 1e-9);
  CHECK(column_of(reader, "communication.abs_max/all_reduce").back() == 4);
  CHECK(column_of(reader, "communication.numel/all_reduce").back() == 4);
  CHECK_FALSE(has_series(reader, "communication.norm/broadcast"));
}

TEST_CASE("ProgramMonitor: targets, metrics, levels and quantities choose") {
  const TempDir directory;
  const LogCapture log;
  MonitoredTraining training;
  ProgramMonitor::Options options;
  options.targets = {"0", "2.weigth"};  // one that there is not
  options.metrics = {"mean", "ratio"};
  options.levels = {"parameter"};
  options.moments = options.training = false;
  {
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
    training.train(&monitor, 1);
  }
  const StoreReader reader(directory / "run/monitor.db");
  std::vector<std::string> keys;
  for (const auto& one : reader.series()) keys.push_back(one.key());
  std::sort(keys.begin(), keys.end());
  CHECK(keys == std::vector<std::string>{"activation.mean/0", "gradient.mean/0.bias",
                                         "gradient.mean/0.weight", "loss", "weight.mean/0.bias",
                                         "weight.mean/0.weight"});
  REQUIRE(log.warnings().size() == 1);
  CHECK(contains(log.warnings()[0], R"(nothing in the model is called "2.weigth"; close to it: 2.weight)"));
  const auto refuses = [&](ProgramMonitor::Options wrong) {
    CHECK_THROWS_AS(ProgramMonitor(*training.model, *training.optimizer, directory / "x", std::move(wrong)),
                    msprobe::InvalidArgument);
  };
  refuses({.matrix_every = 0});
  refuses({.metrics = {"medium"}});
  refuses({.levels = {"module"}});
  refuses({.rank = 2, .world_size = 2});
  CHECK_THROWS_AS(ProgramMonitor({training.model.get()}, {nullptr}, directory / "x", {}),
                  msprobe::InvalidArgument);
}

TEST_CASE("ProgramMonitor: two models whose optimizers take turns") {
  const TempDir directory;
  MonitoredTraining first;
  MonitoredTraining second;
  std::vector<double> norms;
  {
    ProgramMonitor::Options options;
    options.updates = true;
    ProgramMonitor monitor({first.model.get(), second.model.get()},
                           {first.optimizer.get(), second.optimizer.get()}, directory / "run", options);
    for (int step = 0; step < 4; ++step) {
      for (MonitoredTraining* one : {&first, &second}) {
        if (one == &second && step % 2 == 1) continue;  // every other step
        one->optimizer->zero_grad();
        // The backward of the second reaches the first, as that of a generator reaches the discriminator.
        const at::Tensor x = torch::randn({5, 4});
        at::Tensor loss = one->model->forward(x).square().mean();
        if (one == &second) loss = loss + first.model->forward(x).mean();
        loss.backward();
        if (one == &first) norms.push_back(first.model->parameters().front().grad().norm().item<double>());
        monitor.before_update(*one->optimizer);
        one->optimizer->step();
      }
      monitor.after_update({{"accuracy", 0.5}});
    }
    MonitoredTraining stranger;
    CHECK(monitor.is_open());
    monitor.before_update(*stranger.optimizer);  // a fault, and no exception
    CHECK_FALSE(monitor.is_open());
  }
  const StoreReader reader(directory / "run/monitor.db");
  const auto found = column_of(reader, "gradient.norm/0.0.weight");
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(found[i] / norms[i] - 1) < 1e-6);
  for (const char* const key :
       {"gradient.norm/1.0.weight", "update.ratio/1.0.weight", "moment.norm/1.0.weight"}) {
    CHECK_FALSE(msprobe::monitor::is_absent(column_of(reader, key)[2]));
    CHECK(msprobe::monitor::is_absent(column_of(reader, key)[3]));
  }
  CHECK(column_of(reader, "learning_rate/0").back() == 1e-2);
  CHECK(column_of(reader, "learning_rate/1").back() == 1e-2);
  CHECK(column_of(reader, "custom/accuracy").back() == 0.5);
}

TEST_CASE("ProgramMonitor: a function gets the numbers of each step, until it fails") {
  const TempDir directory;
  MonitoredTraining training;
  std::vector<std::int64_t> steps;
  ProgramMonitor::Options options;
  options.on_step = [&](std::int64_t step, const std::map<std::string, double>& numbers) {
    steps.push_back(step);
    CHECK(numbers.at("loss") > 0);
    CHECK(numbers.at("gradient.norm") > 0);
    if (step == 2) throw std::runtime_error("mine");
  };
  ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
  training.train(&monitor, 5);
  CHECK(monitor.is_open());
  CHECK(steps == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("ProgramMonitor: a record that goes on has no alarm twice, and rules that know its past") {
  const TempDir directory;
  MonitoredTraining training;
  ProgramMonitor::Options options;
  options.rules = {{.kind = msprobe::monitor::Rule::Kind::kTurbulence,
                    .name = "more",
                    .series = {"custom/x"},
                    .threshold = 1,
                    .warm_up = 3,
                    .cooldown = 1}};
  const auto run = [&](std::int64_t start, const std::vector<double>& numbers) {
    options.start = start;
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
    for (const double x : numbers) {
      monitor.before_update();
      monitor.after_update({{"x", x}});
    }
  };
  const auto lines = [&] {
    const std::string text = read_bytes(directory / "run/alarms.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  };
  run(0, {1, 1, 1, 1, 9, 1, 9});
  REQUIRE(lines() == 2);  // steps 4 and 6
  run(5, {9});            // the first number of this training is judged by what was before
  const std::string alarms = read_bytes(directory / "run/alarms.jsonl");
  CHECK(lines() == 2);
  CHECK(contains(alarms, R"("step": 4)"));
  CHECK(contains(alarms, R"("step": 5)"));
}
