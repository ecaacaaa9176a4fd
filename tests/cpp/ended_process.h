// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "catch.h"

namespace msprobe::test {

/// The number of a process that has ended.
inline pid_t ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  return child;
}

}  // namespace msprobe::test
