// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/json_form.h"
#include "io/json_scanner.h"
#include "msprobe/trace_reader.h"
#include "trace/open_value.h"

namespace msprobe::trace {

/// A number or text of a leaf, where it stands in the file.
struct LeafValue {
  static constexpr std::uint32_t kNoItem = 0xffffffff;
  Field field = Field::kOther;
  bool is_text = false;          // it stands in quotes, at [begin, end) without them
  std::uint32_t item = kNoItem;  // of its record
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A record that was read, and what of it is another in records of the same form.
struct RecordForm {
  std::vector<LeafValue> values;  // in their order
  std::vector<Item> items;
  Record record;  // what its bytes say of it
};

/// The records of a step are much alike: those of one layer are those of another, but for the numbers. Keeps
/// the forms of those that were read, in which the next ones are found by comparing bytes
/// (docs/adr/0021-known-records.md).
class RecordForms {
 public:
  /// Takes the record that `scanner` has peeked at, if it has a known form: null if not. `texts`: what stands
  /// where that form has its values.
  const RecordForm* take(io::JsonScanner& scanner, bool holds_gradients,
                         std::vector<std::string_view>& texts);
  /// Keeps the form of the record that was read last. `bytes`: its value in the file, or empty when that is
  /// gone. `values`: in their order.
  void keep(std::string_view bytes, const Record& record, bool holds_gradients, std::span<const Item> items,
            std::span<const LeafValue> values);

 private:
  bool is_idle() const noexcept;

  std::array<io::JsonForms<RecordForm>, 2> forms_;  // of gradients apart: they are read in another way
  std::size_t memory_ = 0;                          // bytes, about
  std::size_t unlike_ = 0;                          // records since the last one that had a known form
};

}  // namespace msprobe::trace
