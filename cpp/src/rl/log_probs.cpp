// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/convert.h"
#include "rl/batches.h"

namespace msprobe::rl {
namespace {

constexpr std::size_t kMostProblems = 100;

// The tokens of a part of one array. Places of tokens are positions in C order until finish().
struct Part {
  LogProbComparison sums;
  std::optional<std::int64_t> first;
  std::optional<std::int64_t> worst;
  double first_values[2] = {};
  double worst_values[2] = {};
};

void add_token(double reference, double target, std::int64_t at, double tolerance, Part& part) {
  LogProbComparison& sums = part.sums;
  ++sums.tokens;
  const double d = reference == target ? 0 : target - reference;  // equal infinities are equal
  if (!std::isfinite(d)) ++sums.not_finite;
  const bool both_nan = std::isnan(reference) && std::isnan(target);
  if (!both_nan && !(std::abs(d) <= tolerance)) {
    ++sums.beyond;
    if (!part.first) {
      part.first = at;
      part.first_values[0] = reference;
      part.first_values[1] = target;
    }
  }
  if (!std::isfinite(d)) return;
  const double ratio = std::exp(d);
  const double p = std::exp(reference);
  const double q = std::exp(target);
  sums.sum_absolute += std::abs(d);
  sums.sum_k1 -= d;
  sums.sum_k3 += std::expm1(d) - d;
  sums.sum_ratio += ratio;
  sums.sum_squared_ratio += ratio * ratio;
  sums.sum_probability_difference += std::abs(q - p);
  sums.max_probability_difference = std::max(sums.max_probability_difference, std::abs(q - p));
  sums.sum_reference += p;
  sums.sum_target += q;
  sums.sum_reference_squared += p * p;
  sums.sum_target_squared += q * q;
  sums.sum_reference_target += p * q;
  const auto interval = std::lower_bound(kRatioBounds.begin(), kRatioBounds.end(), ratio);
  ++sums.ratio_counts[static_cast<std::size_t>(interval - kRatioBounds.begin())];
  if (std::abs(d) > sums.max_absolute) {
    sums.max_absolute = std::abs(d);
    part.worst = at;
    part.worst_values[0] = reference;
    part.worst_values[1] = target;
  }
}

Part compare_tokens(const OpenPair& open, const ArrayReader* mask, std::int64_t begin, std::int64_t count,
                    double tolerance) {
  Room& room = room_of_this_thread();
  Part part;
  std::vector<double> values(3 * kPieceElements);
  double* const reference = values.data();
  double* const target = reference + kPieceElements;
  double* const kept = target + kPieceElements;
  const auto read = [&](const ArrayReader& reader, std::int64_t at, std::size_t some, std::byte* raw,
                        double* out) {
    reader.read(at, some, raw);
    convert_to_double(raw, reader.header().dtype, some, out);
  };
  for (std::int64_t at = begin; at < begin + count; at += static_cast<std::int64_t>(kPieceElements)) {
    const auto some = static_cast<std::size_t>(std::min<std::int64_t>(kPieceElements, begin + count - at));
    read(*open.reference, at, some, room.reference.data(), reference);
    read(*open.target, at, some, room.target.data(), target);
    if (mask != nullptr) read(*mask, at, some, room.third.data(), kept);
    for (std::size_t i = 0; i < some; ++i) {
      if (mask != nullptr && kept[i] == 0) {
        ++part.sums.masked;
      } else {
        add_token(reference[i], target[i], at + static_cast<std::int64_t>(i), tolerance, part);
      }
    }
  }
  return part;
}

TokenDifference token_at(const Place& place, const Shape& shape, std::int64_t at, const double (&values)[2]) {
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  return {place, at / row, at % row, values[0], values[1]};
}

void append(LogProbComparison& whole, const Part& part, const Place& place, const Shape& shape) {
  const LogProbComparison& sums = part.sums;
  if (!whole.first && part.first) whole.first = token_at(place, shape, *part.first, part.first_values);
  if (part.worst && sums.max_absolute > whole.max_absolute) {
    whole.worst = token_at(place, shape, *part.worst, part.worst_values);
  }
  whole.tokens += sums.tokens;
  whole.beyond += sums.beyond;
  whole.not_finite += sums.not_finite;
  whole.masked += sums.masked;
  whole.sum_absolute += sums.sum_absolute;
  whole.max_absolute = std::max(whole.max_absolute, sums.max_absolute);
  whole.sum_k1 += sums.sum_k1;
  whole.sum_k3 += sums.sum_k3;
  whole.sum_ratio += sums.sum_ratio;
  whole.sum_squared_ratio += sums.sum_squared_ratio;
  whole.sum_probability_difference += sums.sum_probability_difference;
  whole.max_probability_difference =
      std::max(whole.max_probability_difference, sums.max_probability_difference);
  whole.sum_reference += sums.sum_reference;
  whole.sum_target += sums.sum_target;
  whole.sum_reference_squared += sums.sum_reference_squared;
  whole.sum_target_squared += sums.sum_target_squared;
  whole.sum_reference_target += sums.sum_reference_target;
  for (std::size_t i = 0; i < whole.ratio_counts.size(); ++i) whole.ratio_counts[i] += sums.ratio_counts[i];
}

std::map<Place, std::filesystem::path> by_place(std::vector<SavedArray> found) {
  std::map<Place, std::filesystem::path> result;
  for (SavedArray& one : found) result.emplace(std::move(one.place), std::move(one.file));
  return result;
}

// The mask beside an array: of the same shape, or none.
std::unique_ptr<ArrayReader> open_mask(const std::map<Place, std::filesystem::path>& masks,
                                       const Place& place, const OpenPair& open) {
  const auto found = masks.find(place);
  if (found == masks.end()) return nullptr;
  auto mask = std::make_unique<ArrayReader>(found->second);
  if (mask->header().shape != open.reference->header().shape || is_complex(mask->header().dtype))
    return nullptr;
  mask->choose(open.part);
  return mask;
}

}  // namespace

LogProbComparison compare_log_probs(const std::filesystem::path& reference,
                                    const std::filesystem::path& target, const std::string& reference_key,
                                    const std::string& target_key, const LogProbOptions& options) {
  const Paired both = paired(arrays(reference, reference_key), arrays(target, target_key));
  const auto masks = options.mask_key.empty() ? std::map<Place, std::filesystem::path>()
                                              : by_place(arrays(reference, options.mask_key));
  LogProbComparison result;
  result.reference_only = static_cast<std::int64_t>(both.reference_only.size());
  result.target_only = static_cast<std::int64_t>(both.target_only.size());
  std::vector<std::vector<Part>> parts(both.pairs.size());
  std::vector<std::unique_ptr<ArrayReader>> open_masks(both.pairs.size());
  for_batches(
      both.pairs, options.threads, options.progress,
      [&](std::size_t i, OpenPair& open) {
        parts[i].resize(static_cast<std::size_t>((open.count + kPartElements - 1) / kPartElements));
        try {
          open_masks[i] = open_mask(masks, both.pairs[i].place, open);
        } catch (const Error& error) {
          open.problem = error.what();
        }
      },
      [&](std::size_t i, std::size_t part, const OpenPair& open, std::int64_t first, std::int64_t count) {
        parts[i][part] = compare_tokens(open, open_masks[i].get(), first, count, options.tolerance);
      },
      [&](std::size_t i, const OpenPair& open) {
        open_masks[i].reset();
        const std::vector<Part> found = std::exchange(parts[i], {});
        if (!open.problem.empty()) {
          if (result.problems.size() < kMostProblems) result.problems.push_back(open.problem);
          return;
        }
        ++result.arrays;
        for (const Part& part : found) append(result, part, both.pairs[i].place, open.part.shape);
      });
  return result;
}

}  // namespace msprobe::rl
