// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

#include "dump/tensor_name.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/log.h"
#include "msprobe/pt_file.h"
#include "msprobe/tensor_file.h"

namespace msprobe::dump {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kQueuedBytes = std::uint64_t{256} << 20;
// So many bytes of events wake the thread that formats them: often enough to leave little for stop().
constexpr std::size_t kFormatEvery = std::size_t{128} << 10;
constexpr const char* kLogName = "trace.msprobe";
constexpr const char* kTensorDirectory = "dump_tensor_data";

struct OpenModule {
  const void* recorder;
  std::shared_ptr<const Frame> frame;
};
// Modules that this thread is inside of, innermost last.
thread_local std::vector<OpenModule> open_modules;

std::uint64_t byte_count(const StoredTensor& tensor) {
  std::uint64_t count = element_size(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

bool contains_any(const std::vector<std::string>& parts, std::string_view name) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return name.find(part) != std::string_view::npos; });
}

}  // namespace

struct Recorder::State {
  struct File {
    fs::path path;
    StoredTensor tensor;
  };

  explicit State(Options given) : options(std::move(given)), filter(options.list, options.scope) {
    writer = std::thread([this] { run(); });
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    work.notify_all();
    writer.join();
  }

  // ---- shared by all threads, under `mutex`

  const Options options;
  mutable std::mutex mutex;
  trace::Filter filter;
  std::unique_ptr<trace::EventLog> log;
  std::unique_ptr<trace::JsonExporter> exporter;  // used by the writer alone while a step is open
  std::unordered_set<std::string> placed;         // names that construct.json has
  fs::path directory;
  std::deque<File> files;
  std::uint64_t queued_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::size_t formatted = 0;  // bytes of the log that the writer has seen
  std::size_t written = 0;    // bytes of the log that the JSON files hold
  std::uint64_t flushes_wanted = 0;
  std::uint64_t flushes_done = 0;
  bool ending = false;
  bool busy = false;    // the writer has a file in its hands
  std::string problem;  // of the writer, for the next call of a training thread
  bool problem_reported = false;
  bool fault_reported = false;
  bool late_reported = false;
  StepReport last_report;
  std::condition_variable work;
  std::condition_variable done;
  std::thread writer;

  // ---- the writer

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock,
                [&] { return ending || !files.empty() || flushes_done < flushes_wanted || has_text(); });
      if (!files.empty()) {
        write_next_file(lock);
      } else if (has_text()) {
        format(lock);
      } else if (flushes_done < flushes_wanted) {
        finish_flush(lock);
      } else if (ending) {
        return;
      }
    }
  }

  bool has_text() const {
    if (!log || !exporter) return false;
    const std::size_t size = log->committed().size();
    return size >= formatted + kFormatEvery || (flushes_done < flushes_wanted && size > formatted);
  }

  void write_next_file(std::unique_lock<std::mutex>& lock) {
    File file = std::move(files.front());
    files.pop_front();
    busy = true;
    lock.unlock();
    const std::uint64_t bytes = byte_count(file.tensor);
    attempt([&] { write_tensor(file); });
    file.tensor = {};  // its memory goes back before another tensor may queue
    lock.lock();
    busy = false;
    queued_bytes -= bytes;
    stored_bytes += bytes;
    done.notify_all();
  }

  void write_tensor(const File& file) const {
    const TensorView view{file.tensor.data, file.tensor.dtype, file.tensor.shape, {}};
    if (!options.npy) {
      io::write_pt(file.path, view);
      return;
    }
    io::AtomicFile out(file.path);
    out.write(io::npy_header(view.dtype, false, view.shape));
    out.write(view.data, byte_count(file.tensor));
    out.commit();
  }

  void format(std::unique_lock<std::mutex>& lock) {
    const std::string_view bytes = log->committed();
    lock.unlock();
    attempt([&] { exporter->consume(bytes); });
    lock.lock();
    formatted = bytes.size();
  }

  void finish_flush(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t flush = flushes_wanted;
    if (exporter && written != formatted) {
      const fs::path target = directory;
      lock.unlock();
      attempt([&] { exporter->write(target); });
      lock.lock();
      written = formatted;
    }
    flushes_done = flush;
    done.notify_all();
  }

  template <typename Work>
  void attempt(Work work_to_do) {
    try {
      work_to_do();
    } catch (const std::exception& e) {
      const std::lock_guard lock(mutex);
      if (problem.empty()) problem = e.what();
    }
  }

  // ---- training threads

  void report_problem(std::unique_lock<std::mutex>& lock) {
    if (problem.empty() || problem_reported) return;
    problem_reported = true;
    const std::string text = problem;
    lock.unlock();
    msprobe::log(LogLevel::kWarning,
                 "data dump: " + text + "; training goes on, this step may be incomplete");
    lock.lock();
  }

  void flush(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t flush = ++flushes_wanted;
    work.notify_all();
    done.wait(lock, [&] { return flushes_done >= flush && files.empty() && !busy; });
    if (exporter) {
      last_report = {exporter->record_count(), exporter->tensor_count(), stored_bytes,
                     exporter->first_non_finite()};
    }
    report_problem(lock);
  }

  // Places `name` once; false when it has its place already.
  bool construct(std::string_view name, const std::string* parent) {
    if (!placed.emplace(name).second) return false;
    log->construct(name, parent != nullptr ? std::optional<std::string_view>(*parent) : std::nullopt);
    return true;
  }

  // True when a step is open; otherwise what happened comes too late.
  bool can_record() {
    if (log) return true;
    if (!late_reported) {
      late_reported = true;
      if (problem.empty()) problem = "a backward ran after step(): what it would have recorded is lost";
    }
    return false;
  }

  void wake_for_text() {
    if (log->committed().size() >= formatted + kFormatEvery) work.notify_one();
  }
};

