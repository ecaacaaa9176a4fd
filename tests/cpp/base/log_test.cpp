// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/log.h"

#include <stdexcept>
#include <string>

#include "catch.h"

using namespace msprobe;

TEST_CASE("log: events reach the sink, and none without one") {
  std::string seen;
  set_log_sink(
      [&](LogLevel level, std::string_view text) { seen += std::to_string(int(level)) + std::string(text); });
  log(LogLevel::kWarning, "careful");
  CHECK(seen == "2careful");
  set_log_sink({});
  log(LogLevel::kError, "lost");
  CHECK(seen == "2careful");
}

TEST_CASE("log: an exception of the sink does not reach the caller") {
  set_log_sink([](LogLevel, std::string_view) { throw std::runtime_error("sink"); });
  CHECK_NOTHROW(log(LogLevel::kInfo, "text"));
  set_log_sink({});
}
