// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/match/align.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace msprobe::trace {
namespace {

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

constexpr std::size_t kLargestTable = 25'000'000;
constexpr int kMostDifferences = 4000;

// A pair of operators counts so much that no number of equal details makes up for one pair less, and an equal
// detail so much that no number of sizes does.
constexpr std::uint64_t kPair = 1ULL << 40, kLike = 1ULL << 20;

// Of two calls that are not the same one, the sizes agree so well in one of a thousand.
constexpr int kSameBits = 10;

// The part of both sequences that is still to be aligned.
struct Gap {
  std::span<const Token> target, reference;
  std::uint32_t target_begin = 0, reference_begin = 0;
};

// Takes equal tokens from both ends of the gap.
template <typename Equal>
void trim(Gap& gap, Pairs& pairs, const Equal& equal) {
  while (!gap.target.empty() && !gap.reference.empty() && equal(gap.target.front(), gap.reference.front())) {
    pairs.emplace_back(gap.target_begin++, gap.reference_begin++);
    gap.target = gap.target.subspan(1);
    gap.reference = gap.reference.subspan(1);
  }
  while (!gap.target.empty() && !gap.reference.empty() && equal(gap.target.back(), gap.reference.back())) {
    gap.target = gap.target.first(gap.target.size() - 1);
    gap.reference = gap.reference.first(gap.reference.size() - 1);
    pairs.emplace_back(gap.target_begin + gap.target.size(), gap.reference_begin + gap.reference.size());
  }
}

// Needleman and Wunsch, "A general method applicable to the search for similarities in the amino acid
// sequence of two proteins", 1970, without a penalty for gaps.
void align_by_table(const Gap& gap, Pairs& pairs) {
  enum Step : std::uint8_t { kPaired, kSkipTarget, kSkipReference };
  const std::size_t rows = gap.target.size(), columns = gap.reference.size();
  std::vector<std::uint8_t> steps(rows * columns);
  std::vector<std::uint64_t> above(columns + 1), score(columns + 1);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const Token &a = gap.target[i], &b = gap.reference[j];
      const bool skip_target = above[j + 1] >= score[j];
      std::uint64_t best = skip_target ? above[j + 1] : score[j];
      std::uint8_t step = skip_target ? kSkipTarget : kSkipReference;
      if (a.what == b.what) {
        const std::uint64_t paired =
            above[j] + kPair + (a.is_like(b) ? kLike : 0) + static_cast<std::uint64_t>(a.agreement(b));
        if (paired > best) {
          best = paired;
          step = kPaired;
        }
      }
      score[j + 1] = best;
      steps[i * columns + j] = step;
    }
    std::swap(above, score);
    score[0] = 0;
  }
  for (std::size_t i = rows, j = columns; i > 0 && j > 0;) {
    const std::uint8_t step = steps[(i - 1) * columns + j - 1];
    if (step == kPaired) {
      pairs.emplace_back(gap.target_begin + i - 1, gap.reference_begin + j - 1);
    }
    if (step != kSkipReference) --i;
    if (step != kSkipTarget) --j;
  }
}

// Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1986: quick where little differs.
class Differences {
 public:
  explicit Differences(const Gap& gap)
      : gap_(gap),
        rows_(static_cast<int>(gap.target.size())),
        columns_(static_cast<int>(gap.reference.size())) {}

  void align(Pairs& pairs) {
    const int most = std::min(kMostDifferences, rows_ + columns_);
    int count = 0;
    while (count <= most && !advance(count)) ++count;
    if (count <= most) go_back(count, pairs);
  }

 private:
  static constexpr int kUnreachable = -1'000'000'000;

