// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// Types as traces name them, "torch.Size": what they are is told by their last part, whatever framework they
/// are of.
namespace msprobe::trace {

/// "Size" of "torch.Size", "slice" of "slice".
inline std::string_view name_of_type(std::string_view type) noexcept {
  return type.substr(type.rfind('.') + 1);
}

inline bool is_tensor_type(std::string_view type) noexcept { return name_of_type(type) == "Tensor"; }
inline bool is_size_type(std::string_view type) noexcept { return name_of_type(type) == "Size"; }
inline bool is_memory_format_type(std::string_view type) noexcept {
  return name_of_type(type) == "memory_format";
}
inline bool is_process_group_type(std::string_view type) noexcept {
  return name_of_type(type) == "ProcessGroup";
}

}  // namespace msprobe::trace
