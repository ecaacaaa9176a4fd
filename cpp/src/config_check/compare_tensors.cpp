// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "config_check/tensor_entry.h"
#include "msprobe/config_check.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"

namespace msprobe::config_check {
namespace {

// Of mean and norm between different tools: their sums run in different orders, mindstudio-probe's in
// float32, whose norm of millions of elements is off by 1e-4.
constexpr double kOtherTool = 1e-3;
constexpr std::size_t kExactOfAnyTool = 2;  // max and min

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool is_close(double left, double right, double limit, double norm) {
  if (left == right || (std::isnan(left) && std::isnan(right))) return true;
  // A mean of nearly nothing: what counts is the size of what was summed.
  const double size = std::max({std::abs(left), std::abs(right), std::min(norm, 1.0) * 1e-3});
  return limit > 0 && std::abs(left - right) <= limit * size;
}

bool are_close(const Statistics& left, const Statistics& right, double limit) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!is_close(left[i], right[i], i < kExactOfAnyTool ? 0.0 : limit, left.back())) return false;
  }
  return true;
}

std::string_view member(const Fingerprint& print, std::string_view name) {
  for (const auto& [key, value] : print) {
    if (key == name) return value;
  }
  return {};
}

// A fingerprint sees what statistics cannot.
Verdict verdict(const Statistics& left, const Statistics& right, const Fingerprint* left_print,
                const Fingerprint* right_print, bool tolerant) {
  const bool same = are_close(left, right, tolerant ? kOtherTool : 0.0);
  if (tolerant || left_print == nullptr || right_print == nullptr) {
    return same ? Verdict::kEqual : Verdict::kOtherStatistics;
  }
  if (*left_print == *right_print) return Verdict::kEqual;
  if (member(*left_print, "dtype") != member(*right_print, "dtype")) return Verdict::kOtherType;
  if (member(*left_print, "shape") != member(*right_print, "shape")) return Verdict::kOtherShape;
  return same ? Verdict::kOtherElements : Verdict::kOtherValues;
}

// With the sign of `bench`, to 16 digits.
double relative_difference(double bench, double cmp) {
  const double value = bench == 0 ? kNone : std::abs(bench - cmp) / bench;
  if (!std::isfinite(value) || value == 0) return value;
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 16).ptr;
  double rounded = value;
  std::from_chars(text.data(), end, rounded);
  return rounded;
}

TensorRow row_without_differences(const std::string& name, Verdict verdict) {
  return {name, verdict, {kNone, kNone, kNone, kNone}};
}

const Fingerprint* print_of(const Fingerprints& prints, const std::string& name) {
  const auto found = prints.find(name);
  return found == prints.end() ? nullptr : &found->second;
}

// What is read of a side.
struct Side {
  Leaves leaves;
  Fingerprints prints;
};

// Adds what cannot be read to `problems`; nothing without statistics.
std::optional<Side> read_side(const PackFile& pack, const TensorEntries& entries, bool is_bench, bool nested,
                              std::vector<Problem>& problems) {
  Side side;
  const auto try_to = [&](const Entry& entry, const auto& read) {
    try {
      read(pack.content(entry));
      return true;
    } catch (const FormatError& error) {
      const std::string text = error.what();
      const std::string path = entry.name + ": ";
      problems.push_back({is_bench, entry.name, text.starts_with(path) ? text.substr(path.size()) : text});
      return false;
    }
  };
  const bool complete = try_to(entries.statistics, [&](std::string content) {
    side.leaves = read_leaves(std::move(content), entries.statistics.name, nested);
  });
  if (entries.fingerprints) {
    try_to(*entries.fingerprints, [&](std::string content) {
      side.prints = read_fingerprints(std::move(content), entries.fingerprints->name);
    });
  }
  if (!complete) return std::nullopt;
  return side;
}

std::vector<TensorRow> rows_of(const Side& bench, const Side& cmp, bool tolerant) {
  std::vector<TensorRow> rows;
  rows.reserve(bench.leaves.all().size());
  for (const auto& [name, left] : bench.leaves.all()) {
    const Leaf* other = cmp.leaves.find(name);
    if (other == nullptr) {
      rows.push_back(row_without_differences(name, Verdict::kOnlyBench));
      continue;
    }
    const std::optional<Statistics>& right = other->statistics;
    if (!left && !right) continue;  // texts and numbers are not recorded
    if (!left || !right) {
      rows.push_back(row_without_differences(name, Verdict::kNoTensor));
      continue;
    }
    TensorRow& row = rows.emplace_back();
    row.name = name;
    const Statistics& a = *left;
    const Statistics& b = *right;
    row.verdict = verdict(a, b, print_of(bench.prints, name), print_of(cmp.prints, name), tolerant);
    for (std::size_t i = 0; i < a.size(); ++i) row.relative_differences[i] = relative_difference(a[i], b[i]);
  }
  for (const auto& [name, _] : cmp.leaves.all()) {
    if (bench.leaves.find(name) == nullptr) rows.push_back(row_without_differences(name, Verdict::kOnlyCmp));
  }
  return rows;
}

}  // namespace

std::vector<TensorComparison> compare_tensors(const PackFile& bench, const PackFile& cmp,
                                              std::span<const std::pair<TensorEntries, TensorEntries>> pairs,
                                              const CompareOptions& options) {
  std::vector<TensorComparison> results(pairs.size());
  ThreadPool pool(options.threads);
  pool.parallel_for(pairs.size(), [&](std::size_t i) {
    TensorComparison& result = results[i];
    const auto left = read_side(bench, pairs[i].first, true, options.nested, result.problems);
    const auto right = read_side(cmp, pairs[i].second, false, options.nested, result.problems);
    result.complete = left && right;
    if (result.complete) result.rows = rows_of(*left, *right, options.tolerant);
  });
  return results;
}

}  // namespace msprobe::config_check
