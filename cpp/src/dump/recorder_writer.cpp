// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The thread that makes the files of steps.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dump/recorder_state.h"
#include "dump/step_summary.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/packed_step.h"
#include "msprobe/pt_file.h"
#include "msprobe/tensor_file.h"
#include "trace/item/bad_number.h"
#include "trace/item/uninitialised.h"
#include "trace/log/mapping_guard.h"

namespace msprobe::dump {
namespace {

// The thread that formats and writes looks for work by itself while steps follow each other: to be woken
// would cost a training thread more than all these looks. What has come since the last look is left for
// close().
constexpr std::chrono::milliseconds kBetweenLooks{4};
constexpr int kLooksAfterStep = 25;
constexpr std::size_t kFormatEvery = std::size_t{8} << 10;  // bytes of events: less is not worth a look
constexpr std::size_t kMostReports = 64;

}  // namespace

std::uint64_t byte_count(const StoredTensor& tensor) {
  std::uint64_t count = element_size(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

bool Step::is_noted(std::string_view record_name, trace::Badness worst) {
  return worst != trace::Badness::kGood && !trace::is_uninitialised(record_name);
}

void Step::note_output(std::string_view record_name, trace::Badness worst) {
  // Infinities that a mask has written say nothing, nor do those behind them; a NaN always does.
  has_fill |= worst == trace::Badness::kInfinite && trace::is_fill(record_name);
  const bool is_asked_for = worst == trace::Badness::kInfinite && has_fill;
  if (report.first_non_finite.empty() && !is_asked_for) report.first_non_finite = record_name;
  if (worst == trace::Badness::kNan && report.first_nan.empty()) report.first_nan = record_name;
}

Recorder::State::State(Options given) : options(std::move(given)), filter(options.list, options.scope) {
  writer = std::thread([this] { run(); });
}

Recorder::State::~State() {
  {
    const std::lock_guard lock(mutex);
    ending = true;
  }
  work.notify_all();
  writer.join();
}

template <typename Work>
void Recorder::State::attempt(Step& of, Work work_to_do) {
  try {
    work_to_do();
  } catch (const std::exception& e) {
    const std::lock_guard lock(mutex);
    if (!std::exchange(of.report.incomplete, true)) problems.emplace_back(e.what());  // the first one
  }
}

void Recorder::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    wait_for_work(lock);
    if (!files.empty()) {
      write_next_file(lock);
    } else if (wants_writer()) {
      advance(lock);
    } else if (flushes_done < flushes_wanted) {
      flushes_done = flushes_wanted;
      done.notify_all();
    } else if (!finished.empty()) {
      forget_finished(lock);
    } else if (ending) {
      return;
    }
  }
}

bool Recorder::State::has_work() const {
  return !busy &&
         (ending || !files.empty() || flushes_done < flushes_wanted || wants_writer() || !finished.empty());
}

void Recorder::State::wait_for_work(std::unique_lock<std::mutex>& lock) {
  for (int looks = 0; !has_work(); looks = step ? 0 : looks + 1) {
    if (looks < kLooksAfterStep) {
      work.wait_for(lock, kBetweenLooks);
    } else {
      asleep = true;
      work.wait(lock, [&] { return step != nullptr || has_work(); });
      asleep = false;
    }
  }
}

// Takes its time, and nobody waits for it.
void Recorder::State::forget_finished(std::unique_lock<std::mutex>& lock) {
  const auto steps_to_forget = std::exchange(finished, {});
  lock.unlock();
  for (const std::shared_ptr<Step>& of : steps_to_forget) {
    of->log.reset();
    of->exporter.reset();
  }
  lock.lock();
}

// While it lives, the work of the writer is done by whoever made it.
struct Recorder::State::Busy {
  explicit Busy(State& of) : state(of) { state.busy = true; }
  ~Busy() {
    state.busy = false;
    if (state.asleep) state.work.notify_one();  // what was asked for meanwhile
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  State& state;
};

// Whether something is to be done for the oldest step.
bool Recorder::State::wants_writer() const {
  if (steps.empty()) return false;
  const Step& oldest = *steps.front();
  if (oldest.ending) return true;
  if (!oldest.exporter) return false;
  const std::size_t size = oldest.log->committed().size();
  return size >= oldest.formatted + kFormatEvery || (flushes_done < flushes_wanted && size > oldest.written);
}

// What comes late is filled in by whoever makes the files.
class Recorder::State::Late final : public LateStep {
 public:
  Late(State& state, Step& step) : state_(state), step_(step) {}
  void fill(trace::SlotId slot, std::string_view element) override {
    const std::lock_guard lock(state_.mutex);
    step_.log->fill(slot, element);
  }
  void note_output(std::string_view record_name, trace::Badness worst) override {
    if (!Step::is_noted(record_name, worst)) return;
    const std::lock_guard lock(state_.mutex);
    step_.note_output(record_name, worst);
  }

