// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "grad_probe/packed_file.h"
#include "grad_probe/rank_directory.h"
#include "grad_probe/recorded_rank.h"
#include "grad_probe/summary_table.h"
#include "io/file/write_queue.h"
#include "msprobe/content_hash.h"
#include "msprobe/file.h"
#include "msprobe/grad_probe.h"
#include "msprobe/log.h"

namespace msprobe::grad_probe {
namespace {

// How long record() waits for the step before to reach the disk while the buffer has room.
constexpr std::chrono::milliseconds kWaitForPreviousStep{10};

void check(const Options& options) {
  if (options.rank < 0) {
    throw InvalidArgument("gradient probe: rank must be 0 or more, found " + std::to_string(options.rank));
  }
  for (std::size_t i = 0; i < options.bounds.size(); ++i) {
    const double value = options.bounds[i].value;
    if (std::isnan(value) || (i > 0 && !(options.bounds[i - 1].value < value))) {
      throw InvalidArgument("gradient probe: bounds must be numbers in ascending order, found \"" +
                            options.bounds[i].label + "\" at place " + std::to_string(i));
    }
  }
}

std::size_t bytes_of(const std::vector<Measurement>& measurements) {
  std::size_t bytes = 0;
  for (const Measurement& m : measurements) {
    bytes += sizeof(Measurement) + m.name.size() + m.signs.size() +
             sizeof(std::int64_t) * (m.shape.size() + m.summary.interval_counts.size());
  }
  return bytes;
}

void check_layout(const Options& options, const std::filesystem::path& directory) {
  const bool has_packed = std::filesystem::exists(directory / kPackedName);
  const bool is_other = options.layout == Layout::kPacked
                            ? !has_packed && !RecordedRank(directory).summarized_steps().empty()
                            : has_packed;
  if (is_other) {
    throw InvalidArgument("gradient probe: " + directory.string() +
                          " holds a record of the other layout: expected another folder");
  }
}

// The step of measured gradients, for the file of all steps.
void append(PackedWriter& file, const Options& options, std::int64_t step,
            const std::vector<Measurement>& measurements) {
  std::vector<SignsToPack> signs;
  if (options.level != Level::kL0) {
    signs.reserve(measurements.size());
    for (const Measurement& one : measurements) {
      const auto keeper = options.keepers.find(one.name);
      const int kept_by =
          keeper == options.keepers.end() || keeper->second == options.rank ? -1 : keeper->second;
      const ContentHash hash = hash_part(one.signs.data(), one.signs.size(), 0);
      signs.push_back(
          {one.name, one.shape, one.fortran_order, kept_by, hash,
           kept_by < 0 ? std::span<const std::uint8_t>(one.signs) : std::span<const std::uint8_t>()});
    }
  }
  file.append(step, !signs.empty(), summary_csv(options, measurements), signs);
}

// Rank directories with a living Writer of this process: their temporaries are in use.
class DirectoriesInUse {
 public:
  // False when another Writer has it already.
  bool add(const std::filesystem::path& directory) {
    const std::lock_guard lock(mutex_);
    directories_.insert(directory);
    return directories_.count(directory) == 1;
  }
  void remove(const std::filesystem::path& directory) {
    const std::lock_guard lock(mutex_);
    directories_.extract(directory);
  }

 private:
  std::mutex mutex_;
  std::multiset<std::filesystem::path> directories_;
};

// Never destroyed: a Writer may end during program exit.
DirectoriesInUse& directories_in_use() {
  static auto* directories = new DirectoriesInUse;
  return *directories;
}

}  // namespace

struct Writer::State {
  explicit State(Options o) : options(std::move(o)) {}

  const Options options;
  std::filesystem::path directory;  // canonical
  std::atomic<bool> warned_in_child = false;
  std::mutex mutex;
  std::vector<Measurement> spare;  // of the last step that was written; under the mutex
  std::unique_ptr<io::WriteQueue> queue;
  std::unique_ptr<PackedWriter> packed;  // null: layout npy
  std::int64_t lost = 0;                 // steps of it that could not be written

  // On the thread of the queue.
  void write(std::int64_t step, std::vector<Measurement>& measurements) {
    std::string problem;
    try {
      write_step(options, step, measurements);
    } catch (const std::exception& error) {
      problem = "step " + std::to_string(step) + " is not recorded: " + error.what();
    }
    {
      const std::lock_guard lock(mutex);
      spare.swap(measurements);  // what nobody took is freed by the caller
    }
    if (!problem.empty()) throw Error(problem);
  }
};

Writer::Writer(Options options) : state_(std::make_unique<State>(std::move(options))) {
  check(state_->options);
  const std::filesystem::path directory = rank_directory(state_->options.dump_path, state_->options.rank);
  io::make_directories(directory);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    throw IoError("cannot write into the directory", directory.string(), errno);
  }
  state_->directory = std::filesystem::canonical(directory);
  check_layout(state_->options, directory);
  const bool alone = directories_in_use().add(state_->directory);
  remove_stale_temporaries(directory, alone);
  try {
    state_->queue = std::make_unique<io::WriteQueue>("gradient probe", state_->options.buffer_bytes);
    if (state_->options.layout == Layout::kPacked) {
      state_->packed = std::make_unique<PackedWriter>(directory / kPackedName);
    }
  } catch (...) {
    directories_in_use().remove(state_->directory);
    throw;
  }
}

Writer::~Writer() {
  if (state_->queue->in_child()) {
    static_cast<void>(state_.release());  // the mutexes may be held for ever
    return;
  }
  state_->queue.reset();
  directories_in_use().remove(state_->directory);
}

void Writer::record(std::int64_t step, std::vector<Measurement> measurements) {
  State& s = *state_;
  if (s.queue->in_child()) {
    if (!s.warned_in_child.exchange(true)) {
      log(LogLevel::kWarning, "gradient probe: a forked process does not record gradients");
    }
    return;
  }
  if (s.packed) {
    try {
      append(*s.packed, s.options, step, measurements);
    } catch (const std::exception& error) {
      ++s.lost;
      log(LogLevel::kError,
          "gradient probe: step " + std::to_string(step) + " is not recorded: " + error.what());
    }
    s.spare = std::move(measurements);
    return;
  }
  const std::size_t bytes = bytes_of(measurements);
  s.queue->wait_for(kWaitForPreviousStep);
  s.queue->add(bytes,
               [&s, step, of_step = std::make_shared<std::vector<Measurement>>(std::move(measurements))] {
                 s.write(step, *of_step);
               });
}

std::vector<Measurement> Writer::spare() {
  if (state_->queue->in_child()) return {};
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->spare, {});
}

std::int64_t Writer::flush() { return state_->lost + state_->queue->flush(); }

const Options& Writer::options() const noexcept { return state_->options; }

}  // namespace msprobe::grad_probe
