// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// As long as it lives, this thread is inside of an observed call: what that calls is not recorded.
class InsideCall {
 public:
  InsideCall() { ++depth_; }
  ~InsideCall() { --depth_; }
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

  static bool is_so() noexcept { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};
