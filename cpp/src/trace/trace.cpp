// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "msprobe/trace_reader.h"
#include "trace/name_index.h"

// What a Trace that was read can be asked.
namespace msprobe::trace {
namespace {

// 0 or an infinity. from_chars() does not tell which; a locale of the process must not matter.
double beyond_double(const std::string& digits) {
  static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return ::strtod_l(digits.c_str(), nullptr, c_locale);
}

}  // namespace

std::optional<double> Trace::number(const Scalar& scalar) const noexcept {
  if (scalar.kind != Scalar::Kind::kInteger && scalar.kind != Scalar::Kind::kFloat) return std::nullopt;
  const std::string_view digits = text(scalar);
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem == std::errc() && end == digits.data() + digits.size()) return value;
  const bool negative = digits.starts_with('-');
  if (digits.ends_with("NaN")) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (digits.ends_with("Infinity") || digits.ends_with("Inf")) return negative ? -kInfinity : kInfinity;
  return beyond_double(std::string(digits));
}

namespace {

// What is kept apart of an item; null: nothing is.
template <typename Kept>
const Kept* find_kept(const std::vector<Kept>& kept, std::uint32_t item) {
  const auto found =
      std::lower_bound(kept.begin(), kept.end(), item,
                       [](const Kept& one, std::uint32_t wanted) { return one.item < wanted; });
  return found == kept.end() || found->item != item ? nullptr : &*found;
}

}  // namespace

std::string_view Trace::group_id(const Item& item) const noexcept {
  const GroupId* const found = find_kept(group_ids_, static_cast<std::uint32_t>(&item - items_.data()));
  return found == nullptr ? std::string_view() : text(found->id);
}

const TensorPlacement* Trace::placement(const Item& item) const noexcept {
  const PlacementOf* const found = find_kept(placements_, static_cast<std::uint32_t>(&item - items_.data()));
  return found == nullptr ? nullptr : &found->placement;
}

std::optional<std::size_t> Trace::find(std::string_view name) const noexcept {
  if (records_.empty()) return std::nullopt;
  const auto found = find_slot(slots_, name, [this](std::uint32_t i) { return text(records_[i].name); });
  return found == kFreeSlot ? std::nullopt : std::optional<std::size_t>(found);
}

}  // namespace msprobe::trace
