// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/non_finite.h"
#include "msprobe/monitor.h"

namespace msprobe::monitor {
namespace {

// In memory at once, of both stores. Of counts, the first so many tell of how many elements they are.
constexpr std::int64_t kRowsAtOnce = 4096;
constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();

// The changes of a series from step to step: the first `size` ones, later the last ones.
class Changes {
 public:
  explicit Changes(std::size_t size) : most_(std::max<std::size_t>(size, 1)) {}

  bool is_full() const { return size() == most_; }
  std::size_t size() const { return changes_.size(); }

  void add(double change) {
    if (!std::isfinite(change)) return;
    if (!is_full()) {
      changes_.push_back(change);
      return;
    }
    changes_[oldest_] = change;
    oldest_ = oldest_ + 1 == most_ ? 0 : oldest_ + 1;
  }

  // Whether high() * factor < distance, in a tenth of its time. False where nothing is known.
  bool is_below(double distance, double factor) const {
    std::size_t below = 0;
    for (const double change : changes_) below += change * factor < distance ? 1 : 0;
    return below > rank();
  }

  // Nine in ten are not above it; NaN: none is known.
  double high() const {
    if (changes_.empty()) return kNaN;
    std::vector<double> sorted = changes_;
    const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(rank());
    std::nth_element(sorted.begin(), place, sorted.end());
    return *place;
  }

 private:
  std::size_t rank() const { return changes_.empty() ? 0 : std::min(size() - 1, size() * 9 / 10); }

  std::size_t most_;
  std::size_t oldest_ = 0;  // of a full window
  std::vector<double> changes_;
};

// The denominator of a share in lowest terms: of so many elements, or a multiple, it may be a share. Of more
// than kMostElements doubles do not tell. By its continued fraction, whose parts are the best approximations.
constexpr double kMostElements = 1 << 26;
double denominator_of(double share) {
  if (!(share > 0 && share < 1)) return 1;
  double above = 1, below = 0, rest = share;  // the two last denominators
  double over = 0, under = 1;                 // and their numerators
  for (;;) {
    const double whole = std::floor(1 / rest);
    rest = 1 / rest - whole;
    below = std::exchange(above, whole * above + below);
    under = std::exchange(over, whole * over + under);
    if (above > kMostElements) return kMostElements;
    if (over / above == share || rest == 0) return above;
  }
}

// What is known of the number of elements that a series is a share of: at least so many.
double elements_of(std::span<const double> shares) {
  double elements = 1;
  for (const double share : shares) {
    if (!is_absent(share)) elements = std::max(elements, denominator_of(share));
  }
  return elements;
}

// Infinite where one number is finite and the other not.
double distance_of(double reference, double target) {
  const bool is_finite = std::isfinite(reference);
  if (is_finite != std::isfinite(target)) return kInfinity;
  return is_finite ? std::abs(target - reference) : 0.0;
}

// What is known of a pair up to a step.
class Watch {
 public:
  Watch(const SeriesPair& pair, const NoiseOptions& options)
      : options_(options), pair_(pair), changes_(options.window) {}

  bool has_parted() const { return has_parted_; }
  const Parting& parting() const { return candidate_; }

  void learn_beginning(std::span<const double> numbers, std::span<const double> of_target) {
    if (pair_.is_count) elements_ = std::max(elements_of(numbers), elements_of(of_target));
    if (!pair_.has_noise) return;
    double before = kNaN;
    for (const double number : numbers) {
      if (is_absent(number)) continue;
      changes_.add(std::abs(number - before));
      before = number;
      if (changes_.is_full()) break;
    }
    from_beginning_ = changes_.size();
  }

