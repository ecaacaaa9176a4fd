// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/non_finite.h"
#include "io/document/json_scanner.h"
#include "msprobe/metrics.h"
#include "msprobe/trace_compare.h"
#include "msprobe/viewer_cell.h"
#include "trace/item/type_name.h"

namespace msprobe::viewer {
namespace {

constexpr std::array<CellMetric, kCellMetrics> kMetrics = {{
    {"MaxRelativeErr", false},
    {"MinRelativeErr", false},
    {"MeanRelativeErr", false},
    {"NormRelativeErr", false},
    {"Max diff", false},
    {"Min diff", false},
    {"Mean diff", false},
    {"L2norm diff", false},
    {"Cosine", true},
    {"EucDist", false},
    {"MaxAbsErr", false},
    {"One Thousandth Err Ratio", true},
    {"Five Thousandths Err Ratio", true},
}};

struct Statistic {
  std::string_view name, difference;
};
constexpr std::array<Statistic, 4> kStatistics = {
    {{"Max", "Max diff"}, {"Min", "Min diff"}, {"Norm", "L2norm diff"}, {"Mean", "Mean diff"}}};

constexpr double kShown = 1.01e-6;  // cells hold six decimals, unless they hold an exponent

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<double> plain_number(std::string_view text) {
  if (text.starts_with('+') && !text.substr(1).starts_with('-')) text.remove_prefix(1);
  if (text.empty() || text.back() == ')') return std::nullopt;  // nan(...)
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || problem == std::errc::invalid_argument) return std::nullopt;
  return problem == std::errc() ? value : io::number_value(text);  // beyond double
}

bool is_tensor(const Cell& cell) { return cell.has("dtype") && !cell.shown("dtype").starts_with('<'); }

// Without the statistics.
metrics::TensorFacts facts_of(const Cell& cell) {
  metrics::TensorFacts facts;
  facts.dtype = trace::dtype_of(cell.shown("dtype"));
  facts.count = trace::element_count(cell.text("shape").value_or(""));
  return facts;
}

// Of what is no tensor.
std::optional<double> difference_of_values(const Cell& target, const Cell* reference) {
  if (reference != nullptr && target.has("value") && reference->has("value")) {
    return target.shown("value") == reference->shown("value") ? 0 : kInfinity;
  }
  bool is_known = false;
  for (const Statistic& one : kStatistics) {
    const auto difference = target.number(one.difference);
    is_known |= difference.has_value();
    if (difference && *difference != 0) return kInfinity;
  }
  if (!is_known) return std::nullopt;
  return 0;
}

// A statistic of the reference: its own cell is rounded to six decimals, the difference that a comparison
// wrote is not.
std::optional<double> of_reference(const Statistic& statistic, const Cell& target, const Cell* reference) {
  const auto ours = target.number(statistic.name);
  const auto difference = target.number(statistic.difference);
  const auto other = reference != nullptr ? reference->number(statistic.name) : std::nullopt;
  if (!ours) return std::nullopt;
  if (difference && std::isfinite(*difference) && std::isfinite(*ours)) return *ours - *difference;
  if (!other) return std::nullopt;
  const bool is_cut = target.shown(statistic.name).find('e') == std::string_view::npos;
  return is_cut && std::abs(*ours - *other) <= kShown ? ours : other;
}

std::optional<double> difference_of_statistics(const Cell& target, const Cell* reference) {
  metrics::TensorFacts ours = facts_of(target), theirs = ours;
  bool is_known = false;
  const auto take = [&](const Statistic& statistic, std::optional<double> metrics::TensorFacts::* place) {
    const auto found = of_reference(statistic, target, reference);
    is_known |= found.has_value();
    ours.*place = target.number(statistic.name);
    theirs.*place = found ? found : ours.*place;  // still tells how large the elements are
  };
  take(kStatistics[0], &metrics::TensorFacts::max);
  take(kStatistics[1], &metrics::TensorFacts::min);
  take(kStatistics[2], &metrics::TensorFacts::norm);
  take(kStatistics[3], &metrics::TensorFacts::mean);
  if (!is_known) return std::nullopt;
  return trace::in_roundings(metrics::distance(ours, theirs).value, ours.dtype);
}

}  // namespace

