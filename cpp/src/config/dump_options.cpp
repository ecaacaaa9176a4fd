// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "msprobe/config.h"
#include "msprobe/dump.h"

namespace msprobe::config {

dump::Options dump_options(const Config& config) {
  const Values& section = config.section;
  const auto has = [&](std::string_view key) { return section.contains(key); };
  const auto texts = [&](std::string_view key) {
    return has(key) ? section.texts(key) : std::vector<std::string>();
  };
  dump::Options options;
  options.task = config.task;
  options.level = config.level;
  options.list = texts("list");
  options.scope = texts("scope");
  options.tensor_list = texts("tensor_list");
  if (has("data_mode")) {
    options.forward = section.has("data_mode", "forward");
    options.backward = section.has("data_mode", "backward");
    options.input = section.has("data_mode", "input");
    options.output = section.has("data_mode", "output");
  }
  options.checksum = has("summary_mode") && section.text("summary_mode") == "md5" && !config.async_dump;
  options.store_tensors = config.task == "tensor" || config.task == "overflow_check";
  options.npy = has("tensor_format") && section.text("tensor_format") == "npy";
  options.data = config.task != "structure";
  options.hierarchy = config.level != "L1";
  options.only_overflow = config.task == "overflow_check";
  if (options.only_overflow) {
    options.overflow_limit =
        static_cast<std::size_t>(std::max<std::int64_t>(section.integer("overflow_nums"), 0));
  }
  options.all_functions = section.text("api_set") == "all";
  options.deferred = section.text("json") == "deferred";
  options.packed = section.text("json") == "packed";
  options.sketch = !has("sketch") || section.flag("sketch");
  return options;
}

}  // namespace msprobe::config
