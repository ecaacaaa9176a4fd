// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <utility>

#include "dump/recorder_state.h"
#include "dump/tensor_name.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/event_log.h"
#include "msprobe/file.h"
#include "msprobe/log.h"

namespace msprobe::dump {
namespace {

constexpr std::uint64_t kQueuedBytes = std::uint64_t{256} << 20;

struct OpenModule {
  const void* recorder;
  std::shared_ptr<const Frame> frame;
};
// Modules that this thread is inside of, innermost last.
thread_local std::vector<OpenModule> open_modules;

const Frame* innermost_of(const void* recorder) {
  return open_modules.empty() || open_modules.back().recorder != recorder ? nullptr
                                                                          : open_modules.back().frame.get();
}

bool contains_any(const std::vector<std::string>& parts, std::string_view name) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return name.find(part) != std::string_view::npos; });
}

}  // namespace

void Recorder::State::report_problems(std::unique_lock<std::mutex>& lock) {
  const auto to_report = std::exchange(problems, {});
  if (to_report.empty()) return;
  lock.unlock();
  for (const std::string& text : to_report) {
    msprobe::log(LogLevel::kWarning,
                 "data dump: " + text + "; training goes on, this step may be incomplete");
  }
  lock.lock();
}

std::shared_ptr<Step> Recorder::State::end_step() {
  std::shared_ptr<Step> ended = std::exchange(step, nullptr);
  if (ended) {
    ended->ending = true;
    ended->flushes = flushes_wanted;
  }
  return ended;
}

std::unique_lock<std::mutex> Recorder::State::lock_filter() const {
  return filter.keeps_all() ? std::unique_lock<std::mutex>() : std::unique_lock(mutex);
}

bool Recorder::State::can_record() {
  if (!step && last) note_late();
  return step != nullptr;
}

void Recorder::State::note_late() {
  if (std::exchange(late_reported, true)) return;
  problems.emplace_back(
      "a backward ran after the step() of its forward: what it would have recorded is lost");
}

Recorder::Recorder(Options options) : state_(std::make_unique<State>(std::move(options))) {}

Recorder::~Recorder() { end(); }

void Recorder::open(const fs::path& directory) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.step && s.step->directory == directory) return;
  const bool waits =
      s.step || s.any_unfinished([&](const Step& unfinished) { return unfinished.directory == directory; });
  s.report_problems(lock);
  lock.unlock();
  if (waits) close();
  std::erase_if(open_modules, [this](const OpenModule& module) { return module.recorder == this; });

  const bool tensors = s.options.store_tensors || !s.options.tensor_list.empty();
  // What lies in a step is the recorder's: a link there would lead its files to where somebody else wants
  // them.
  std::error_code unknown;  // what may not be looked at cannot be made either, which says why
  if (tensors && fs::is_symlink(directory / kTensorDirectory, unknown))
    throw IoError("expected a folder, found a link:", (directory / kTensorDirectory).string(), ELOOP);
  io::make_directories(tensors ? directory / kTensorDirectory : directory);
  auto step = std::make_shared<Step>();
  step->directory = directory;
  // It is in its place before the first event: a process that is killed leaves it there. The JSON files come
  // with the first flush: empty ones before would tell nothing, and a file system such as ext4 searches
  // longer for a new file the more of them were replaced in the last seconds.
  step->log = s.spares.take(directory / kLogName);
  trace::Header header{s.options.task, s.options.level, std::nullopt, s.options.framework};
  if (tensors) header.data_directory = (directory / kTensorDirectory).string();
  step->log->header(header);
  if (!s.options.deferred) step->exporter = std::make_unique<trace::JsonExporter>(std::move(header));
  lock.lock();
  s.step = s.last = step;
  s.steps.push_back(std::move(step));
  s.fault_reported = false;
  if (s.asleep) s.work.notify_one();
}

