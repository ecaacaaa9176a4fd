// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/log.h"

namespace msprobe::test {

/// Collects what the library logs while it lives, from any thread.
class LogCapture {
 public:
  LogCapture() {
    set_log_sink([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      logged_.emplace_back(level, message);
    });
  }
  ~LogCapture() { set_log_sink({}); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<std::string> messages() const { return from(LogLevel::kDebug); }
  std::vector<std::string> warnings() const { return from(LogLevel::kWarning); }
  std::vector<LogLevel> levels() const {
    const std::lock_guard lock(mutex_);
    std::vector<LogLevel> levels;
    for (const auto& [level, message] : logged_) levels.push_back(level);
    return levels;
  }

 private:
  std::vector<std::string> from(LogLevel least) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> messages;
    for (const auto& [level, message] : logged_) {
      if (level >= least) messages.push_back(message);
    }
    return messages;
  }

  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> logged_;
};

}  // namespace msprobe::test
