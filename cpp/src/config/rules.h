// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.h"

namespace msprobe::config {

// ---- What the rows of the table cannot say: how keys go together. Each is called when all values of the
// ---- section are checked one by one, and throws by Section::fail().

using Rules = void (*)(Section& section, const Values& top);

/// The top level, for the task that is chosen.
void check_top(Section& top, const Task& task);

/// Tasks statistics, tensor, structure and overflow_check.
void check_dump(Section& section, const Values& top);

void check_free_benchmark(Section& section, const Values& top);

/// The monitor, one of its rules, and what its alarms do.
void check_monitor(Section& section, const Values& top);
void check_monitor_rule(Section& section, const Values& top);
void check_monitor_alarm(Section& section, const Values& top);

/// The accuracy check of operators.
void check_run_ut(Section& section, const Values& top);

/// Of a section, or an object inside ("monitor.alarm"); null: there are none.
Rules rules_of(std::string_view section);

}  // namespace msprobe::config