  void check(std::int64_t step, double reference, double target) {
    const double distance = distance_of(reference, target);
    if (!first_) first_ = step;
    const double least = least_band(reference, target, step - *first_ + 1);
    const bool is_outside = std::isinf(distance) || (distance > least && leaves_noise(distance));
    const double band = is_outside && std::isfinite(reference) ? half_band(least) : 0.0;
    if (seen_ == 0 && is_outside) candidate_ = {0, step, reference, target, band};
    if (seen_ > 0 || is_outside) {
      seen_ += 1;
      outside_ += is_outside ? 1 : 0;
      if (is_outside && distance > options_.far * band) {  // at once
        if (2 * outside_ <= seen_) candidate_ = {0, step, reference, target, band};
        has_parted_ = true;
      } else if (seen_ >= options_.steps) {
        has_parted_ = 2 * outside_ > seen_;
        seen_ = outside_ = 0;
      }
    }
    learn(reference);
  }

  // The run ends: what began is judged by what there is of it, three steps at least.
  void end() { has_parted_ = has_parted_ || (outside_ >= 3 && 2 * outside_ > seen_); }

 private:
  // Half of it, whatever the noise is. A rounding is as likely anywhere up to its largest one, and both runs
  // have one for each step.
  double least_band(double reference, double target, std::int64_t steps) const {
    const double walk = options_.counts * pair_.kept * std::sqrt(2 * static_cast<double>(steps) / 3);
    const double rounding = std::max(options_.rounding, walk) * std::abs(reference);
    if (!pair_.is_count) return rounding;
    const double count = std::max(reference, target) * elements_;
    return std::max(rounding, options_.counts * std::sqrt(count + 1) / elements_);
  }

  double half_band(double least) const {
    const double high = changes_.high();
    return std::isnan(high) ? least : std::max(options_.changes * high, least);
  }

  bool leaves_noise(double distance) const {
    return changes_.size() == 0 || changes_.is_below(distance, options_.changes);
  }

  void learn(double reference) {
    const double change = std::abs(reference - before_);
    before_ = reference;
    if (!pair_.has_noise || !std::isfinite(change)) return;
    known_ += 1;
    if (known_ > from_beginning_) changes_.add(change);
  }

  const NoiseOptions& options_;
  const SeriesPair& pair_;
  std::optional<std::int64_t> first_;  // step
  double elements_ = 1;                // at least
  Changes changes_;
  std::size_t from_beginning_ = 0;  // so many of the first changes are in the window already
  std::size_t known_ = 0;
  double before_ = kNaN;
  Parting candidate_;
  std::size_t seen_ = 0;  // steps from that of the candidate on; 0: there is none
  std::size_t outside_ = 0;
  bool has_parted_ = false;
};

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// The steps of a range of two runs, and their rows there.
std::vector<std::pair<std::size_t, std::size_t>> common_rows(const std::vector<std::int64_t>& a,
                                                             const std::vector<std::int64_t>& b) {
  std::vector<std::pair<std::size_t, std::size_t>> rows;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i] == b[j]) rows.emplace_back(i, j);
    const std::int64_t at = std::min(a[i], b[j]);
    i += a[i] == at ? 1 : 0;
    j += b[j] == at ? 1 : 0;
  }
  return rows;
}

// So many steps have about kRowsAtOnce rows.
std::int64_t width_of(const StoreReader::Extent& extent) {
  const std::int64_t each = (extent.last - extent.first) / std::max<std::int64_t>(extent.steps, 1) + 1;
  return kRowsAtOnce * each;
}

void sort(std::vector<Parting>& found) {
  const auto bands = [](const Parting& one) {
    const double distance = std::abs(one.target - one.reference);
    return std::isfinite(distance) ? (one.band > 0   ? distance / one.band
                                      : distance > 0 ? HUGE_VAL
                                                     : 0.0)
                                   : HUGE_VAL;
  };
  std::stable_sort(found.begin(), found.end(), [&](const Parting& a, const Parting& b) {
    return a.step != b.step ? a.step < b.step : bands(a) > bands(b);
  });
}

}  // namespace

