// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/pt/pickle.h"

namespace msprobe::io {

/// The functions and classes that a file of torch.save may call, as far as they are understood: a fixed
/// table. All they can do is make values.
class PtObjects {
 public:
  /// Data of the storage with this key; nullopt where the file has none.
  using FindData = std::function<std::optional<std::span<const std::uint8_t>>(std::string_view key)>;

  /// `copy_unaligned`: see PtOptions.
  PtObjects(FindData find_data, PickleValues& values, bool copy_unaligned)
      : find_data_(std::move(find_data)), values_(values), copy_unaligned_(copy_unaligned) {}

  /// See PickleCalls. A known function with arguments that it cannot have is a PickleError; with arguments
  /// that msprobe has no value for (a dtype, a kind of storage) it counts as unknown.
  PtValue* call(std::string_view name, const PtTuple& arguments);
  PtValue* persistent(const PtValue& id);

  class Arguments;

 private:
  struct Function;
  static const Function* find(std::string_view name);

  PtValue* rebuild_tensor(const Arguments& arguments);
  PtValue* rebuild_tensor_v2(const Arguments& arguments);
  PtValue* rebuild_tensor_v3(const Arguments& arguments);
  PtValue* rebuild_device_tensor(const Arguments& arguments);
  PtValue* rebuild_parameter(const Arguments& arguments);
  PtValue* rebuild_from_type(const Arguments& arguments);
  PtValue* ordered_dict(const Arguments& arguments);
  PtValue* default_dict(const Arguments& arguments);
  PtValue* size(const Arguments& arguments);
  PtValue* encode(const Arguments& arguments);
  PtValue* bytes(const Arguments& arguments);

  PtValue* add_tensor(PtTensor tensor);
  std::span<const std::uint8_t> data_of(std::string_view key);

  FindData find_data_;
  PickleValues& values_;
  bool copy_unaligned_;
  std::unordered_map<std::string_view, std::span<const std::uint8_t>> data_;
  std::map<std::pair<std::string_view, std::string_view>, PtValue*> storages_;  // by class and key
  std::vector<std::unique_ptr<std::byte[]>> copies_;                            // of data that is not aligned
  int nesting_ = 0;                                                             // calls within calls
};

}  // namespace msprobe::io
