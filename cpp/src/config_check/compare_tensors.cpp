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

bool is_close(double reference, double target, double limit, double norm) {
  if (reference == target || (std::isnan(reference) && std::isnan(target))) return true;
  // A mean of nearly nothing: what counts is the size of what was summed.
  const double size = std::max({std::abs(reference), std::abs(target), std::min(norm, 1.0) * 1e-3});
  return limit > 0 && std::abs(reference - target) <= limit * size;
}

bool are_close(const Statistics& reference, const Statistics& target, double limit) {
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (!is_close(reference[i], target[i], i < kExactOfAnyTool ? 0.0 : limit, reference.back())) return false;
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
Verdict verdict(const Statistics& reference, const Statistics& target, const Fingerprint* reference_print,
                const Fingerprint* target_print, bool tolerant) {
  const bool same = are_close(reference, target, tolerant ? kOtherTool : 0.0);
  if (tolerant || reference_print == nullptr || target_print == nullptr) {
    return same ? Verdict::kEqual : Verdict::kOtherStatistics;
  }
  if (*reference_print == *target_print) return Verdict::kEqual;
  if (member(*reference_print, "dtype") != member(*target_print, "dtype")) return Verdict::kOtherType;
  if (member(*reference_print, "shape") != member(*target_print, "shape")) return Verdict::kOtherShape;
  return same ? Verdict::kOtherElements : Verdict::kOtherValues;
}

// With the sign of `reference`, to 16 digits.
double relative_difference(double reference, double target) {
  const double value = reference == 0 ? kNone : std::abs(reference - target) / reference;
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
std::optional<Side> read_side(const PackFile& pack, const TensorEntries& entries, bool is_reference,
                              bool nested, std::vector<Problem>& problems) {
  Side side;
  const auto try_to = [&](const Entry& entry, const auto& read) {
    try {
      read(pack.content(entry));
      return true;
    } catch (const FormatError& error) {
      const std::string text = error.what();
      const std::string path = entry.name + ": ";
      problems.push_back(
          {is_reference, entry.name, text.starts_with(path) ? text.substr(path.size()) : text});
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

std::vector<TensorRow> rows_of(const Side& reference, const Side& target, bool tolerant) {
  std::vector<TensorRow> rows;
  rows.reserve(reference.leaves.all().size());
  for (const auto& [name, ours] : reference.leaves.all()) {
    const Leaf* other = target.leaves.find(name);
    if (other == nullptr) {
      rows.push_back(row_without_differences(name, Verdict::kOnlyReference));
      continue;
    }
    const std::optional<Statistics>& theirs = other->statistics;
    if (!ours && !theirs) continue;  // texts and numbers are not recorded
    if (!ours || !theirs) {
      rows.push_back(row_without_differences(name, Verdict::kNoTensor));
      continue;
    }
    TensorRow& row = rows.emplace_back();
    row.name = name;
    const Statistics& a = *ours;
    const Statistics& b = *theirs;
    row.verdict = verdict(a, b, print_of(reference.prints, name), print_of(target.prints, name), tolerant);
    for (std::size_t i = 0; i < a.size(); ++i) row.relative_differences[i] = relative_difference(a[i], b[i]);
  }
  for (const auto& [name, _] : target.leaves.all()) {
    if (reference.leaves.find(name) == nullptr)
      rows.push_back(row_without_differences(name, Verdict::kOnlyTarget));
  }
  return rows;
}

}  // namespace

std::vector<TensorComparison> compare_tensors(const PackFile& reference, const PackFile& target,
                                              std::span<const std::pair<TensorEntries, TensorEntries>> pairs,
                                              const CompareOptions& options) {
  std::vector<TensorComparison> results(pairs.size());
  ThreadPool pool(options.threads);
  pool.parallel_for(pairs.size(), [&](std::size_t i) {
    TensorComparison& result = results[i];
    const auto ours = read_side(reference, pairs[i].first, true, options.nested, result.problems);
    const auto theirs = read_side(target, pairs[i].second, false, options.nested, result.problems);
    result.complete = ours && theirs;
    if (result.complete) result.rows = rows_of(*ours, *theirs, options.tolerant);
  });
  return results;
}

}  // namespace msprobe::config_check