std::span<const CellMetric, kCellMetrics> cell_metrics() noexcept { return kMetrics; }

std::optional<double> cell_number(std::string_view text) {
  text = trimmed(text);
  if (!text.ends_with('%')) return plain_number(text);
  const auto percents = plain_number(trimmed(text.substr(0, text.size() - 1)));
  return percents ? std::optional(*percents / 100) : std::nullopt;
}

void Cell::set(std::string_view field, std::string_view text, Kind kind) {
  const auto known =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field& one) { return one.name == field; });
  Field& place = known == fields_.end() ? fields_.emplace_back() : *known;
  place = {.name = field, .text = text, .kind = kind};
}

const Cell::Field* Cell::find(std::string_view field) const noexcept {
  for (const Field& one : fields_) {
    if (one.name == field) return &one;
  }
  return nullptr;
}

std::optional<std::string_view> Cell::text(std::string_view field) const noexcept {
  const Field* const found = find(field);
  if (found == nullptr || found->kind == Kind::kNull) return std::nullopt;
  return found->text;
}

std::string_view Cell::shown(std::string_view field) const noexcept {
  const Field* const found = find(field);
  return found == nullptr ? "" : found->kind == Kind::kNull ? "None" : found->text;
}

std::optional<double> Cell::number(std::string_view field) const {
  const Field* const found = find(field);
  if (found == nullptr || found->kind == Kind::kNull || found->kind == Kind::kOther) return std::nullopt;
  return cell_number(found->text);
}

std::optional<double> ulps(const Cell& target, const Cell* reference) {
  if (reference != nullptr) {
    if (target.text("shape") != reference->text("shape")) return kInfinity;
    if (target.has("md5") && reference->has("md5") && is_tensor(target)) {
      if (target.shown("md5") == reference->shown("md5")) return 0;
      const double found = difference_of_statistics(target, reference).value_or(0);
      return found != 0 ? found : kInfinity;
    }
  } else if (target.shown("Result") == "Different") {
    return kInfinity;
  }
  if (!is_tensor(target)) return difference_of_values(target, reference);
  if (const auto distance = target.number("MaxAbsErr")) {
    if (!std::isfinite(*distance)) return kInfinity;
    const double peak =
        std::max(std::abs(target.number("Max").value_or(0)), std::abs(target.number("Min").value_or(0)));
    const double relative = *distance == 0 ? 0 : peak > 0 ? *distance / peak : kInfinity;
    return trace::in_roundings(relative, trace::dtype_of(target.shown("dtype")));
  }
  return difference_of_statistics(target, reference);
}

bool needs_reference(const Cell& target) {
  if (target.has("MaxAbsErr")) return !target.number("MaxAbsErr");
  if (!target.has("Max diff")) return true;
  return std::any_of(kStatistics.begin(), kStatistics.end(), [&](const Statistic& one) {
    const auto difference = target.number(one.difference);
    return !difference || !std::isfinite(*difference);
  });
}

std::optional<std::int64_t> mark_of(const Cell& cell) {
  if (!trace::is_tensor_type(cell.shown("type"))) return std::nullopt;
  std::string words(cell.text("md5").value_or(""));
  if (words.empty()) {
    if (cell.shown("Max") == cell.shown("Min")) return std::nullopt;
    for (const auto name : {"Max", "Min", "Mean", "Norm"}) {
      const std::string_view value = cell.shown(name);
      if (value.empty() || value == "null") return std::nullopt;
      words.append(value) += ' ';
    }
  } else if (const auto largest = cell.text("Max"); largest && largest == cell.text("Min")) {
    return std::nullopt;
  }
  words.append("|").append(cell.shown("dtype")).append("|").append(cell.shown("shape"));
  return static_cast<std::int64_t>(std::hash<std::string_view>{}(words));
}

}  // namespace msprobe::viewer
