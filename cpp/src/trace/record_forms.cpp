// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/record_forms.h"

namespace msprobe::trace {
namespace {

constexpr std::size_t kMostMemory = std::size_t{4} << 20;        // of all forms
constexpr std::size_t kMostRecordBytes = std::size_t{64} << 10;  // of a record
constexpr std::size_t kBytesOfPiece = 200;                       // beside its text

// So many records that are unlike all before them, and only some of the next ones are looked at.
constexpr std::size_t kPatience = 512;
constexpr std::size_t kOneIn = 16;

}  // namespace

bool RecordForms::is_idle() const noexcept { return unlike_ > kPatience && unlike_ % kOneIn != 0; }

const RecordForm* RecordForms::take(io::JsonScanner& scanner, bool holds_gradients,
                                    std::vector<std::string_view>& texts) {
  ++unlike_;
  if (is_idle()) return nullptr;
  const RecordForm* const form = scanner.take_form(forms_[holds_gradients ? 1 : 0], texts);
  if (form != nullptr) unlike_ = 0;
  return form;
}

void RecordForms::keep(std::string_view bytes, const Record& record, bool holds_gradients,
                       std::span<const Item> items, std::span<const LeafValue> values) {
  if (bytes.empty() || bytes.size() > kMostRecordBytes || is_idle()) return;
  memory_ += bytes.size() + items.size_bytes() + values.size() * (sizeof(LeafValue) + kBytesOfPiece);
  if (memory_ > kMostMemory) {
    for (auto& forms : forms_) forms.clear();
    memory_ = 0;
  }
  std::vector<io::JsonHole> holes;
  holes.reserve(values.size());
  for (const LeafValue& value : values) {
    holes.push_back({.begin = value.begin - record.begin, .end = value.end - record.begin});
  }
  forms_[holds_gradients ? 1 : 0].add(
      bytes, holes,
      {.values = {values.begin(), values.end()}, .items = {items.begin(), items.end()}, .record = record});
}

}  // namespace msprobe::trace