Partings find_partings(const StoreReader& reference, const StoreReader& target,
                       std::span<const SeriesPair> pairs, const NoiseOptions& options,
                       const std::function<bool(double)>& progress) {
  Partings result;
  const StoreReader::Extent a = reference.extent();
  const StoreReader::Extent b = target.extent();
  if (a.steps == 0 || b.steps == 0 || pairs.empty()) return result;
  const std::int64_t first = std::max(a.first, b.first);
  const std::int64_t last = std::min(a.last, b.last);
  const std::int64_t width = width_of(a);

  std::vector<Watch> watches;
  std::vector<std::uint32_t> of_reference;
  std::vector<std::uint32_t> of_target;
  for (const SeriesPair& pair : pairs) {
    watches.emplace_back(pair, options);
    of_reference.push_back(pair.reference);
    of_target.push_back(pair.target);
  }

  bool is_first = true;
  std::optional<std::int64_t> parted_at;  // as rows that both have
  const auto note = [&](std::size_t pair, Parting parting) {
    parting.pair = pair;
    result.found.push_back(parting);
    if (!parted_at) parted_at = result.common_steps;
  };
  for (std::int64_t from = first; from <= last; from += width) {
    if (progress && !progress(static_cast<double>(from - first) / static_cast<double>(last - first + 1)))
      break;
    const std::int64_t to = std::min(last, from + width - 1);
    const StoreReader::Values left = reference.values(of_reference, from, to);
    const StoreReader::Values right = target.values(of_target, from, to);
    const auto rows = common_rows(left.steps, right.steps);
    result.common_steps += static_cast<std::int64_t>(rows.size());
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      Watch& watch = watches[p];
      if (is_first) watch.learn_beginning(left.numbers[p], right.numbers[p]);
      for (const auto& [i, j] : rows) {
        if (watch.has_parted()) break;
        const double x = left.numbers[p][i];
        const double y = right.numbers[p][j];
        if (is_absent(x) || is_absent(y)) continue;
        std::optional<Parting>& difference = result.first_difference;
        if ((!difference || left.steps[i] < difference->step) && !same_bits(x, y) &&
            !(std::isnan(x) && std::isnan(y))) {
          difference = {p, left.steps[i], x, y, 0.0};
        }
        watch.check(left.steps[i], x, y);
        if (watch.has_parted()) note(p, watch.parting());
      }
    }
    is_first = false;
    if (parted_at && result.common_steps - *parted_at >= static_cast<std::int64_t>(options.behind)) break;
  }
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    if (watches[p].has_parted()) continue;
    watches[p].end();
    if (watches[p].has_parted()) note(p, watches[p].parting());
  }
  sort(result.found);
  return result;
}

std::vector<double> noise_band(const StoreReader& reference, std::uint32_t series,
                               std::span<const std::int64_t> steps, const NoiseOptions& options) {
  const StoreReader::Extent extent = reference.extent();
  const std::int64_t reach =
      2 * static_cast<std::int64_t>(options.window + 1) * (width_of(extent) / kRowsAtOnce);
  const auto changes_of = [&](std::int64_t from, std::int64_t to) {
    Changes changes(options.window);
    double before = kNaN;
    const StoreReader::Values values = reference.values({&series, 1}, from, to);
    for (const double number : values.numbers.front()) {
      if (is_absent(number)) continue;
      changes.add(std::abs(number - before));
      before = number;
    }
    return changes;
  };
  // At the beginning: the first changes, as find_partings() has it.
  Changes beginning(options.window);
  double before = kNaN;
  const StoreReader::Values values = reference.values({&series, 1}, kFirst, extent.first + reach);
  for (const double number : values.numbers.front()) {
    if (is_absent(number)) continue;
    beginning.add(std::abs(number - before));
    before = number;
    if (beginning.is_full()) break;
  }
  std::vector<double> bands;
  for (const std::int64_t step : steps) {
    const std::int64_t from = step - reach;
    const Changes changes = from <= extent.first ? beginning : changes_of(from, step - 1);
    const double high = changes.high();
    bands.push_back(std::isnan(high) ? kNaN : options.changes * high);
  }
  return bands;
}

}  // namespace msprobe::monitor
