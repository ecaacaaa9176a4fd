// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a file of torch.save says, as parameters and settings.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/checkpoint.h"
#include "msprobe/pt_file.h"

namespace msprobe::checkpoint {

/// Tensors in the order of the file, with the names of the containers around them.
struct Collected {
  std::vector<Parameter> parameters;
  std::vector<LeftOut> left_out;
};

/// Takes all tensors in `value`, which may be a tensor, a dict, a list, a module or a nest of them. Names are
/// joined by dots; of names that occur twice the last counts. `path` is for messages.
Collected collect(const io::PtValue& value, std::string_view prefix, const std::string& path);

/// The value of `key` where `value` is a dict that has it; else null.
const io::PtValue* find(const io::PtValue* value, std::string_view key) noexcept;

/// Settings of a training program: the attributes of a namespace, or a dict. Absent ones are nullopt.
class Settings {
 public:
  explicit Settings(const io::PtValue* value);

  bool known() const noexcept { return attributes_ != nullptr; }
  std::optional<std::int64_t> integer(std::string_view name) const;
  /// Of a kind of parallelism, by its name in msprobe/engines.h.
  std::optional<std::int64_t> parallel_size(std::string_view kind) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;

 private:
  const io::PtDict* attributes_ = nullptr;
};

}  // namespace msprobe::checkpoint
