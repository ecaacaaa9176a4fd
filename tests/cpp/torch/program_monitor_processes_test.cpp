// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <barrier>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "contains.h"
#include "log_capture.h"
#include "monitored_training.h"
#include "msprobe/monitor.h"
#include "msprobe/torch_program_monitor.h"
#include "temp_dir.h"

using msprobe::monitor::StoreReader;
using msprobe::test::column_of;
using msprobe::test::contains;
using msprobe::test::LogCapture;
using msprobe::test::TempDir;
using msprobe::torch_adapter::ProgramMonitor;

namespace {

constexpr int kWorld = 2;

// Threads that stand for processes.
class Meeting {
 public:
  // What every thread gave, by rank.
  std::vector<std::string> gather(int rank, const std::string& mine) {
    given_[static_cast<std::size_t>(rank)] = mine;
    barrier_.arrive_and_wait();
    std::vector<std::string> all = given_;
    barrier_.arrive_and_wait();
    return all;
  }

  // The mean of the gradients of all, as data parallelism makes it.
  void average(int rank, const std::vector<at::Tensor>& parameters) {
    gradients_[static_cast<std::size_t>(rank)] = parameters;
    barrier_.arrive_and_wait();
    std::vector<at::Tensor> means;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      means.push_back((gradients_[0][i].grad() + gradients_[1][i].grad()) / 2);
    }
    barrier_.arrive_and_wait();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad().copy_(means[i]);
  }

  template <typename Work>
  static void run(Work work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kWorld; ++rank) threads.emplace_back(work, rank);
    for (std::thread& one : threads) one.join();
  }

 private:
  std::barrier<> barrier_{kWorld};
  std::vector<std::string> given_ = std::vector<std::string>(kWorld);
  std::vector<std::vector<at::Tensor>> gradients_ = std::vector<std::vector<at::Tensor>>(kWorld);
};

ProgramMonitor::Options options_of_rank(int rank, Meeting* meeting) {
  ProgramMonitor::Options options;
  options.updates = options.directions = options.activation_gradients = options.spectra = true;
  options.rank = rank;
  options.world_size = kWorld;
  if (meeting != nullptr) {
    options.gather = [=](const std::string& mine) { return meeting->gather(rank, mine); };
  }
  return options;
}

// The same for everybody; `rows` of each batch are seen.
struct SharedTraining {
  SharedTraining() {
    model = torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::Linear(6, 2));
    model->to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    double shift = 0;
    for (const auto& one : model->parameters()) {
      one.copy_((torch::arange(one.numel(), torch::kDouble) + ++shift).sin().reshape(one.sizes()));
    }
    optimizer = std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-2));
  }

  void step(ProgramMonitor& monitor, int number, const at::indexing::Slice& rows, Meeting* meeting,
            int rank) {
    optimizer->zero_grad();
    const at::Tensor batch = (torch::arange(24, torch::kDouble) + number).cos().reshape({6, 4});
    const at::Tensor x =
        monitor.activation("0", model[0]->as<torch::nn::Linear>()->forward(batch.index({rows})));
    monitor.experts("gate", x.softmax(-1), 2);
    const at::Tensor loss = model[1]->as<torch::nn::Linear>()->forward(x).square().mean();
    loss.backward();
    if (meeting != nullptr) meeting->average(rank, model->parameters());
    monitor.before_update();
    optimizer->step();
    monitor.after_update({{"loss", loss.item<double>()}});
  }

  torch::nn::Sequential model{nullptr};
  std::unique_ptr<torch::optim::AdamW> optimizer;
};

std::vector<std::unique_ptr<SharedTraining>> trainings_of_all() {
  std::vector<std::unique_ptr<SharedTraining>> trainings;
  for (int rank = 0; rank < kWorld; ++rank) trainings.push_back(std::make_unique<SharedTraining>());
  return trainings;
}

}  // namespace

TEST_CASE("ProgramMonitor: the record of two processes is that of one with the whole batch") {
  const TempDir directory;
  {
    SharedTraining whole;
    ProgramMonitor::Options options = options_of_rank(0, nullptr);
    options.world_size = 1;
    ProgramMonitor monitor(*whole.model, *whole.optimizer, directory / "one", options);
    for (int step = 0; step < 3; ++step) whole.step(monitor, step, at::indexing::Slice(), nullptr, 0);
  }
  Meeting meeting;
  const auto trainings = trainings_of_all();
  Meeting::run([&](int rank) {
    SharedTraining& training = *trainings[static_cast<std::size_t>(rank)];
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "two",
                           options_of_rank(rank, &meeting));
    const at::indexing::Slice rows(3 * rank, 3 * rank + 3);
    for (int step = 0; step < 3; ++step) training.step(monitor, step, rows, &meeting, rank);
  });
  const StoreReader one(directory / "one/monitor.db");
  const StoreReader two(directory / "two/monitor.db");
  CHECK(two.info().at("world_size") == "2");
  CHECK_FALSE(std::filesystem::exists(directory / "two/monitor.rank1.db"));
  REQUIRE(one.series().size() == two.series().size());
  for (const auto& series : one.series()) {
    // Gradients of activations are those of the loss of a process: twice as large here.
    if (series.quantity == "step_seconds") continue;
    const double factor = series.quantity == "activation_gradient" && series.metric != "nonfinite" ? 2 : 1;
    const auto expected = column_of(one, series.key());
    const auto found = column_of(two, series.key());
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO(series.key() << " at step " << i);
      if (msprobe::monitor::is_absent(expected[i])) {
        CHECK(msprobe::monitor::is_absent(found[i]));
      } else {
        CHECK(std::abs(found[i] - factor * expected[i]) <= 1e-8 * std::abs(expected[i]) + 1e-12);
      }
    }
  }
}

