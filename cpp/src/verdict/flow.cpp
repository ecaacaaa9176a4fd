// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/flow.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "msprobe/metrics.h"
#include "msprobe/sketch_text.h"
#include "msprobe/trace_compare.h"
#include "verdict/model.h"

namespace msprobe::verdict {
namespace {

// Numbers of fewer characters are often equal by chance.
constexpr std::size_t kLeastDigits = 4;
constexpr std::size_t kLeastDigitsOfOne = 8;  // of a single element
// Of a hundred thousand items of a step, which are 2^32 pairs, one pair is equal by chance.
constexpr double kLeastBits = 32;

void mix(std::uint64_t& key, std::string_view text) {
  key = (key ^ std::hash<std::string_view>{}(text)) * 0x9E3779B97F4A7C15U;
  key ^= key >> 29;
}

// The same of items that are equal in shape, dtype and sketch as well.
std::uint64_t whole_key(const trace::Trace& trace, const trace::Item& item, std::uint64_t key) {
  for (const trace::Text part : {item.shape, item.dtype, item.sketch}) mix(key, trace.text(part));
  return key;
}

// Of one shape and dtype, and other digests: as a gradient before and after next to nothing was added to it,
// which statistics do not tell apart.
bool is_another(const trace::Trace& trace, const trace::Item& a, const trace::Item& b) {
  if (trace.text(a.shape) != trace.text(b.shape) || trace.text(a.dtype) != trace.text(b.dtype)) return false;
  if (trace.text(a.sketch) == trace.text(b.sketch)) return false;
  const auto one = trace::read_sketch(trace.text(a.sketch)), other = trace::read_sketch(trace.text(b.sketch));
  return one && other && one->has_digest && other->has_digest && one->sketch.digest != other->sketch.digest;
}

}  // namespace

std::uint64_t value_key(const trace::Trace& trace, const trace::Item& item) {
  if (item.kind != trace::Item::Kind::kTensor) return 0;
  const std::string_view max = trace.text(item.max), min = trace.text(item.min);
  // Numbers are equal to others by chance where they are few between two close limits, as in 16 bits, which
  // have 256 or 2048 of a magnitude. Of 32 elements with two limits there are enough in every dtype.
  const double unit = metrics::unit_roundoff(trace::dtype_of(trace.text(item.dtype)));
  const double count = trace::element_count(trace.text(item.shape));
  if (is_coarse(unit) || (unit > 0 && max != min && count < kLeastBits)) {
    const double most = trace.number(item.max).value_or(0), least = trace.number(item.min).value_or(0);
    const double largest = std::max(std::abs(most), std::abs(least));
    const double numbers = largest > 0 ? 1 + (most - least) / (2 * unit * largest) : 1;
    if (count * std::log2(numbers) < kLeastBits) return 0;
  }
  const bool is_single = max.size() >= kLeastDigitsOfOne && !is_coarse(unit);
  std::uint64_t key = 1;
  if ((max == min && !is_single) || max.size() + min.size() < 2 * kLeastDigits) {
    // Flags and small numbers: by their places, which a view with another order of elements does not keep.
    if (max == min || item.sketch.length == 0) return 0;
    mix(key, trace.text(item.sketch));
  }
  for (const std::string_view text : {max, min, trace.text(item.mean), trace.text(item.norm)}) mix(key, text);
  return key == 0 ? 1 : key;
}

Flow::Flow(const trace::Trace& trace)
    : sources_(trace.all_items().size(), kNoItem),
      followers_(trace.all_items().size(), kNoItem),
      firsts_(trace.all_items().size(), kNoItem),
      records_(trace.all_items().size(), 0) {
  std::unordered_map<std::uint64_t, ItemIndex> last;  // by value_key()
  std::unordered_map<std::uint64_t, ItemIndex>
      others;  // by whole_key(): behind which another one has its key
  last.reserve(trace.all_items().size());
  for (std::uint32_t r = 0; r < trace.records().size(); ++r) {
    const trace::Record& record = trace.records()[r];
    for (ItemIndex i = record.first_item; i < record.first_item + record.item_count; ++i) {
      records_[i] = r;
      firsts_[i] = i;
      const trace::Item& item = trace.all_items()[i];
      const std::uint64_t key = value_key(trace, item);
      if (key == 0) continue;
      const auto [place, is_new] = last.try_emplace(key, i);
      if (is_new) continue;
      ItemIndex earlier = std::exchange(place->second, i);
      if (const trace::Item& known = trace.all_items()[earlier]; is_another(trace, known, item)) {
        others[whole_key(trace, known, key)] = earlier;
        const auto same = others.find(whole_key(trace, item, key));
        if (same == others.end()) continue;
        earlier = same->second;
      }
      sources_[i] = earlier;
      firsts_[i] = firsts_[earlier];
      followers_[earlier] = i;
    }
  }
}

}  // namespace msprobe::verdict
