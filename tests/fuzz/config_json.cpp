// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "config_file.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  msprobe::fuzz::read_as_config(data, size, ".json");
  return 0;
}
