// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "temp_dir.h"

namespace msprobe::test {

/// JSON of a tensor; `max` is a number or one of the words NaN, Infinity.
inline std::string tensor(std::string_view max) {
  return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":)" + std::string(max) +
         R"(,"Min":0.0,"Mean":0.0,"Norm":0.0,"requires_grad":false})";
}
inline std::string good() { return tensor("1.0"); }
inline std::string bad() { return tensor("NaN"); }
inline std::string value(std::string_view type, std::string_view json) {
  return R"({"type":")" + std::string(type) + R"(","value":)" + std::string(json) + "}";
}
inline std::string group(std::string_view ranks) {
  return R"({"type":"torch.ProcessGroup","group_ranks":[)" + std::string(ranks) + R"(],"group_id":"0"})";
}

/// Records of one rank, as they stand in dump.json.
class RankDump {
 public:
  RankDump& call(std::string_view name, std::string_view args, std::string_view output,
                 std::string_view kwargs = "") {
    return raw(name, R"({"input_args":[)" + std::string(args) + R"(],"input_kwargs":{)" +
                         std::string(kwargs) + R"(},"output":[)" + std::string(output) + "]}");
  }
  RankDump& raw(std::string_view name, std::string_view json) {
    records_.push_back("\"" + std::string(name) + "\":" + std::string(json));
    return *this;
  }
  std::string json() const {
    std::string text =
        R"({"task":"statistics","level":"L1","framework":"pytorch","dump_data_dir":null,"data":{)";
    for (std::size_t i = 0; i < records_.size(); ++i) text += (i > 0 ? "," : "") + records_[i];
    return text + "}}";
  }
  void write(const std::filesystem::path& directory) const {
    write_bytes(directory / "dump.json", json());
    write_bytes(directory / "stack.json", "{}");
    write_bytes(directory / "construct.json", "{}");
  }

 private:
  std::vector<std::string> records_;
};

}  // namespace msprobe::test
