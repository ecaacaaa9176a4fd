// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdio>

#include "msprobe/monitor_alarms.h"
#include "trace/json/json_text.h"

namespace msprobe::monitor {
namespace {

std::string short_number(double value) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.6g", value);
  return {text.data(), static_cast<std::size_t>(size)};
}

// JSON has no NaN and no infinity: words stand for them.
void append_number_or_word(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    trace::append_json_real(out, value);
  }
}

}  // namespace

std::string alarm_message(const Alarm& alarm, const std::string& rule, const std::string& series) {
  std::string message =
      "step " + std::to_string(alarm.step) + ": " + series + " is " + short_number(alarm.value);
  if (!std::isnan(alarm.expected)) message += ", expected " + short_number(alarm.expected);
  return message + " (rule " + rule + ")";
}

std::string alarm_line(const Alarm& alarm, const std::string& rule, const std::string& series,
                       const std::string& time, int rank) {
  std::string out = "{\"time\": ";
  trace::append_json_string(out, time);
  out += ", \"step\": " + std::to_string(alarm.step) + ", \"rule\": ";
  trace::append_json_string(out, rule);
  out += ", \"series\": ";
  trace::append_json_string(out, series);
  out += ", \"value\": ";
  append_number_or_word(out, alarm.value);
  out += ", \"expected\": ";
  if (std::isnan(alarm.expected)) {
    out += "null";
  } else {
    append_number_or_word(out, alarm.expected);
  }
  out += ", \"score\": ";
  append_number_or_word(out, alarm.score);
  out += ", \"message\": ";
  trace::append_json_string(out, alarm_message(alarm, rule, series));
  return out + ", \"rank\": " + std::to_string(rank) + "}\n";
}

}  // namespace msprobe::monitor