std::string backward_name(std::string_view forward_name) {
  constexpr std::string_view kForward = ".forward";
  std::string result(forward_name);
  const std::size_t at = result.rfind(kForward);
  if (at != std::string::npos) result.replace(at, kForward.size(), ".backward");
  return result;
}

Recorder::Recorder(Options options) : state_(std::make_unique<State>(std::move(options))) {}

Recorder::~Recorder() { close(); }

const Options& Recorder::options() const noexcept { return state_->options; }

void Recorder::open(const fs::path& directory) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    if (s.log && s.directory == directory) return;
  }
  close();
  io::make_directories(directory);
  const bool tensors = s.options.store_tensors || !s.options.tensor_list.empty();
  if (tensors) io::make_directories(directory / kTensorDirectory);
  trace::Header header{s.options.task, s.options.level, std::nullopt};
  if (tensors) header.data_directory = (directory / kTensorDirectory).string();
  auto exporter = std::make_unique<trace::JsonExporter>(std::move(header));
  if (!s.options.deferred) exporter->write(directory);
  auto log = std::make_unique<trace::EventLog>(directory / kLogName);

  const std::lock_guard lock(s.mutex);
  s.directory = directory;
  s.log = std::move(log);
  if (!s.options.deferred) s.exporter = std::move(exporter);
  s.placed.clear();
  s.formatted = s.written = 0;
  s.stored_bytes = 0;
  s.last_report = {};
  s.problem.clear();
  s.problem_reported = s.fault_reported = s.late_reported = false;
}

bool Recorder::is_open() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->log != nullptr;
}

void Recorder::flush() {
  std::unique_lock lock(state_->mutex);
  state_->flush(lock);
}

void Recorder::close() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.flush(lock);
  if (!s.log) return;
  // A step whose files could not be written keeps its log: export can still make them.
  if (s.options.deferred || !s.problem.empty()) {
    s.log->close();
  } else {
    s.log->remove();
  }
  s.log.reset();
  s.exporter.reset();
}

StepReport Recorder::report() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last_report;
}

bool Recorder::keeps_api(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  return state_->filter.keeps_api(name);
}

bool Recorder::keeps(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->filter.keeps(name);
}

void Recorder::open_module(std::string_view name) {
  place(name);
  open_modules.push_back(
      {this, std::make_shared<Frame>(Frame{std::string(name), backward_name(name), innermost()})});
  const std::lock_guard lock(state_->mutex);
  if (!state_->filter.keeps_all()) state_->filter.open_module(name);
}

