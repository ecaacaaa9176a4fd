// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "dump/step_summary.h"

#include <utility>

#include "trace/json/json_text.h"

namespace msprobe::dump {

std::string summary_text(const StepReport& report, double wall_time_s) {
  std::string text;
  trace::JsonText json(text, 0);
  json.begin_object();
  json.key("wall_time_s");
  json.real(wall_time_s);
  json.key("records");
  json.unsigned_integer(report.records);
  json.key("tensors");
  json.unsigned_integer(report.tensors);
  json.key("stored_bytes");
  json.unsigned_integer(report.stored_bytes);
  for (const auto& [key, record] :
       {std::pair("first_non_finite", &report.first_non_finite), std::pair("first_nan", &report.first_nan)}) {
    json.key(key);
    if (record->empty()) {
      json.null();
    } else {
      json.text(*record);
    }
  }
  json.key("complete");
  json.boolean(!report.incomplete);
  json.key("skipped");
  json.begin_object();
  for (const auto& [reason, count] : report.skipped) {
    json.key(reason);
    json.unsigned_integer(count);
  }
  json.end_object();
  json.end_object();
  return text;
}

}  // namespace msprobe::dump
