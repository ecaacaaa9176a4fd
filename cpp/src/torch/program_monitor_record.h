// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "msprobe/monitor.h"
#include "msprobe/torch_program_monitor.h"

namespace msprobe::torch_adapter {

/// Whether values are those of all processes, and process 0 writes them.
inline bool joins_peers(const ProgramMonitor::Options& options) {
  return options.gather && options.world_size > 1;
}

/// Where the numbers of ProgramMonitor go: the file, the rules, the functions of the program.
class ProgramRecord {
 public:
  /// `options` outlives it. Without `writes` another process does it, and series have no numbers. Throws
  /// IoError, FormatError, and InvalidArgument for rules that make no sense.
  ProgramRecord(std::filesystem::path folder, const ProgramMonitor::Options& options, bool writes,
                const std::string& model);

  /// The number of a series; one that there is already keeps its number.
  std::uint32_t add_series(const monitor::Series& series);

  /// The numbers of a step by series; what lies behind the end of `values` is absent.
  void write(std::int64_t step, std::vector<double> values);

 private:
  void learn(const std::filesystem::path& path);
  void tell(const std::vector<monitor::Alarm>& alarms);
  void call_back(const monitor::Alarm& alarm, const std::string& message);
  void hand_over(std::int64_t step, const std::vector<double>& values);

  std::filesystem::path folder_;
  const ProgramMonitor::Options& options_;
  decltype(ProgramMonitor::Options::on_alarm) on_alarm_;
  decltype(ProgramMonitor::Options::on_step) on_step_;
  monitor::Rules rules_;
  std::unique_ptr<monitor::StoreWriter> store_;
  std::vector<std::string> keys_;  // of the series, by their numbers
  std::size_t watched_ = 0;        // series that the rules know
  std::size_t written_ = 0;        // alarms
  bool complained_ = false;
};

}  // namespace msprobe::torch_adapter
