// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "overflow/bad_value.h"

#include <algorithm>

#include "io/in_quotes.h"
#include "msprobe/record_name.h"

namespace msprobe::overflow {
namespace {

using trace::Item;
using trace::Scalar;
using trace::Trace;
using Part = Item::Part;

// Python's text of a complex number: "(nan+infj)".
Badness of_complex(std::string_view text) noexcept {
  if (text.find("nan") != std::string_view::npos) return Badness::kNan;
  return text.find("inf") != std::string_view::npos ? Badness::kInfinite : Badness::kGood;
}

std::string_view part_name(Part part) noexcept {
  switch (part) {
    case Part::kInputArgs: return "input_args";
    case Part::kInputKwargs: return "input_kwargs";
    case Part::kInput: return "input";
    case Part::kOutput: return "output";
    case Part::kParameters: return "the parameter";
    case Part::kGradients: return "the gradient of";
    case Part::kSaved: return "the value";
  }
  return "";
}

void keep_first(const Item*& first, const Item& item) noexcept {
  if (first == nullptr) first = &item;
}

}  // namespace

Badness badness(const Trace& trace, const Item& item) noexcept {
  if (item.kind == Item::Kind::kTensor) {
    return std::max(trace::badness(trace, item.max), trace::badness(trace, item.min));
  }
  if (item.kind == Item::Kind::kNull) return Badness::kGood;
  const std::string_view type = trace.text(item.type);
  if (type == "complex") return of_complex(trace.text(item.value));
  const bool is_text = item.value.kind == Scalar::Kind::kText;
  return is_text ? Badness::kGood : trace::badness(trace, item.value);
}

BadValues find_bad_values(const Trace& trace, const trace::Record& record) noexcept {
  BadValues found;
  for (const Item& item : trace.items(record)) {
    const Badness how = badness(trace, item);
    if (how == Badness::kGood) continue;
    if (item.part == Part::kOutput) {
      keep_first(found.out, item);
      found.worst_out = std::max(found.worst_out, how);
    } else if (item.part == Part::kGradients) {
      keep_first(found.gradient, item);
    } else {
      const bool is_parameter = item.part == Part::kParameters;
      const bool is_tensor = item.kind == Item::Kind::kTensor;
      keep_first(is_parameter ? found.parameter : is_tensor ? found.tensor_in : found.scalar_in, item);
      found.worst_in = std::max(found.worst_in, how);
    }
  }
  return found;
}

std::string describe(const Trace& trace, const Item& item) {
  std::string text(part_name(item.part));
  if (const std::string_view path = trace.text(item.path); !path.empty()) {
    const bool is_index = item.part <= Part::kOutput;
    text += is_index ? "." : " ";
    for (const char c : path.substr(0, 200))
      text += static_cast<unsigned char>(c) >= ' ' && c != 0x7f ? c : '?';
  }
  if (item.kind != Item::Kind::kTensor) return text + " is " + std::string(trace.text(item.value));
  const bool is_max = trace::badness(trace, item.max) != Badness::kGood;
  return text + (is_max ? " has Max " : " has Min ") + std::string(trace.text(is_max ? item.max : item.min));
}

}  // namespace msprobe::overflow
