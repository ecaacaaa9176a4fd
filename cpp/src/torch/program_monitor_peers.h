// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/monitor_frame.h"
#include "msprobe/torch_program_monitor.h"
#include "torch/program_monitor_record.h"

namespace msprobe::torch_adapter {

/// Puts together what the processes of a training have measured. Each of them says at every recorded step
/// what it has, or once that it has ended: so no one waits for another in vain.
class ProgramPeers {
 public:
  /// `options` and `series` outlive it.
  ProgramPeers(const ProgramMonitor::Options& options, monitor::Session& series)
      : options_(options), series_(series), labels_(static_cast<std::size_t>(options.world_size)) {}

  /// The rows of all, in `frame` of process 0; returns the mean loss of those that have one. Throws Error
  /// when another has ended, is at another step, or says what is not understood, and what
  /// Options::gather throws; the monitor ends then.
  std::optional<double> join(std::int64_t step, monitor::Frame& frame, std::optional<double> loss);

  /// Tells the others that this process has ended, unless they know. Never throws.
  void leave(std::int64_t step) noexcept;

 private:
  std::string message(std::int64_t step, const monitor::Frame& frame, std::optional<double> loss);
  void add_rows(std::string_view bytes, std::vector<std::uint32_t>& labels, monitor::Frame& frame);

  const ProgramMonitor::Options& options_;
  monitor::Session& series_;
  std::vector<std::vector<std::uint32_t>> labels_;  // of this process, by process and its label
  std::size_t told_ = 0;                            // labels of this process that all know
  bool left_ = false;
};

}  // namespace msprobe::torch_adapter
