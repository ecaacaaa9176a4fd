// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "io/document/json_scanner.h"
#include "msprobe/trace_reader.h"
#include "trace/name_index.h"

// What a Trace that was read can be asked.
namespace msprobe::trace {

std::optional<double> Trace::number(const Scalar& scalar) const noexcept {
  if (scalar.kind != Scalar::Kind::kInteger && scalar.kind != Scalar::Kind::kFloat) return std::nullopt;
  return io::number_value(text(scalar));
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
