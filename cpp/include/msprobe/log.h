// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "msprobe/export.h"

namespace msprobe {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Receives one event per call: a single line without a trailing newline.
using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// Replaces the one log sink of the process; an empty function silences the library. The library prints
/// nothing itself: without a sink, events are dropped. Thread-safe. Background threads of the library never
/// call the sink; what they have to say is handed to the next call made from a thread of the caller. The
/// Python package sends all events to `logging.getLogger("msprobe")`.
MSPROBE_API void set_log_sink(LogSink sink);

/// Sends one event to the sink. An exception from the sink is swallowed: logging never breaks the job.
MSPROBE_API void log(LogLevel level, std::string_view message) noexcept;

}  // namespace msprobe
