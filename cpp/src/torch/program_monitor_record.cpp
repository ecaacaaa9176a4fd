// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/program_monitor_record.h"

#include <fnmatch.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/log.h"
#include "msprobe/monitor_alarms.h"
#include "msprobe/version.h"

namespace msprobe::torch_adapter {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostAlarmsOfStep = 20;

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%FT%T+00:00", &parts);
  return {text.data(), size};
}

fs::path store_path(const fs::path& folder, const ProgramMonitor::Options& options) {
  const bool is_alone = options.world_size == 1 || joins_peers(options);
  return folder / (is_alone ? "monitor.db" : "monitor.rank" + std::to_string(options.rank) + ".db");
}

}  // namespace

bool is_wanted_name(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || name.starts_with(pattern + ".");
         });
}

ProgramRecord::ProgramRecord(fs::path folder, const ProgramMonitor::Options& options, bool writes,
                             const std::string& model)
    : folder_(std::move(folder)),
      options_(options),
      on_alarm_(options.on_alarm),
      on_step_(options.on_step),
      session_({options.metrics, options.levels, options.rules ? *options.rules : monitor::default_rules(),
                options.every}) {
  if (!writes) return;
  session_.open(store_path(folder_, options), options.start,
                {{"msprobe", MSPROBE_VERSION},
                 {"torch", TORCH_VERSION},
                 {"model", model},
                 {"started", utc_now()},
                 {"world_size", std::to_string(options.world_size)},
                 {"rank", std::to_string(options.rank)}});
  if (options.rank == 0) monitor::continue_alarms(folder_ / "alarms.jsonl", options.start);
}

void ProgramRecord::write(std::int64_t step) {
  session_.append(step);
  if (on_step_) hand_over(step);
  tell(session_.check(step));
  session_.clear();
}

void ProgramRecord::hand_over(std::int64_t step) {
  std::map<std::string, double> numbers;
  const std::vector<double>& values = session_.numbers();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!monitor::is_absent(values[i])) numbers.emplace(session_.keys()[i], values[i]);
  }
  try {
    on_step_(step, numbers);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, std::string("monitor: on_step: ") + error.what() + ": it is not called again");
    on_step_ = nullptr;
  }
}

void ProgramRecord::tell(const std::vector<monitor::Alarm>& alarms) {
  if (alarms.empty()) return;
  std::string lines;
  std::string first;
  for (std::size_t i = 0; i < std::min(alarms.size(), kMostAlarmsOfStep); ++i) {
    const monitor::Alarm& alarm = alarms[i];
    const std::string& rule = session_.rules()[alarm.rule].name;
    const std::string message = monitor::alarm_message(alarm, rule, session_.keys()[alarm.series]);
    if (i == 0) first = message;
    if (written_ < options_.most_alarms) {
      ++written_;
      lines += monitor::alarm_line(alarm, rule, session_.keys()[alarm.series], utc_now(), options_.rank);
    }
    if (on_alarm_) call_back(alarm, message);
  }
  if (alarms.size() > 1) first += "; " + std::to_string(alarms.size() - 1) + " other series, too";
  log(LogLevel::kWarning, first);
  try {
    io::append_text(folder_ / "alarms.jsonl", lines);
  } catch (const IoError& error) {
    if (!std::exchange(complained_, true)) {
      log(LogLevel::kWarning, std::string(error.what()) + "; training goes on");
    }
  }
}

void ProgramRecord::call_back(const monitor::Alarm& alarm, const std::string& message) {
  try {
    on_alarm_(alarm, session_.keys()[alarm.series], message);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, std::string("monitor: on_alarm: ") + error.what() + ": it is not called again");
    on_alarm_ = nullptr;
  }
}

}  // namespace msprobe::torch_adapter
