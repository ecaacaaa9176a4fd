// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string_view>

#include "base/crc32_text.h"
#include "msprobe/dump.h"
#include "msprobe/sketch_text.h"
#include "trace/json/json_text.h"

namespace msprobe::dump {
namespace {

void append_key(std::string& text, std::string_view name) {
  if (!text.empty()) text += ", ";
  text.append(1, '"').append(name).append("\": ");
}

void append_member(std::string& text, std::string_view name, const std::optional<double>& value) {
  append_key(text, name);
  if (value) {
    trace::append_json_real(text, *value);
  } else {
    text += "null";
  }
}

}  // namespace

std::string state_members(const stats::Summary& summary) {
  std::string text;
  if (summary.crc32) {
    append_key(text, "crc32");
    text.append(1, '"').append(crc32_text(*summary.crc32)).append(1, '"');
  }
  append_member(text, "min", summary.min);
  append_member(text, "max", summary.max);
  append_member(text, "mean", summary.mean);
  append_member(text, "norm", summary.norm);
  if (summary.sketch) {
    const stats::NonFinite non_finite{summary.nan_count, summary.pos_inf_count, summary.neg_inf_count};
    append_key(text, "sketch");
    text.append(1, '"')
        .append(trace::sketch_text(*summary.sketch, non_finite, /*wide=*/false))
        .append(1, '"');
  }
  if (summary.mean_imag) append_member(text, "mean_imag", summary.mean_imag);
  const auto append_count = [&](std::string_view name, std::int64_t count) {
    if (count == 0) return;
    append_key(text, name);
    text += std::to_string(count);
  };
  append_count("nan_count", summary.nan_count);
  append_count("pos_inf_count", summary.pos_inf_count);
  append_count("neg_inf_count", summary.neg_inf_count);
  return text;
}

void append_state_member(std::string& members, std::string_view separator, std::string_view name,
                         std::string_view value) {
  if (!members.empty()) members += separator;
  trace::append_json_string(members, name);
  members.append(": ").append(value);
}

}  // namespace msprobe::dump
