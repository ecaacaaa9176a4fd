// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "msprobe/monitor_session.h"
#include "msprobe/torch_program_monitor.h"

namespace msprobe::torch_adapter {

/// Whether values are those of all processes, and process 0 writes them.
inline bool joins_peers(const ProgramMonitor::Options& options) {
  return options.gather && options.world_size > 1;
}

/// Whether one of the patterns is the name, its beginning up to a dot, or matches it with * and ?; no
/// patterns: any name is wanted.
bool is_wanted_name(const std::string& name, const std::vector<std::string>& patterns);

/// Where the numbers of ProgramMonitor go: the session, the functions of the program, alarms.jsonl.
class ProgramRecord {
 public:
  /// `options` outlives it. Without `writes` another process does it, and nothing is kept here. Throws
  /// IoError, FormatError, and InvalidArgument for options that make no sense.
  ProgramRecord(std::filesystem::path folder, const ProgramMonitor::Options& options, bool writes,
                const std::string& model);

  monitor::Session& session() noexcept { return session_; }

  /// The numbers of the step that the session has; it forgets them.
  void write(std::int64_t step);

 private:
  void tell(const std::vector<monitor::Alarm>& alarms);
  void call_back(const monitor::Alarm& alarm, const std::string& message);
  void hand_over(std::int64_t step);

  std::filesystem::path folder_;
  const ProgramMonitor::Options& options_;
  decltype(ProgramMonitor::Options::on_alarm) on_alarm_;
  decltype(ProgramMonitor::Options::on_step) on_step_;
  monitor::Session session_;
  std::size_t written_ = 0;  // alarms
  bool complained_ = false;
};

}  // namespace msprobe::torch_adapter