void Recorder::move(const fs::path& directory) {
  io::make_directories(directory);
  const std::lock_guard lock(state_->mutex);
  if (!state_->step || !state_->step->log->move_to(directory / kLogName))
    throw IoError("cannot be moved to:", (directory / kLogName).string(), errno);
  state_->step->directory = directory;
}

bool Recorder::is_open() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->step != nullptr;
}

void Recorder::begin_flush() {
  const std::lock_guard lock(state_->mutex);
  ++state_->flushes_wanted;
}

void Recorder::flush() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const std::uint64_t flush = ++s.flushes_wanted;
  s.work.notify_all();
  s.done.wait(lock, [&] { return s.flushes_done >= flush && s.queued_bytes == 0; });
  s.report_problems(lock);
}

bool Recorder::attach(const fs::path& path, std::string content) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (!s.options.packed || !s.step || !s.step->exporter || s.step->directory != path.parent_path())
    return false;
  s.step->attached.emplace_back(path.filename().string(), std::move(content));
  return true;
}

void Recorder::begin_close() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const std::shared_ptr<Step> step = s.end_step();
  if (!step) return;
  const auto is_earlier = [&](const Step& unfinished) {
    return unfinished.ending && &unfinished != step.get();
  };
  if (s.asleep || s.any_unfinished(is_earlier)) s.work.notify_all();
  s.done.wait(lock, [&] { return !s.any_unfinished(is_earlier); });
  s.report_problems(lock);
}

void Recorder::close() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const std::shared_ptr<Step> step = s.end_step();
  if (step && !s.busy && s.files.empty() && s.steps.front() == step) {
    s.advance(lock);  // at once: little is left to do, and waking the writer would take longer
  } else if (!s.steps.empty()) {
    s.work.notify_all();
  }
  const auto is_ending = [](const Step& unfinished) { return unfinished.ending; };
  s.done.wait(lock, [&] { return !s.any_unfinished(is_ending) && (!step || s.queued_bytes == 0); });
  s.report_problems(lock);
}

void Recorder::end() {
  close();
  state_->spares.clear();
}

StepReport Recorder::report() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last ? state_->last->report : StepReport{};
}

std::vector<StepReport> Recorder::take_finished() {
  const std::lock_guard lock(state_->mutex);
  const std::deque<StepReport> taken = std::exchange(state_->late_reports, {});
  return {taken.begin(), taken.end()};
}

void Recorder::note_output(std::string_view record_name, trace::Badness worst) {
  if (!Step::is_noted(record_name, worst)) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->step) state_->step->note_output(record_name, worst);
}

void Recorder::note_late() noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->note_late();
}

void Recorder::note_skipped(std::string_view reason) {
  const std::lock_guard lock(state_->mutex);
  if (state_->step) ++state_->step->report.skipped[std::string(reason)];
}

bool Recorder::keeps_api(std::string_view name) {
  const auto lock = state_->lock_filter();
  return state_->filter.keeps_api(name);
}

bool Recorder::keeps(std::string_view name) const {
  const auto lock = state_->lock_filter();
  return state_->filter.keeps(name);
}

namespace {

// By its name or that of a module around it.
bool lists_backward(const trace::Filter& filter, std::string_view name, const Frame* around) {
  bool is_listed = filter.lists(name);
  for (; !is_listed && around != nullptr; around = around->parent.get()) {
    is_listed = filter.lists(around->backward_name());
  }
  return is_listed;
}

}  // namespace

bool Recorder::may_keep_backward(std::string_view forward_name) const {
  const auto lock = state_->lock_filter();
  if (!lock) return true;
  const std::string name = backward_name(forward_name);
  return state_->filter.bounds(name) || lists_backward(state_->filter, name, innermost_of(this));
}

bool Recorder::begin_backward(std::string_view name, const Frame* forward_module, bool is_module) {
  const auto lock = state_->lock_filter();
  if (!lock) return true;
  trace::Filter& filter = state_->filter;
  const bool is_listed = lists_backward(filter, name, forward_module);
  filter.enter(name);
  if (is_module) return is_listed;
  const bool kept = is_listed && filter.is_in_scope();
  filter.leave(name);
  return kept;
}

