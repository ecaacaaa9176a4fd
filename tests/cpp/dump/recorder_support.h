// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What tests of the recorder share.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contains.h"
#include "log_capture.h"
#include "msprobe/dump.h"
#include "temp_dir.h"

namespace msprobe::test {

inline std::string one_integer(std::int64_t value) {
  trace::ElementWriter out;
  out.integer(value);
  return std::string(out.bytes());
}

inline void record_call(dump::Recorder& recorder, const std::string& name, std::int64_t value = 1) {
  recorder.part(recorder.record(trace::RecordKind::kApiForward, name), trace::Part::kInputArgs,
                one_integer(value));
}

inline dump::StoredTensor stored(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  dump::StoredTensor tensor;
  tensor.data = owner->data();
  tensor.shape = {static_cast<std::int64_t>(owner->size())};
  tensor.owner = std::move(owner);
  return tensor;
}

inline std::string construct_of(const std::filesystem::path& directory) {
  return read_bytes(directory / "construct.json");
}

inline const std::vector<std::string> kFiles{"construct.json", "dump.json", "stack.json", "summary.json"};

inline std::filesystem::path rank_of(const TempDir& folder, int step) {
  return folder / ("dump/step" + std::to_string(step) + "/rank");
}

}  // namespace msprobe::test
