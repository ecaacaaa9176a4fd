// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/log.h"

#include <memory>
#include <mutex>
#include <utility>

namespace msprobe {
namespace {

// Never destroyed: a log call during program exit must still find it.
struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogSink> function;
};

Sink& the_sink() {
  static auto* sink = new Sink;
  return *sink;
}

}  // namespace

void set_log_sink(LogSink sink) {
  auto replacement = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  {
    const std::lock_guard lock(the_sink().mutex);
    the_sink().function.swap(replacement);
  }
  // The old sink is destroyed here, outside the lock: its destructor may run Python code.
}

void log(LogLevel level, std::string_view message) noexcept {
  try {
    std::shared_ptr<const LogSink> function;
    {
      const std::lock_guard lock(the_sink().mutex);
      function = the_sink().function;
    }
    if (function) (*function)(level, message);
  } catch (...) {  // logging never breaks the job
  }
}

}  // namespace msprobe