bool Recorder::end_backward(std::string_view name, const Frame* forward_module) {
  const auto lock = state_->lock_filter();
  if (!lock) return true;
  trace::Filter& filter = state_->filter;
  const bool kept = filter.is_in_scope() && lists_backward(filter, name, forward_module);
  filter.leave(name);
  return kept;
}

void Recorder::open_module(std::string_view name) {
  place(name);
  open_modules.push_back({this, std::make_shared<Frame>(name, innermost())});
  const auto lock = state_->lock_filter();
  if (lock) state_->filter.open_module(name);
}

bool Recorder::close_module(std::string_view name) {
  const auto open = std::find_if(open_modules.rbegin(), open_modules.rend(), [&](const OpenModule& module) {
    return module.recorder == this && module.frame->name() == name;
  });
  const auto lock = state_->lock_filter();
  if (open != open_modules.rend()) {
    // Left open inside by an exception: the filter hears of their end as well.
    for (auto inner = open_modules.rbegin(); lock && inner != open; ++inner)
      state_->filter.close_module(inner->frame->name());
    open_modules.erase(std::prev(open.base()), open_modules.end());
  }
  return !lock || state_->filter.close_module(name);
}

std::shared_ptr<const Frame> Recorder::innermost() const {
  return innermost_of(this) != nullptr ? open_modules.back().frame : nullptr;
}

void Recorder::place(std::string_view name) {
  if (!state_->options.hierarchy) return;
  const Frame* module = innermost_of(this);
  const std::lock_guard lock(state_->mutex);
  if (!state_->can_record()) return;
  state_->step->log->construct(name, module != nullptr ? std::optional(module->name()) : std::nullopt);
}

void Recorder::place_backward(std::string_view name, const Frame* forward_module) {
  if (!state_->options.hierarchy) return;
  const std::lock_guard lock(state_->mutex);
  if (!state_->can_record()) return;
  // A module whose own backward is never recorded still stands between its parent and its children.
  std::string_view child = name;
  for (const Frame* frame = forward_module; frame != nullptr; frame = frame->parent.get()) {
    state_->step->log->construct(child, frame->backward_name());
    if (std::exchange(frame->backward_placed, true)) return;
    child = frame->backward_name();
  }
  state_->step->log->construct(child, std::nullopt);
}

trace::StackId Recorder::stack(std::span<const std::string_view> frames) {
  const std::lock_guard lock(state_->mutex);
  return state_->can_record() ? state_->step->log->stack(frames) : trace::kNoStack;
}

trace::RecordId Recorder::record(trace::RecordKind kind, std::string_view name, trace::StackId stack,
                                 bool is_recompute, std::string_view recompute_of) {
  const std::lock_guard lock(state_->mutex);
  return state_->can_record() ? state_->step->log->record(kind, name, stack, is_recompute, recompute_of) : 0;
}

void Recorder::part(trace::RecordId record, trace::Part part, std::string_view elements) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->can_record()) return;
  state_->step->log->part(record, part, elements);
}

trace::SlotId Recorder::new_slot() {
  const std::lock_guard lock(state_->mutex);
  return state_->can_record() ? state_->step->log->new_slot() : 0;
}

void Recorder::fill(trace::SlotId slot, std::string_view element) {
  const std::lock_guard lock(state_->mutex);
  if (state_->can_record()) state_->step->log->fill(slot, element);
}

void Recorder::complete_later(std::function<void(LateStep&)> complete) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->can_record()) return;
  state_->step->late.push_back(std::move(complete));
  state_->step->report.is_late = true;
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
  s.files.push_back({s.step, std::move(data_name), std::move(tensor)});
  lock.unlock();
  s.work.notify_one();
}

void Recorder::note_fault(std::string_view record_name, std::string_view what) noexcept {
  try {
    fs::path path;
    bool report = false;
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->last) return;
      path = state_->last->directory / "dump_error_info.log";
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
