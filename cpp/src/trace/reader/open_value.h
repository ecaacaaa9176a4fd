// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "msprobe/trace_reader.h"

namespace msprobe::trace {

/// The keys of a leaf that are kept.
enum class Field : std::uint8_t {
  kOther,
  kMax,
  kMin,
  kMean,
  kNorm,
  kShape,
  kType,
  kRequiresGrad,
  kDtype,
  kMd5,
  kSketch,
  kDataName,
  kValue,
  kFormat,
  kGroupId,
  kGroupRanks
};
inline constexpr std::array<std::string_view, 16> kFieldNames = {
    "",      "Max", "Min",    "Mean",      "Norm",  "shape",  "type",     "requires_grad",
    "dtype", "md5", "sketch", "data_name", "value", "format", "group_id", "group_ranks"};

inline Field field_of(std::string_view key) {
  const auto if_is = [key](std::string_view name, Field field) {
    return key == name ? field : Field::kOther;
  };
  switch (key.size()) {
    case 3: return key == "Max" ? Field::kMax : key == "Min" ? Field::kMin : if_is("md5", Field::kMd5);
    case 4: return key == "Mean" ? Field::kMean : key == "Norm" ? Field::kNorm : if_is("type", Field::kType);
    case 5:
      return key == "shape" ? Field::kShape : key == "dtype" ? Field::kDtype : if_is("value", Field::kValue);
    case 6: return key == "format" ? Field::kFormat : if_is("sketch", Field::kSketch);
    case 8: return if_is("group_id", Field::kGroupId);
    case 9: return if_is("data_name", Field::kDataName);
    case 11: return if_is("group_ranks", Field::kGroupRanks);
    case 13: return if_is("requires_grad", Field::kRequiresGrad);
    default: return Field::kOther;
  }
}

/// An open list or object below a record. An object turns out to be a leaf when its "type" is read, so what
/// it says is kept until it ends.
struct Frame {
  bool is_object = false;
  bool is_leaf = false;
  Field field = Field::kOther;    // of the entry that is read
  const char* problem = nullptr;  // of a field, if this is a leaf with a dtype
  std::size_t index = 0;          // of the next entry of a list
  std::size_t path_length = 0;    // without the name of this frame
  std::size_t first_item = 0;     // how many items there were when it was opened
  Item leaf;
  Text group_id;
  bool is_placement = false;   // what a DTensor says under "dtensor"
  bool has_placement = false;  // this is a leaf that has one, the last that was read
  std::string
      other_key;  // of the entry that is read, when it is kOther; its memory serves the next frame too

  std::string_view key() const noexcept {
    return field == Field::kOther ? other_key : kFieldNames[static_cast<std::size_t>(field)];
  }

  void open(bool opens_object) {
    is_object = opens_object;
    is_leaf = false;
    field = Field::kOther;
    problem = nullptr;
    index = 0;
    is_placement = false;
    has_placement = false;
    if (!opens_object) return;  // a list is no leaf
    leaf = Item();
    group_id = {};
  }
};

/// Whether the value of the entry that is read may be a list, to be kept as what Python prints of it.
inline bool may_be_list(const Frame& frame) {
  const Field field = frame.field;
  if (field == Field::kShape || field == Field::kValue || field == Field::kGroupRanks) return true;
  const std::string_view key = frame.key();
  return frame.is_placement &&
         (key == "placements" || key == "mesh_shape" || key == "mesh_dims" || key == "coordinate");
}

}  // namespace msprobe::trace
