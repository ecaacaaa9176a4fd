// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "msprobe/operators.h"

namespace msprobe::operators {
namespace {

using Shape = std::vector<std::int64_t>;

double product(std::span<const std::int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), 1.0,
                         [](double all, std::int64_t one) { return all * static_cast<double>(one); });
}

double last(const Shape& shape) { return shape.empty() ? 1 : static_cast<double>(shape.back()); }

double largest(const Shape& shape) {
  return shape.empty() ? 1 : static_cast<double>(*std::max_element(shape.begin(), shape.end()));
}

class Counter {
 public:
  explicit Counter(const CallShape& call) : call_(call) {}

  double count(const Row& row) const {
    const Shape& first = tensor(0);
    switch (row.terms) {
      case Terms::kRatio: return ratio();
      case Terms::kPair: return 2;
      case Terms::kLast: return last(tensor(row.terms_of));
      case Terms::kContraction: return std::sqrt(product(first) * product(tensor(1)) / call_.result);
      case Terms::kChain: return chain();
      case Terms::kBatched: {
        const Shape& batch = tensor(1);
        return batch.size() == 3 ? static_cast<double>(batch[0]) * last(batch) : 1;
      }
      case Terms::kBilinear: return call_.tensors.size() > 1 ? last(first) * last(tensor(1)) : 1;
      case Terms::kKernel: return without(tensor(1), 0) + 1;  // and the bias
      case Terms::kTransposedKernel: return without(tensor(1), 1) + 1;
      case Terms::kDim: return dim();
      case Terms::kNormalized: return call_.numbers.empty() ? largest(first) : product(call_.numbers);
      case Terms::kChannel: return first.size() > 1 ? product(first) / at_least_1(first[1]) : 1;
      case Terms::kGroup: return first.size() > 1 ? product(std::span(first).subspan(1)) / groups() : 1;
      case Terms::kAttention: {
        const Shape& keys = tensor(1);
        return keys.size() > 1 ? last(keys) + static_cast<double>(keys[keys.size() - 2]) : 1;
      }
    }
    return 1;
  }

 private:
  // The last one stands in for those that are not there.
  const Shape& tensor(std::size_t index) const {
    return call_.tensors[std::min(index, call_.tensors.size() - 1)];
  }

  static double at_least_1(std::int64_t extent) {
    return static_cast<double>(std::max<std::int64_t>(extent, 1));
  }

  static double without(const Shape& shape, std::size_t index) {
    return index < shape.size() ? product(shape) / at_least_1(shape[index]) : product(shape);
  }

  double ratio() const {
    double most = 0;
    for (const Shape& shape : call_.tensors) most = std::max(most, product(shape));
    return most / std::max(call_.result, 1.0);
  }

  double chain() const {
    double most = 1;
    for (const Shape& shape : call_.tensors) most = std::max(most, largest(shape));
    return most * static_cast<double>(std::max<std::size_t>(call_.tensors.size() - 1, 1));
  }

  double dim() const {
    const Shape& shape = tensor(0);
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (!call_.number || *call_.number < -rank || *call_.number >= rank) return largest(shape);
    return static_cast<double>(shape[static_cast<std::size_t>((*call_.number + rank) % rank)]);
  }

  double groups() const { return at_least_1(call_.number.value_or(1)); }

  const CallShape& call_;
};

}  // namespace

double term_count(const Row& row, const CallShape& shape) {
  if (shape.tensors.empty()) return 1;
  const double count = std::ceil(Counter(shape).count(row));
  return std::isfinite(count) ? std::max(count, 1.0) : 1;
}

}  // namespace msprobe::operators