bool Recorder::close_module(std::string_view name) {
  const auto open = std::find_if(open_modules.rbegin(), open_modules.rend(), [&](const OpenModule& module) {
    return module.recorder == this && module.frame->name == name;
  });
  if (open != open_modules.rend()) open_modules.erase(std::prev(open.base()), open_modules.end());
  const std::lock_guard lock(state_->mutex);
  return state_->filter.keeps_all() || state_->filter.close_module(name);
}

std::shared_ptr<const Frame> Recorder::innermost() const {
  if (open_modules.empty() || open_modules.back().recorder != this) return nullptr;
  return open_modules.back().frame;
}

void Recorder::place(std::string_view name) {
  if (!state_->options.hierarchy) return;
  const auto module = innermost();
  const std::lock_guard lock(state_->mutex);
  if (state_->can_record()) state_->construct(name, module ? &module->name : nullptr);
}

void Recorder::place_backward(std::string_view name, const Frame* forward_module) {
  if (!state_->options.hierarchy) return;
  const std::lock_guard lock(state_->mutex);
  if (!state_->can_record()) return;
  // A module whose own backward is never recorded still stands between its parent and its children.
  std::string child(name);
  for (const Frame* frame = forward_module;; frame = frame->parent.get()) {
    if (!state_->construct(child, frame != nullptr ? &frame->backward_name : nullptr)) return;
    if (frame == nullptr) return;
    child = frame->backward_name;
  }
}

trace::StackId Recorder::stack(std::span<const std::string_view> frames) {
  const std::lock_guard lock(state_->mutex);
  return state_->can_record() ? state_->log->stack(frames) : trace::kNoStack;
}

trace::RecordId Recorder::record(trace::RecordKind kind, std::string_view name, trace::StackId stack,
                                 bool is_recompute) {
  const std::lock_guard lock(state_->mutex);
  return state_->can_record() ? state_->log->record(kind, name, stack, is_recompute) : 0;
}

void Recorder::part(trace::RecordId record, trace::Part part, std::string_view elements) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->can_record()) return;
  state_->log->part(record, part, elements);
  state_->wake_for_text();
}

trace::SlotId Recorder::new_slot() {
  const std::lock_guard lock(state_->mutex);
  return state_->can_record() ? state_->log->new_slot() : 0;
}

void Recorder::fill(trace::SlotId slot, std::string_view element) {
  const std::lock_guard lock(state_->mutex);
  if (state_->can_record()) state_->log->fill(slot, element);
}

bool Recorder::stores(std::string_view record_name) const {
  return state_->options.store_tensors || contains_any(state_->options.tensor_list, record_name);
}

std::string Recorder::data_name(std::string_view record_name, std::string_view position) const {
  return tensor_file_name(record_name, position, state_->options.npy ? ".npy" : ".pt");
}

void Recorder::store(std::string data_name, StoredTensor tensor) {
  State& s = *state_;
  const std::uint64_t bytes = byte_count(tensor);
  std::unique_lock lock(s.mutex);
  if (!s.can_record()) return;
  s.done.wait(lock, [&] { return s.queued_bytes == 0 || s.queued_bytes + bytes <= kQueuedBytes; });
  s.queued_bytes += bytes;
  s.files.push_back({s.directory / kTensorDirectory / data_name, std::move(tensor)});
  lock.unlock();
  s.work.notify_one();
}

void Recorder::note_fault(std::string_view record_name, std::string_view what) noexcept {
  try {
    fs::path path;
    bool report = false;
    {
      const std::lock_guard lock(state_->mutex);
      path = state_->directory / "dump_error_info.log";
      report = !std::exchange(state_->fault_reported, true);
    }
    append_fault(path, record_name, what);
    if (report) {
      msprobe::log(LogLevel::kWarning, "data dump: " + std::string(record_name) + " is not recorded: " +
                                           std::string(what) + "; more of this step in " + path.string());
    }
  } catch (const std::exception&) {
    // Nowhere left to say it; training goes on.
  }
}

}  // namespace msprobe::dump
