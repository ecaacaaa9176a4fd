// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include "io/json_scanner.h"
#include "msprobe/viewer_cell.h"

namespace msprobe::viewer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

struct Precision {
  std::string_view dtype;
  double epsilon;
};
constexpr std::array<Precision, 9> kPrecisions = {{{"float64", 0x1p-52},
                                                   {"double", 0x1p-52},
                                                   {"float32", 0x1p-23},
                                                   {"float", 0x1p-23},
                                                   {"float16", 0x1p-10},
                                                   {"half", 0x1p-10},
                                                   {"bfloat16", 0x1p-7},
                                                   {"float8_e4m3fn", 0x1p-3},
                                                   {"float8_e5m2", 0x1p-2}}};

constexpr double kShown = 1.01e-6;  // cells hold six decimals, unless they hold an exponent

// What begins with this in the field "type" is a tensor of one of the frameworks.
constexpr std::array<std::string_view, 3> kTensorTypes = {"torch.Tensor", "mindspore.Tensor", "Tensor"};

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

// Of what the largest and the smallest element allow.
double peak_of(const Cell& cell) {
  double peak = 0;
  for (const auto name : {"Max", "Min"}) {
    const auto value = cell.number(name);
    if (value && std::isfinite(*value)) peak = std::max(peak, std::abs(*value));
  }
  return peak;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Elements of a tensor of this shape, "[2, 3]".
double element_count(std::string_view shape) {
  double count = 1;
  while (!shape.empty()) {
    if (!is_digit(shape.front())) {
      shape.remove_prefix(1);
      continue;
    }
    double length = 0;
    for (; !shape.empty() && is_digit(shape.front()); shape.remove_prefix(1)) {
      length = 10 * length + (shape.front() - '0');
    }
    count *= length;
  }
  return count;
}

// The root mean square of the elements.
double typical_of(const Cell& cell) {
  const auto norm = cell.number("Norm");
  if (!norm || !std::isfinite(*norm)) return 0;
  const double count = element_count(cell.text("shape").value_or(""));
  return count > 0 ? *norm / std::sqrt(count) : 0;
}

double in_epsilons(double distance, double size, const Cell& cell) {
  std::string dtype(cell.shown("dtype"));
  dtype.erase(0, dtype.rfind('.') + 1);  // of npos: nothing
  std::transform(dtype.begin(), dtype.end(), dtype.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* const found = std::find_if(kPrecisions.begin(), kPrecisions.end(),
                                         [&](const Precision& one) { return one.dtype == dtype; });
  if (found == kPrecisions.end()) return kInfinity;  // integers and bools have no rounding
  return size > 0 ? distance / size / found->epsilon : kInfinity;
}

// Of what is no tensor.
std::optional<double> difference_of_values(const Cell& target, const Cell* golden) {
  if (golden != nullptr && target.has("value") && golden->has("value")) {
    return target.shown("value") == golden->shown("value") ? 0 : kInfinity;
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

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// What a difference of a statistic is measured against.
double size_of(std::string_view statistic, double ours, double peak, double typical) {
  if (statistic == "Norm") return std::abs(ours);
  return statistic == "Mean" ? std::max(std::abs(ours), typical) : peak;
}

std::optional<double> difference_of(const Statistic& statistic, const Cell& target, const Cell* golden,
                                    double peak, double typical) {
  const auto ours = target.number(statistic.name);
  const auto difference = target.number(statistic.difference);
  const auto other = golden != nullptr ? golden->number(statistic.name) : std::nullopt;
  if (!ours || (!difference && !other)) return std::nullopt;
  const double theirs = other ? *other : *ours;
  if (!std::isfinite(*ours) || !std::isfinite(theirs)) return other && is_same(*ours, theirs) ? 0 : kInfinity;
  const bool is_exact = difference && std::isfinite(*difference);
  const double gap = std::abs(is_exact ? *difference : *ours - theirs);
  if (gap == 0) return 0;
  const double found = in_epsilons(gap, size_of(statistic.name, *ours, peak, typical), target);
  const bool is_cut =
      !is_exact && gap <= kShown && target.shown(statistic.name).find('e') == std::string_view::npos;
  return is_cut ? std::min(found, 1.0) : found;
}

std::optional<double> difference_of_statistics(const Cell& target, const Cell* golden) {
  std::optional<double> worst;
  const double peak = peak_of(target);
  const double typical = typical_of(target);
  for (const Statistic& statistic : kStatistics) {
    const auto found = difference_of(statistic, target, golden, peak, typical);
    if (found) worst = std::max(worst.value_or(0), *found);
  }
  return worst;
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

std::optional<double> ulps(const Cell& target, const Cell* golden) {
  if (golden != nullptr) {
    if (target.text("shape") != golden->text("shape")) return kInfinity;
    if (target.has("md5") && golden->has("md5") && is_tensor(target)) {
      if (target.shown("md5") == golden->shown("md5")) return 0;
      const double found = difference_of_statistics(target, golden).value_or(0);
      return found != 0 ? found : kInfinity;
    }
  } else if (target.shown("Result") == "Different") {
    return kInfinity;
  }
  if (!is_tensor(target)) return difference_of_values(target, golden);
  if (const auto distance = target.number("MaxAbsErr")) {
    if (!std::isfinite(*distance)) return kInfinity;
    return *distance == 0 ? 0 : in_epsilons(*distance, peak_of(target), target);
  }
  return difference_of_statistics(target, golden);
}

bool needs_golden(const Cell& target) {
  if (target.has("MaxAbsErr")) return !target.number("MaxAbsErr");
  if (!target.has("Max diff")) return true;
  return std::any_of(kStatistics.begin(), kStatistics.end(), [&](const Statistic& one) {
    const auto difference = target.number(one.difference);
    return !difference || !std::isfinite(*difference);
  });
}

std::optional<std::int64_t> mark_of(const Cell& cell) {
  const std::string_view type = cell.shown("type");
  if (std::none_of(kTensorTypes.begin(), kTensorTypes.end(),
                   [&](std::string_view one) { return type.starts_with(one); })) {
    return std::nullopt;
  }
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