 private:
  State& state_;
  Step& step_;
};

void Recorder::State::complete_late(Step& of, std::unique_lock<std::mutex>& lock) {
  const auto late = std::exchange(of.late, {});
  lock.unlock();
  Late step(*this, of);
  for (const auto& complete : late) attempt(of, [&] { complete(step); });
  lock.lock();
}

void Recorder::State::advance(std::unique_lock<std::mutex>& lock) {
  const Busy busy_here(*this);
  const std::shared_ptr<Step> oldest = steps.front();
  const bool last_time = oldest->ending;
  const bool complete = last_time || flushes_done < flushes_wanted;
  if (complete && !oldest->late.empty()) complete_late(*oldest, lock);
  const std::string_view bytes = oldest->log->committed();
  lock.unlock();
  if (oldest->exporter) {
    attempt(*oldest, [&] { oldest->exporter->consume(bytes); });
    if (complete && bytes.size() > oldest->written) {
      if (!options.packed) attempt(*oldest, [&] { oldest->exporter->write(oldest->directory); });
      oldest->written = bytes.size();
    }
  }
  lock.lock();
  oldest->formatted = bytes.size();
  if (oldest->exporter) {
    oldest->report.records = oldest->exporter->record_count();
    oldest->report.tensors = oldest->exporter->tensor_count();
  }
  if (!last_time) return;
  lock.unlock();
  attempt(*oldest, [&] {
    if (trace::was_cut(oldest->log->committed()))
      throw FormatError((oldest->directory / kLogName).string(), "",
                        "another program cut this file while it was written");
  });
  lock.lock();
  const StepReport report = oldest->report;
  lock.unlock();
  attempt(*oldest, [&] { write_end(*oldest, report); });
  lock.lock();
  finish(oldest, lock);
}

void Recorder::State::write_end(Step& of, const StepReport& report) {
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - of.opened;
  const std::string summary = summary_text(report, wall.count());
  if (!options.packed || !of.exporter) return io::write_file(of.directory / kSummary, summary);
  std::vector<std::pair<std::string, std::string>> files = of.exporter->files();
  for (auto& file : of.attached) files.push_back(std::move(file));
  files.emplace_back(kSummary, summary);
  io::write_packed_step(of.directory, files);
}

void Recorder::State::finish(std::shared_ptr<Step> of, std::unique_lock<std::mutex>& lock) {
  const bool failed = of->report.incomplete;
  lock.unlock();
  // A step whose files could not be written keeps its log: export can still make them.
  if (failed || !of->exporter) {
    of->log->close();
    if (failed) of->log.reset();  // the next step may need the room that it holds on the disk
  } else {
    spares.keep(std::move(of->log), of->directory);
  }
  lock.lock();
  flushes_done = std::max(flushes_done, of->flushes);
  if (of->report.is_late) late_reports.push_back(of->report);
  if (late_reports.size() > kMostReports) late_reports.pop_front();
  steps.pop_front();
  finished.push_back(std::move(of));
  done.notify_all();
}

void Recorder::State::write_next_file(std::unique_lock<std::mutex>& lock) {
  const Busy busy_here(*this);
  File file = std::move(files.front());
  files.pop_front();
  lock.unlock();
  const std::uint64_t bytes = byte_count(file.tensor);
  attempt(*file.step, [&] { write_tensor(file); });
  file.tensor = {};  // its memory goes back before another tensor may queue
  lock.lock();
  queued_bytes -= bytes;
  file.step->report.stored_bytes += bytes;
  done.notify_all();
}

void Recorder::State::write_tensor(const File& file) const {
  const fs::path path = file.step->directory / kTensorDirectory / file.name;
  const TensorView view{file.tensor.data, file.tensor.dtype, file.tensor.shape, {}};
  if (!options.npy) {
    io::write_pt(path, view);
    return;
  }
  io::AtomicFile out(path);
  out.write(io::npy_header(view.dtype, false, view.shape));
  out.write(view.data, byte_count(file.tensor));
  out.commit();
}

}  // namespace msprobe::dump