TEST_CASE("ProgramMonitor: parameters that lie in parts in several processes are one") {
  const TempDir directory;
  Meeting meeting;
  const auto trainings = trainings_of_all();
  Meeting::run([&](int rank) {
    SharedTraining& training = *trainings[static_cast<std::size_t>(rank)];
    ProgramMonitor::Options options = options_of_rank(rank, &meeting);
    options.split = {"0"};
    options.matrix_every = 1;
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
    monitor.after_update();
  });
  const StoreReader reader(directory / "run/monitor.db");
  const auto parameters = trainings[0]->model->named_parameters();
  const double part = parameters["0.weight"].norm().item<double>();
  CHECK(std::abs(column_of(reader, "weight.norm/0.weight")[0] - std::sqrt(2.0) * part) < 1e-9);
  const double whole = parameters["1.weight"].norm().item<double>();
  CHECK(std::abs(column_of(reader, "weight.norm/1.weight")[0] - whole) < 1e-9);
  CHECK(msprobe::test::has_series(reader, "matrix.stable_rank/1.weight"));
  CHECK_FALSE(msprobe::test::has_series(reader, "matrix.stable_rank/0.weight"));
}

TEST_CASE("ProgramMonitor: when the monitor of one process ends, no other waits for it") {
  const TempDir directory;
  const LogCapture log;
  Meeting meeting;
  const auto trainings = trainings_of_all();
  Meeting::run([&](int rank) {
    SharedTraining& training = *trainings[static_cast<std::size_t>(rank)];
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run",
                           options_of_rank(rank, &meeting));
    for (int step = 0; step < 5; ++step) {
      if (rank == 1 && step == 2) monitor.before_update(*trainings[0]->optimizer);  // not its own: a fault
      training.step(monitor, step, at::indexing::Slice(), &meeting, rank);
    }
    // CHECK is not for threads.
    if (monitor.is_open() || monitor.step() != 5) throw std::logic_error("the monitor is open");
  });
  CHECK(StoreReader(directory / "run/monitor.db").extent().steps == 2);
  REQUIRE(log.warnings().size() == 2);
  CHECK((contains(log.warnings()[0], "the monitor of process 1 has ended") ||
         contains(log.warnings()[1], "the monitor of process 1 has ended")));
}

TEST_CASE("ProgramMonitor: what gather gives is checked, and processes at different steps are told") {
  const TempDir directory;
  SharedTraining training;
  std::vector<std::string> others;
  int calls = 0;
  const auto ends_with = [&](const std::function<std::string(const std::string&)>& other) {
    const LogCapture log;
    ProgramMonitor::Options options = options_of_rank(0, nullptr);
    options.gather = [&](const std::string& mine) {
      ++calls;
      return std::vector{mine, other(mine)};
    };
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
    for (int step = 0; step < 3; ++step) {
      monitor.before_update();
      monitor.after_update();
    }
    CHECK_FALSE(monitor.is_open());
    return log.warnings().back();
  };
  CHECK(contains(ends_with([](const auto&) { return ""; }), "gather: expected the messages"));
  CHECK(contains(ends_with([](const auto& mine) { return mine.substr(0, mine.size() - 1); }), "gather"));
  CHECK(contains(ends_with([](const auto& mine) { return mine.substr(0, mine.size() / 2); }), "gather"));
  CHECK(contains(ends_with([](const std::string& mine) {
                   std::string other = mine;
                   other[0] = 7;
                   return other;
                 }),
                 "process 1 is at step 7"));
  calls = 0;
  CHECK(contains(ends_with([](const auto&) -> std::string { throw std::runtime_error("no network"); }),
                 "no network"));
  CHECK(calls == 1);  // not again
  ProgramMonitor::Options options = options_of_rank(0, nullptr);
  options.gather = [](const std::string& mine) { return std::vector{mine}; };
  ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run", options);
  monitor.after_update();
  CHECK_FALSE(monitor.is_open());
}

TEST_CASE("ProgramMonitor: without gather each process has a record of its own") {
  const TempDir directory;
  for (int rank = 0; rank < kWorld; ++rank) {
    SharedTraining training;
    ProgramMonitor monitor(*training.model, *training.optimizer, directory / "run",
                           options_of_rank(rank, nullptr));
    training.step(monitor, 0, at::indexing::Slice(), nullptr, rank);
  }
  for (int rank = 0; rank < kWorld; ++rank) {
    const StoreReader reader(directory / ("run/monitor.rank" + std::to_string(rank) + ".db"));
    CHECK(reader.info().at("rank") == std::to_string(rank));
    CHECK(column_of(reader, "gradient.norm").back() > 0);
  }
  CHECK_FALSE(std::filesystem::exists(directory / "run/monitor.db"));
}
