// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/state_entry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/non_finite.h"
#include "msprobe/sketch_text.h"
#include "msprobe/trace_compare.h"
#include "verdict/calls.h"

namespace msprobe::verdict {
namespace {

using trace::Json;

constexpr std::size_t kLongestShown = 80;

bool holds_tensor(const Json& entry) {
  return entry.is_object() && entry["dtype"].kind() == Json::Kind::kText;
}

std::int64_t count_of(const Json& entry, std::string_view key) {
  const double count = entry[key].number().value_or(0);
  return count > 0 && count < 9e18 ? static_cast<std::int64_t>(count) : 0;
}

// In a script, by somebody: in six digits. What is left of two such numbers, as 1 - beta, may have lost all
// six of the rounding of a double next to 1.
bool is_written(double number) {
  constexpr double kLost = 1e6 * 0x1p-54;
  return std::abs(std::strtod(digits_of(number, 6).c_str(), nullptr) - number) <= kLost * std::abs(number);
}

double elements(const Json& shape) {
  double count = 1;
  for (const Json& extent : shape.items()) count *= extent.number().value_or(1);
  return count;
}

}  // namespace

std::optional<metrics::TensorFacts> tensor_of(const Json& entry) {
  if (!holds_tensor(entry)) return std::nullopt;
  metrics::TensorFacts facts;
  facts.dtype = trace::dtype_of(entry["dtype"].text());
  facts.count = elements(entry["shape"]);
  facts.min = entry["min"].number();
  facts.max = entry["max"].number();
  facts.mean = entry["mean"].number();
  facts.norm = entry["norm"].number();
  facts.is_exact = true;
  facts.checksum = entry["crc32"].text();
  facts.non_finite = stats::NonFinite{count_of(entry, "nan_count"), count_of(entry, "pos_inf_count"),
                                      count_of(entry, "neg_inf_count")};
  if (const auto sketch = trace::read_sketch(entry["sketch"].text())) {
    facts.sketch = sketch->sketch;
    if (sketch->has_digest) facts.digest = sketch->sketch.digest;
    facts.mean = sketch->sketch.mean;
    facts.norm = sketch->sketch.norm;
  }
  return facts;
}

metrics::Distance entry_distance(const Json& target, const Json& reference, double floor) {
  const auto ours = tensor_of(target), theirs = tensor_of(reference);
  if (!ours || !theirs) {
    // No gradient adds as much as one of zeros; what an optimizer makes of either shows in the weights.
    const auto is_nothing = [](const Json& entry, const std::optional<metrics::TensorFacts>& facts) {
      return facts ? facts->norm == 0 : entry.is_null();
    };
    if (target == reference || (is_nothing(target, ours) && is_nothing(reference, theirs))) return {};
    // A step may be counted in a tensor.
    const auto value_of = [](const Json& entry, const std::optional<metrics::TensorFacts>& facts) {
      return facts && facts->count == 1 ? facts->max : entry["value"].number();
    };
    const auto a = value_of(target, ours), b = value_of(reference, theirs);
    return a && b ? metrics::distance_of_numbers(*a, *b) : metrics::Distance::unmeasurable();
  }
  if (!(target["shape"] == reference["shape"])) return metrics::Distance::unmeasurable();
  return metrics::distance(*ours, *theirs, floor);
}

std::optional<double> number_of(const Json& entry) {
  return entry.is_object() ? entry["value"].number() : entry.number();
}

std::string digits_of(double number, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, number);
  return text.data();
}

bool is_computed(const Model& model, std::optional<double> ours, std::optional<double> theirs, double error) {
  return model.computed_number && ours && theirs && !is_written(*ours) && !is_written(*theirs) &&
         model.excess_of_number(metrics::distance_of_numbers(*ours, *theirs), error) < 1;
}

std::string shown(const Json& entry) {
  if (holds_tensor(entry)) return std::string(entry["dtype"].text()) + " " + shown(entry["shape"]);
  if (entry.is_object() && entry.keys().size() == 1 && entry.find("value") != nullptr)
    return shown(entry["value"]);
  std::string text;
  switch (entry.kind()) {
    case Json::Kind::kNull: text = "None"; break;
    case Json::Kind::kBool: text = entry.text() == "true" ? "True" : "False"; break;
    case Json::Kind::kList:
      for (const Json& item : entry.items()) text += (text.empty() ? "" : ", ") + shown(item);
      text = "[" + text + "]";
      break;
    case Json::Kind::kObject:
      for (const std::string& key : entry.keys())
        text += (text.empty() ? "" : ", ") + key + ": " + shown(entry[key]);
      text = "{" + text + "}";
      break;
    default: text = entry.text();
  }
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown - 3) + "...";
}

double farthest(const std::vector<EntryPair>& entries) {
  double most = 0;
  for (const EntryPair& entry : entries) {
    const double high = entry.apart().high;
    if (std::isfinite(high)) most = std::max(most, high);
  }
  return most;
}

std::string module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string() : std::string(name.substr(0, dot));
}

std::unordered_map<std::string_view, const Json*> by_key(const Json& object) {
  std::unordered_map<std::string_view, const Json*> found;
  for (std::size_t i = 0; i < object.keys().size(); ++i)
    found.insert_or_assign(object.keys()[i], &object.items()[i]);
  return found;
}

std::vector<EntryPair> common(const Json& target, const Json& reference) {
  const auto others = by_key(reference);
  std::vector<EntryPair> result;
  for (std::size_t i = 0; i < target.keys().size(); ++i) {
    const auto other = others.find(target.keys()[i]);
    if (other != others.end()) result.push_back({target.keys()[i], &target.items()[i], other->second});
  }
  return result;
}

std::vector<EntryPair> measured_together(const Model& model, std::vector<EntryPair> entries) {
  std::map<std::string_view, std::vector<double>> sizes;
  for (const EntryPair& one : entries) {
    if (one.facts) sizes[one.kind].push_back(one.facts->typical());
  }
  std::map<std::string_view, double> floors;
  for (auto& [kind, of_kind] : sizes) floors[kind] = model.floor_of(std::move(of_kind));
  for (EntryPair& one : entries) one.floor = floors[one.kind];
  return entries;
}

}  // namespace msprobe::verdict
