// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the training threads and the writer of a recorder share: the steps, and what is to be done for them.
/// recorder.cpp is the side of the training threads, recorder_writer.cpp that of the writer.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dump/spare_logs.h"
#include "msprobe/dump.h"
#include "msprobe/event_log.h"
#include "msprobe/trace.h"

namespace msprobe::dump {

namespace fs = std::filesystem;

inline constexpr const char* kTensorDirectory = "dump_tensor_data";

std::uint64_t byte_count(const StoredTensor& tensor);

/// One step: its events, and what has been made of them.
struct Step {
  fs::path directory;
  std::unique_ptr<trace::EventLog> log;
  std::unique_ptr<trace::JsonExporter>
      exporter;  // null: the log itself is the result; used by whoever is busy
  StepReport report;
  std::chrono::steady_clock::time_point opened = std::chrono::steady_clock::now();
  std::size_t formatted = 0;                         // bytes of the log that the writer has formatted
  std::size_t written = 0;                           // bytes of the log that the JSON files hold
  bool ending = false;                               // the step is closed
  bool has_fill = false;                             // a call wrote an infinity that it was given
  std::uint64_t flushes = 0;                         // wanted before that: done when the step is
  std::vector<std::function<void(LateStep&)>> late;  // values that are on their way
  std::vector<std::pair<std::string, std::string>> attached;  // further files of a packed step: name, content

  /// Whether note_output() is to be told of an output. Needs no mutex.
  static bool is_noted(std::string_view record_name, trace::Badness worst);
  void note_output(std::string_view record_name, trace::Badness worst);
};

struct Recorder::State {
  struct File {
    std::shared_ptr<Step> step;
    std::string name;
    StoredTensor tensor;
  };

  explicit State(Options given);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // ---- shared by all threads, under `mutex`

  const Options options;
  mutable std::mutex mutex;
  trace::Filter filter;
  std::shared_ptr<Step> step;  // that is open; null: none
  std::shared_ptr<Step> last;  // the latest, open or closed
  std::deque<std::shared_ptr<Step>>
      steps;  // that the writer has not finished: those ending, then the open one
  SpareLogs spares;
  std::deque<File> files;
  std::uint64_t queued_bytes = 0;
  std::uint64_t flushes_wanted = 0;
  std::uint64_t flushes_done = 0;
  bool busy = false;                            // somebody does the work of the writer
  bool asleep = false;                          // the writer looks for nothing until it is woken
  std::vector<std::shared_ptr<Step>> finished;  // whose memory the writer gives back
  std::deque<StepReport> late_reports;          // of finished steps
  bool ending = false;
  std::vector<std::string> problems;  // to be reported by the next call of a training thread
  bool fault_reported = false;
  bool late_reported = false;
  std::condition_variable work;
  std::condition_variable done;
  std::thread writer;

  // ---- the writer. close() does its work, too, when it finds it idle.

  /// Does what is to be done for the oldest step, with the mutex let go of meanwhile.
  void advance(std::unique_lock<std::mutex>& lock);

  // ---- training threads

  void report_problems(std::unique_lock<std::mutex>& lock);

  /// No step is open any more; the writer has to finish this one. Null: none was open.
  std::shared_ptr<Step> end_step();

  template <typename IsIt>
  bool any_unfinished(IsIt is_it) const {
    return std::any_of(steps.begin(), steps.end(), [&](const auto& of) { return is_it(*of); });
  }

  /// Keeps what passes the filter from changing, unless everything passes: then nothing of it ever changes.
  std::unique_lock<std::mutex> lock_filter() const;

  /// True when a step is open; otherwise what happened comes too late.
  bool can_record();
  void note_late();

 private:
  struct Busy;
  class Late;

  void run();
  bool has_work() const;
  bool wants_writer() const;
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void forget_finished(std::unique_lock<std::mutex>& lock);
  /// Files of a step that has ended.
  void write_end(Step& of, const StepReport& report);
  void complete_late(Step& of, std::unique_lock<std::mutex>& lock);
  void finish(std::shared_ptr<Step> of, std::unique_lock<std::mutex>& lock);
  void write_next_file(std::unique_lock<std::mutex>& lock);
  void write_tensor(const File& file) const;
  template <typename Work>
  void attempt(Step& of, Work work_to_do);
};

}  // namespace msprobe::dump
