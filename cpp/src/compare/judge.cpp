// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/row_statistics.h"
#include "msprobe/compare.h"
#include "trace/item/item_text.h"

// The rules of the table: which row is a warning and which gets a colour. They are mindstudio-probe's, and
// say how large a difference is, not where it comes from.
namespace msprobe::compare {
namespace {

using trace::ItemPair;

constexpr double kEpsilon = 2.220446049250313e-16;

// What the colours of a batch are decided by.
struct RowNumbers {
  std::optional<double> target_max, target_min, reference_max;
  std::optional<double> error;  // difference of the maxima, or largest absolute error
  std::optional<double> ratio;  // one thousandth error ratio
  std::optional<double> cosine;

  bool complete() const noexcept { return target_max && !std::isnan(*target_max) && reference_max && error; }
};

// As Python sees it: True and False are numbers too.
std::optional<double> number(const trace::Trace& trace, const trace::Scalar& scalar,
                             std::optional<double> known) {
  if (scalar.kind == trace::Scalar::Kind::kBool) return trace.text(scalar) == "True" ? 1 : 0;
  return known;
}

std::optional<double> without_nan(std::optional<double> value) {
  return value && std::isnan(*value) ? std::nullopt : value;
}

RowNumbers numbers_of(const DumpPair& pair, const StatisticsPair& statistics, const RealMetrics* metrics) {
  RowNumbers numbers;
  numbers.target_max = number(pair.target, statistics.target[0], statistics.target_numbers[0]);
  numbers.target_min = number(pair.target, statistics.target[1], statistics.target_numbers[1]);
  numbers.reference_max =
      without_nan(number(pair.reference, statistics.reference[0], statistics.reference_numbers[0]));
  if (metrics != nullptr) {
    numbers.error = metrics->max_absolute.number();
    numbers.ratio = metrics->one_thousandth.number();
    numbers.cosine = metrics->cosine.number();
  } else {
    numbers.error = statistics.differences[0].difference.number();
  }
  return numbers;
}

void add_reason(RowVerdict& verdict, std::string_view reason) {
  if (!verdict.message.empty()) verdict.message += '\n';
  verdict.message += reason;
}

double order_of_magnitude(double value) { return std::abs(value) < 1 ? 0 : std::log10(std::abs(value)); }

// Reasons of a row, by colour: yellow ones are dropped from red rows.
struct Reasons {
  std::vector<std::string_view> red, yellow;
};

void judge_alone(const RowNumbers& row, Reasons& reasons) {
  const auto is_bad = [](std::optional<double> value) { return value && !std::isfinite(*value); };
  if (is_bad(row.target_max) || is_bad(row.target_min)) {
    reasons.red.emplace_back("maximum or minimum is nan, -inf, or inf");
  }
  if (row.error && std::isfinite(*row.error) && std::abs(*row.error) > 1e10) {
    reasons.red.emplace_back("maximum absolute error exceeds 1e+10");
  }
}

void judge_magnitude(const RowNumbers& in, const RowNumbers& out, Reasons& reasons) {
  const double before = in.error.value_or(0), after = out.error.value_or(0);
  if (std::abs(before) > std::abs(after)) return;
  if (order_of_magnitude(after) - order_of_magnitude(before) >= 1) {
    reasons.yellow.emplace_back(
        "maximum absolute error of both input/parameters and output exceed 1, with the output larger by an "
        "order of magnitude");
  }
}

void judge_statistics(const RowNumbers& in, const RowNumbers& out, Reasons& reasons) {
  const auto relative = [](const RowNumbers& row) {
    return std::abs(row.error.value_or(0) / std::max(kEpsilon, row.reference_max.value_or(0)));
  };
  if (relative(out) > 0.5) {
    reasons.red.emplace_back("maximum relative error exceeds 0.5");
  } else if (relative(out) > 0.1 && relative(in) < 0.01) {
    reasons.yellow.emplace_back(
        "The output's maximum relative error exceeds 0.1, while the input/parameter's is below 0.01");
  }
}

void judge_real_data(const RowNumbers& in, const RowNumbers& out, Reasons& reasons) {
  if (in.ratio && out.ratio) {
    if (*in.ratio > 0.9 && *out.ratio < 0.6) {
      reasons.red.emplace_back(
          "The input/parameter's one thousandth err ratio exceeds 0.9, while the output's is below 0.6");
    } else if (*in.ratio - *out.ratio > 0.1) {
      reasons.yellow.emplace_back(
          "The output's one thousandth err ratio decreases by more than 0.1 compared to the "
          "input/parameter's");
    }
  }
  if (in.cosine && out.cosine && *in.cosine - *out.cosine > 0.1) {
    reasons.yellow.emplace_back(
        "The output's cosine decreases by more than 0.1 compared to the input/parameter's");
  }
}

// What a row is to the rule that compares results with what went in. Gradients of parameters are neither.
enum class Role : std::uint8_t { kInput, kOutput, kNeither };

// The first row counts as an input, whatever it is.
Role role_of(const trace::Item& item, bool is_first) {
  if (is_first) return Role::kInput;
  if (item.part == trace::Item::Part::kOutput) return Role::kOutput;
  return item.part == trace::Item::Part::kGradients ? Role::kNeither : Role::kInput;
}

// The colours of the rows of one record.
void colour(const std::vector<RowNumbers>& rows, const std::vector<Role>& roles, bool is_real,
            std::vector<RowVerdict>& verdicts) {
  for (std::size_t o = 0; o < rows.size(); ++o) {
    Reasons reasons;
    judge_alone(rows[o], reasons);
    const bool is_result = roles[o] == Role::kOutput && rows[o].complete();
    for (std::size_t i = 0; is_result && i < rows.size(); ++i) {
      if (roles[i] != Role::kInput || !rows[i].complete()) continue;
      judge_magnitude(rows[i], rows[o], reasons);
      is_real ? judge_real_data(rows[i], rows[o], reasons) : judge_statistics(rows[i], rows[o], reasons);
    }
    if (reasons.red.empty() && reasons.yellow.empty()) continue;
    verdicts[o].colour = reasons.red.empty() ? Colour::kYellow : Colour::kRed;
    for (const std::string_view reason : reasons.red.empty() ? reasons.yellow : reasons.red) {
      add_reason(verdicts[o], reason);
    }
  }
}

constexpr std::string_view kNoBenchData = "No bench data matched.";

RowVerdict judge_md5(const DumpPair& pair, const ItemPair& row) {
  RowVerdict verdict;
  const trace::Item* const reference = pair.reference_item(row);
  if (reference == nullptr) {
    verdict.result = "N/A";
  } else {
    const bool same = md5_text(pair.target, pair.target_item(row)) == md5_text(pair.reference, *reference);
    verdict.result = same ? "pass" : "Different";
    verdict.fails = !same;
  }
  return verdict;
}

RowVerdict judge_differences(const ItemPair& row, const StatisticsPair& statistics) {
  RowVerdict verdict;
  if (!row.reference) {
    verdict.result = "N/A";
    verdict.message = kNoBenchData;
    return verdict;
  }
  for (std::size_t i = 0; i < statistics.differences.size(); ++i) {
    const auto difference = statistics.differences[i].difference.number();
    if (!difference) continue;
    const double larger =
        std::max(statistics.target_numbers[i].value_or(0), statistics.reference_numbers[i].value_or(0));
    if (std::abs(*difference) / (std::abs(larger) + 1e-10) > 0.5) {
      verdict.result = "Warning";
      verdict.message = "Need double check api accuracy.";
      verdict.fails = true;
      break;
    }
  }
  return verdict;
}

}  // namespace

void read_statistics(const DumpPair& pair, std::size_t begin, std::size_t end,
                     std::vector<StatisticsPair>& statistics) {
  statistics.assign(end - begin, {});
  if (pair.mode == Mode::kMd5) return;
  for (std::size_t i = begin; i < end; ++i) {
    const ItemPair& row = pair.matches.pairs[i];
    statistics[i - begin] = trace::compare_statistics(pair.target, pair.target_item(row), pair.reference,
                                                      pair.reference_item(row));
  }
}

void judge_record(const DumpPair& pair, const std::vector<RealMetrics>& metrics, std::size_t begin,
                  std::span<const StatisticsPair> statistics, std::vector<RowVerdict>& verdicts) {
  const auto& rows = pair.matches.pairs;
  const std::size_t count = statistics.size();
  verdicts.assign(count, {});
  for (std::size_t i = 0; i < count; ++i) {
    RowVerdict& verdict = verdicts[i];
    if (pair.mode == Mode::kMd5) {
      verdict = judge_md5(pair, rows[begin + i]);
    } else if (pair.mode == Mode::kStatistics) {
      verdict = judge_differences(rows[begin + i], statistics[i]);
    } else {
      const RealMetrics& measured = metrics[begin + i];
      verdict.result = measured.accuracy;
      verdict.message = measured.message;
      verdict.fails = measured.accuracy == "No";
    }
  }
  if (pair.mode == Mode::kMd5 || pair.is_debug()) return;
  std::vector<RowNumbers> numbers(count);
  std::vector<Role> roles(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = numbers_of(pair, statistics[i], metrics.empty() ? nullptr : &metrics[begin + i]);
    roles[i] = role_of(pair.target_item(rows[begin + i]), i == 0);
  }
  colour(numbers, roles, !metrics.empty(), verdicts);
}

void judge_record(const DumpPair& pair, const std::vector<RealMetrics>& metrics, std::size_t begin,
                  std::size_t end, std::vector<RowVerdict>& verdicts) {
  std::vector<StatisticsPair> statistics;
  read_statistics(pair, begin, end, statistics);
  judge_record(pair, metrics, begin, statistics, verdicts);
}

}  // namespace msprobe::compare