  static std::size_t place(int count, int diagonal) {
    const int index = diagonal + count;
    return static_cast<std::size_t>(index);
  }
  // The row to which `count` differences lead on a diagonal (row - column), -count <= diagonal <= count.
  int reached(int count, int diagonal) const {
    return reached_[static_cast<std::size_t>(count)][place(count, diagonal)];
  }
  bool came_from_above(int count, int diagonal) const {
    return diagonal == count ||
           (diagonal != -count && reached(count - 1, diagonal - 1) + 1 >= reached(count - 1, diagonal + 1));
  }
  // The row in which the run of equal tokens starts after the last difference.
  int start(int count, int diagonal) const {
    if (count == 0) return 0;
    return came_from_above(count, diagonal) ? reached(count - 1, diagonal - 1) + 1
                                            : reached(count - 1, diagonal + 1);
  }

  // Finds how far one difference more leads; true at the end of both sequences.
  bool advance(int count) {
    std::vector<int> rows(2 * static_cast<std::size_t>(count) + 1, kUnreachable);
    bool done = false;
    for (int diagonal = -count; diagonal <= count; diagonal += 2) {
      int i = start(count, diagonal);
      if (i < 0 || i > rows_ || i < diagonal || i - diagonal > columns_) continue;
      while (i < rows_ && i - diagonal < columns_ && equal(i, i - diagonal)) ++i;
      rows[place(count, diagonal)] = i;
      done |= i == rows_ && i - diagonal == columns_;
    }
    reached_.push_back(std::move(rows));
    return done;
  }

  void go_back(int count, Pairs& pairs) const {
    int i = rows_, j = columns_;
    for (; count >= 0; --count) {
      const int diagonal = i - j;
      for (const int first = start(count, diagonal); i > first; --i, --j) {
        pairs.emplace_back(gap_.target_begin + static_cast<std::uint32_t>(i) - 1,
                           gap_.reference_begin + static_cast<std::uint32_t>(j) - 1);
      }
      if (count > 0) --(came_from_above(count, diagonal) ? i : j);
    }
  }

  bool equal(int i, int j) const {
    return gap_.target[static_cast<std::size_t>(i)].what == gap_.reference[static_cast<std::size_t>(j)].what;
  }

  const Gap& gap_;
  const int rows_, columns_;
  std::vector<std::vector<int>> reached_;
};

}  // namespace

Token token_of(std::string_view what, const Trace& trace, const Record& record) {
  const std::hash<std::string_view> hash;
  std::size_t detail = 0;
  std::uint64_t flags = 0;
  double size = 0;
  const auto add = [&detail](std::size_t value) {
    detail = detail * 0x9e3779b97f4a7c15ULL + value + (detail >> 29);
  };
  for (const Item& item : trace.items(record)) {
    add(hash(trace.text(item.shape)));
    const auto dtype = item.element_type();  // frameworks name one in other ways
    add(dtype ? static_cast<std::size_t>(*dtype) : hash(trace.text(item.dtype)));
    if (item.kind == Item::Kind::kValue && item.value.kind == Scalar::Kind::kFloat)
      add(hash(trace.text(item.value)));
    if (item.requires_grad) flags = flags * 3 + (*item.requires_grad ? 2 : 1);
    const bool is_result = item.part == Item::Part::kOutput && item.kind == Item::Kind::kTensor;
    if (is_result && size == 0) size = trace.number(item.norm).value_or(0);
  }
  return {.what = hash(what), .detail = detail, .flags = flags, .size = std::isfinite(size) ? size : 0};
}

Pairs align(std::span<const Token> target, std::span<const Token> reference) {
  Pairs pairs;
  Gap gap{.target = target, .reference = reference};
  // Where both have the same calls, whatever came of them.
  const auto is_like = [](const Token& a, const Token& b) { return a.is_like(b); };
  const bool is_same = std::ranges::equal(target, reference, is_like);
  trim(gap, pairs, [&](const Token& a, const Token& b) {
    return a.is_like(b) && (is_same || a.agreement(b) >= kSameBits);
  });
  if (gap.target.size() * gap.reference.size() > kLargestTable) {
    trim(gap, pairs, [](const Token& a, const Token& b) { return a.what == b.what; });
  }
  if (!gap.target.empty() && !gap.reference.empty()) {
    const bool small = gap.target.size() * gap.reference.size() <= kLargestTable;
    small ? align_by_table(gap, pairs) : Differences(gap).align(pairs);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace msprobe::trace
