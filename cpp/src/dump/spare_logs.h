// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "msprobe/event_log.h"
#include "msprobe/trace.h"

namespace msprobe::dump {

inline constexpr std::string_view kLogName = "trace.msprobe";  // in the folder of a step

/// Logs of finished steps, which become those of other steps: a file with its memory need not be made again.
/// All methods may be called from any thread.
class SpareLogs {
 public:
  /// An empty log in this file. The first time what killed processes left in the folder of all steps goes.
  /// Throws IoError.
  std::unique_ptr<trace::EventLog> take(const std::filesystem::path& path);

  /// Keeps the log of the step in this directory; meanwhile its file lies in the folder of all steps. Removes
  /// it where enough are kept, or it cannot be moved.
  void keep(std::unique_ptr<trace::EventLog> log, const std::filesystem::path& step_directory);

  /// Removes all files.
  void clear();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<trace::EventLog>> logs_;
  std::size_t kept_ = 0;  // so far: each has a name of its own
  std::once_flag swept_;
};

}  // namespace msprobe::dump
