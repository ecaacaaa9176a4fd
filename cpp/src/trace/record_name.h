// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Names of records: "Torch.add.0.forward", "Distributed.all_reduce.3.forward",
/// "Module.blocks.0.Block.backward.2".
namespace msprobe::trace {

/// The name of the function: "add"; empty for modules and names of another form.
inline std::string_view operator_of(std::string_view record) noexcept {
  if (record.starts_with("Module.")) return {};
  const std::size_t begin = record.find('.');
  if (begin == std::string_view::npos) return {};
  const std::size_t end = record.find('.', begin + 1);
  return end == std::string_view::npos ? std::string_view() : record.substr(begin + 1, end - begin - 1);
}

/// The name of the forward record of a backward one; nothing for others.
inline std::optional<std::string> forward_of(std::string_view record) {
  constexpr std::string_view kBackward = ".backward";
  const std::size_t at = record.rfind(kBackward);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = record.substr(at + kBackward.size());
  if (!rest.empty() && rest[0] != '.') return std::nullopt;
  return std::string(record.substr(0, at)) + ".forward" + std::string(rest);
}

}  // namespace msprobe::trace
