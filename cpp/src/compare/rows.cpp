// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "compare/rows.h"

#include <bit>

namespace msprobe::compare {
namespace {

constexpr std::string_view kModule = "Module.", kCell = "Cell.";

// "blocks.0.attn.Attention" of "Module.blocks.0.attn.Attention.forward.0".
std::string_view path_and_class(std::string_view record) {
  if (!is_module(record)) return {};
  for (const std::string_view phase : {".forward", ".backward", ".parameters_grad"}) {
    if (const std::size_t at = record.rfind(phase); at != std::string_view::npos)
      record = record.substr(0, at);
  }
  record.remove_prefix((record.starts_with(kModule) ? kModule : kCell).size());
  return record;
}

}  // namespace

Rows::Rows(const DumpPair& pair) : pair_(&pair) {
  const auto& rows = pair.matches.pairs;
  const std::size_t records = pair.target.records().size();
  first_.assign(records + 1, static_cast<std::uint32_t>(rows.size()));
  of_target_.assign(pair.target.all_items().size(), kNoRow);
  of_reference_.assign(pair.reference.all_items().size(), kNoRow);
  for (std::size_t i = rows.size(); i-- > 0;) {
    first_[rows[i].target_record] = static_cast<std::uint32_t>(i);
    if (!rows[i].reference) continue;
    of_target_[rows[i].target] = static_cast<std::uint32_t>(i);
    of_reference_[rows[i].reference.index] = static_cast<std::uint32_t>(i);
  }
  for (std::size_t r = records; r-- > 0;) {
    const bool is_empty = first_[r] == rows.size() || rows[first_[r]].target_record != r;
    if (is_empty) first_[r] = first_[r + 1];
  }
}

std::uint64_t updated_key(double min, double max) noexcept {
  return std::bit_cast<std::uint64_t>(min) * 0x9E3779B97F4A7C15U ^ std::bit_cast<std::uint64_t>(max);
}

std::string module_path(std::string_view record) {
  const std::string_view whole = path_and_class(record);
  const std::size_t dot = whole.rfind('.');
  return dot == std::string_view::npos ? std::string() : std::string(whole.substr(0, dot));
}

std::string_view module_class(std::string_view record) {
  const std::string_view whole = path_and_class(record);
  const std::size_t dot = whole.rfind('.');
  return dot == std::string_view::npos ? whole : whole.substr(dot + 1);
}

std::string operator_name(std::string_view record) {
  if (is_module(record)) return {};
  for (int part = 0; part < 2; ++part) {
    const std::size_t dot = record.rfind('.');
    if (dot == std::string_view::npos) return {};
    record = record.substr(0, dot);
  }
  return std::string(record);
}

}  // namespace msprobe::compare
