// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Alarms as people and programs read them (docs/formats/monitor_store.md).

#include <string>

#include "msprobe/export.h"
#include "msprobe/monitor.h"

namespace msprobe::monitor {

/// "step 12: loss is 30, expected 2.1 (rule spike)"
MSPROBE_API std::string alarm_message(const Alarm& alarm, const std::string& rule, const std::string& series);

/// The line of alarms.jsonl, with its end. `time`: UTC, ISO 8601. `rank`: of the process.
MSPROBE_API std::string alarm_line(const Alarm& alarm, const std::string& rule, const std::string& series,
                                   const std::string& time, int rank);

}  // namespace msprobe::monitor
