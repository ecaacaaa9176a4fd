// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msprobe::test {

/// The folder of a small recorded step.
inline const std::string kSample = MSPROBE_TEST_DATA "/trace/sample/";

}  // namespace msprobe::test
