// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "dump/spare_logs.h"

#include <string>
#include <utility>

#include "io/file/temporaries.h"
#include "msprobe/event_log.h"
#include "trace/log/mapping_guard.h"

namespace msprobe::dump {
namespace {

// For a step that begins while the one before is being finished.
constexpr std::size_t kMostSpares = 2;

std::filesystem::path folder_of_steps(const std::filesystem::path& step_directory) {
  return step_directory.parent_path().parent_path();
}

}  // namespace

std::unique_ptr<trace::EventLog> SpareLogs::take(const std::filesystem::path& path) {
  std::call_once(
      swept_, [&] { io::remove_stale_temporaries(folder_of_steps(path.parent_path()), {kLogName}, false); });
  std::unique_ptr<trace::EventLog> log;
  {
    const std::lock_guard lock(mutex_);
    if (!logs_.empty()) {
      log = std::move(logs_.back());
      logs_.pop_back();
    }
  }
  if (log && !trace::was_cut(log->committed()) && log->move_to(path)) return log;
  if (log) log->remove();  // its folder was removed, or the disk was full, or somebody cut it
  return std::make_unique<trace::EventLog>(path);
}

void SpareLogs::keep(std::unique_ptr<trace::EventLog> log, const std::filesystem::path& step_directory) {
  std::unique_lock lock(mutex_);
  const std::string name = io::temporary_name(kLogName, ++kept_);
  const bool enough = logs_.size() >= kMostSpares;
  lock.unlock();
  if (enough || !log->move_to(folder_of_steps(step_directory) / name)) {
    log->remove();
    return;
  }
  log->rewind();
  lock.lock();
  logs_.push_back(std::move(log));
}

void SpareLogs::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& log : logs_) log->remove();
  logs_.clear();
}

}  // namespace msprobe::dump
