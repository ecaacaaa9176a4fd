// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A trace as lines of text, one for each record and each item, for comparison with what is expected.

#include <string>
#include <vector>

#include "msprobe/trace_reader.h"

namespace msprobe::test {

inline std::string shown(const trace::Trace& trace, const trace::Scalar& scalar) {
  using Kind = trace::Scalar::Kind;
  switch (scalar.kind) {
    case Kind::kAbsent: return "-";
    case Kind::kNull: return "null";
    case Kind::kText: return '"' + std::string(trace.text(scalar)) + '"';
    default: return std::string(trace.text(scalar));
  }
}

inline std::string shown(const trace::Trace& trace, const trace::Item& item) {
  static const char* const kParts[] = {"input_args", "input_kwargs", "input", "output",
                                       "parameters", "gradients",    "saved"};
  const auto text = [&](trace::Text text) { return text.length == 0 ? "-" : std::string(trace.text(text)); };
  std::string line = std::string(kParts[static_cast<int>(item.part)]) + " " + text(item.path) + ": ";
  if (item.kind == trace::Item::Kind::kNull) return line + "null";
  line += text(item.type);
  if (item.kind == trace::Item::Kind::kTensor) {
    line += " " + text(item.dtype) + " " + text(item.shape);
    if (item.requires_grad) line += *item.requires_grad ? " grad" : " no grad";
    for (const trace::Scalar& scalar : {item.max, item.min, item.mean, item.norm})
      line += " " + shown(trace, scalar);
  }
  if (item.value.kind != trace::Scalar::Kind::kAbsent) line += " " + shown(trace, item.value);
  if (item.md5.length > 0) line += " md5 " + text(item.md5);
  if (item.data_name.length > 0) line += " in " + text(item.data_name);
  return line;
}

inline std::vector<std::string> shown(const trace::Trace& trace) {
  std::vector<std::string> lines;
  for (const trace::Record& record : trace.records()) {
    lines.push_back("# " + std::string(trace.name(record)) + (record.is_recompute ? " recompute" : "") +
                    (record.has_input ? " input" : "") + (record.has_output ? " output" : ""));
    for (const trace::Item& item : trace.items(record)) lines.push_back(shown(trace, item));
  }
  return lines;
}

}  // namespace msprobe::test
