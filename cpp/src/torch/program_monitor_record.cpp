// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/program_monitor_record.h"

#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <numeric>
#include <optional>
#include <utility>

#include "msprobe/document.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/log.h"
#include "msprobe/monitor_alarms.h"
#include "msprobe/version.h"

namespace msprobe::torch_adapter {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostAlarmsOfStep = 20;
constexpr std::int64_t kStepsToLearn = 400;  // of an earlier record, which the rules see again

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%FT%T+00:00", &parts);
  return {text.data(), size};
}

fs::path free_name(const fs::path& path) {
  for (int number = 1;; ++number) {
    fs::path name = path;
    name += "." + std::to_string(number);
    if (!fs::exists(fs::symlink_status(name))) return name;
  }
}

// An earlier record keeps its numbers under another name.
void put_store_aside(const fs::path& store) {
  const fs::path kept = free_name(store);
  for (const char* const ending : {"", "-wal", "-shm"}) {
    fs::path from = store;
    fs::path to = kept;
    from += ending;
    to += ending;
    if (fs::exists(from)) fs::rename(from, to);
  }
}

// -1: the line is none of ours.
std::int64_t step_of_alarm(const std::string& line, const fs::path& path) {
  try {
    const io::Value value = io::parse_json_document(line, path);
    const io::Value* step = value.find("step");
    const auto* number = step == nullptr ? nullptr : step->as<std::int64_t>();
    return number == nullptr ? -1 : *number;
  } catch (const FormatError&) {
    return -1;
  }
}

// A training that goes on writes the alarms from its first step on anew; one that begins has none yet.
void continue_alarms(const fs::path& path, std::int64_t start) {
  if (!fs::exists(path)) return;
  if (start == 0) {
    fs::rename(path, free_name(path));
    return;
  }
  std::ifstream file(path, std::ios::binary);
  std::string kept;
  bool all = true;
  for (std::string line; std::getline(file, line);) {
    const bool is_before = step_of_alarm(line, path) < start;
    if (is_before) kept += line + "\n";
    all = all && is_before;
  }
  file.close();
  if (!all) io::write_file(path, kept);
}

fs::path store_path(const fs::path& folder, const ProgramMonitor::Options& options) {
  const bool is_alone = options.world_size == 1 || joins_peers(options);
  return folder / (is_alone ? "monitor.db" : "monitor.rank" + std::to_string(options.rank) + ".db");
}

std::unique_ptr<monitor::StoreWriter> open_store(const fs::path& folder,
                                                 const ProgramMonitor::Options& options,
                                                 const std::string& model) {
  const fs::path path = store_path(folder, options);
  monitor::StoreWriter::Options of_store;
  of_store.info = {{"msprobe", MSPROBE_VERSION},
                   {"torch", TORCH_VERSION},
                   {"model", model},
                   {"started", utc_now()},
                   {"world_size", std::to_string(options.world_size)},
                   {"rank", std::to_string(options.rank)}};
  try {
    fs::create_directories(folder);
    if (fs::exists(path)) {
      if (options.start > 0) {
        of_store.resume_at = options.start;
      } else {
        put_store_aside(path);
      }
    }
    if (options.rank == 0) continue_alarms(folder / "alarms.jsonl", options.start);
  } catch (const fs::filesystem_error& error) {
    throw IoError("cannot write", folder.string(), error.code().value());
  }
  return std::make_unique<monitor::StoreWriter>(path, std::move(of_store));
}

}  // namespace

ProgramRecord::ProgramRecord(fs::path folder, const ProgramMonitor::Options& options, bool writes,
                             const std::string& model)
    : folder_(std::move(folder)),
      options_(options),
      on_alarm_(options.on_alarm),
      on_step_(options.on_step),
      rules_(options.rules ? *options.rules : monitor::default_rules()) {
  if (!writes) return;
  store_ = open_store(folder_, options, model);
  if (store_->last_step()) learn(store_path(folder_, options));
}

// The rules look at the end of the earlier record, as if they had been there.
void ProgramRecord::learn(const fs::path& path) {
  try {
    const monitor::StoreReader reader(path);
    for (const monitor::Series& one : reader.series()) add_series(one);
    std::vector<std::uint32_t> all(keys_.size());
    std::iota(all.begin(), all.end(), 0);
    const std::int64_t last = reader.extent().last;
    const std::int64_t first = std::max<std::int64_t>(0, last - kStepsToLearn * options_.every);
    const auto past = reader.values(all, first, last);
    for (; watched_ < keys_.size(); ++watched_) rules_.add_series(keys_[watched_]);
    std::vector<double> values(keys_.size());
    for (std::size_t row = 0; row < past.steps.size(); ++row) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = past.numbers[i][row];
      rules_.check(past.steps[row], values);
    }
  } catch (const Error& error) {
    log(LogLevel::kWarning, std::string("monitor: the rules begin anew: ") + error.what());
  }
}

std::uint32_t ProgramRecord::add_series(const monitor::Series& series) {
  if (!store_) return 0;
  const std::uint32_t number = store_->add_series(series);
  if (keys_.size() <= number) keys_.resize(number + 1);
  keys_[number] = series.key();
  return number;
}

void ProgramRecord::write(std::int64_t step, std::vector<double> values) {
  values.resize(std::max(values.size(), keys_.size()), monitor::absent());
  store_->append(step, values);
  if (on_step_) hand_over(step, values);
  for (; watched_ < keys_.size(); ++watched_) rules_.add_series(keys_[watched_]);
  tell(rules_.check(step, values));
}

void ProgramRecord::hand_over(std::int64_t step, const std::vector<double>& values) {
  std::map<std::string, double> numbers;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (!monitor::is_absent(values[i])) numbers.emplace(keys_[i], values[i]);
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
    const std::string& rule = rules_.rules()[alarm.rule].name;
    const std::string message = monitor::alarm_message(alarm, rule, keys_[alarm.series]);
    if (i == 0) first = message;
    if (written_ < options_.most_alarms) {
      ++written_;
      lines += monitor::alarm_line(alarm, rule, keys_[alarm.series], utc_now(), options_.rank);
    }
    if (on_alarm_) call_back(alarm, message);
  }
  if (alarms.size() > 1) first += "; " + std::to_string(alarms.size() - 1) + " other series, too";
  log(LogLevel::kWarning, first);
  std::ofstream file(folder_ / "alarms.jsonl", std::ios::binary | std::ios::app);
  file << lines << std::flush;
  if (!file && !std::exchange(complained_, true)) {
    log(LogLevel::kWarning, "cannot write " + (folder_ / "alarms.jsonl").string() + "; training goes on");
  }
}

void ProgramRecord::call_back(const monitor::Alarm& alarm, const std::string& message) {
  try {
    on_alarm_(alarm, keys_[alarm.series], message);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, std::string("monitor: on_alarm: ") + error.what() + ": it is not called again");
    on_alarm_ = nullptr;
  }
}

}  // namespace msprobe::torch_adapter
