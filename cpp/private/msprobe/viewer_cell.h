// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tensors as the columns input_data and output_data of a `.vis.db` hold them, and how far two are apart.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::viewer {

/// What a comparison adds to the cell of a tensor.
struct CellMetric {
  std::string_view name;
  bool small_is_bad = false;
};

inline constexpr std::size_t kCellMetrics = 13;

/// All of them, in the order of the columns of a digest.
MSPROBE_API std::span<const CellMetric, kCellMetrics> cell_metrics() noexcept;

/// Of a field: "1.5", "13.7%" (0.137), "nan", "inf"; nothing for what is no number.
MSPROBE_API std::optional<double> cell_number(std::string_view text);

/// One tensor: fields and what they hold. The texts are borrowed.
class MSPROBE_API Cell {
 public:
  enum class Kind : std::uint8_t { kText, kNumber, kNull, kOther };

  /// The last one of a name counts.
  void set(std::string_view field, std::string_view text, Kind kind);
  void clear() noexcept { fields_.clear(); }

  bool has(std::string_view field) const noexcept { return find(field) != nullptr; }
  /// Nothing where the field is absent or null.
  std::optional<std::string_view> text(std::string_view field) const noexcept;
  /// As it is printed: "None" for null, "" where it is absent.
  std::string_view shown(std::string_view field) const noexcept;
  std::optional<double> number(std::string_view field) const;

 private:
  struct Field {
    std::string_view name, text;
    Kind kind = Kind::kText;
  };
  const Field* find(std::string_view field) const noexcept;

  std::vector<Field> fields_;
};

/// The tensors of one column of one node, in its order, by name. Keeps the text that the cells point to.
class Cells {
 public:
  Cells() = default;
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  /// Replaces what is there by what a column holds: {name: {field: value}}. What is not of this form is left
  /// out, a text that is not JSON altogether.
  MSPROBE_API void read(std::string_view json);

  auto begin() const noexcept { return cells_.begin(); }
  auto end() const noexcept { return cells_.begin() + static_cast<std::ptrdiff_t>(count_); }
  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }

 private:
  class Handler;
  std::string text_;
  std::vector<std::pair<std::string_view, Cell>> cells_;  // those behind count_ are kept for their memory
  std::size_t count_ = 0;
};

/// How far two tensors are apart at least (metrics::distance()), in machine epsilons of the dtype: infinity
/// is a difference without a measure (NaN on one side, other integers, another shape, another checksum);
/// nothing: there is nothing to compare. The largest difference of an element is taken relative to the
/// largest element. Without `reference` from what the comparison wrote into `target` alone.
MSPROBE_API std::optional<double> ulps(const Cell& target, const Cell* reference);

/// Whether ulps() without the reference cell would leave a doubt.
MSPROBE_API bool needs_reference(const Cell& target);

/// What tells a tensor from another one: a hash of its checksum, or of its statistics, with dtype and shape.
/// Nothing for what cannot be told apart, tensors of equal elements above all.
MSPROBE_API std::optional<std::int64_t> mark_of(const Cell& cell);

}  // namespace msprobe::viewer
