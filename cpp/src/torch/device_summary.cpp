// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/device_summary.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/convert.h"
#include "msprobe/error.h"
#include "torch/device_meters.h"
#include "torch/device_operators.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

using namespace device;

// Tensors of one list by the device that they are on.
std::map<std::string, std::vector<std::size_t>> by_device(std::span<const Measured> tensors) {
  std::map<std::string, std::vector<std::size_t>> found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].tensor;
    if (tensor.numel() > 0) found[tensor.device().str()].push_back(i);
  }
  return found;
}

// The requests of one tensor: one for each kBounds bounds, of which the first has all the rest.
void add_requests(const Measured& measured, std::vector<Request>& requests) {
  const TensorView view = view_of_plain(measured.tensor);
  const std::span<const float> bounds(measured.bounds);
  Word wanted = measured.wanted;
  std::size_t first = 0;
  do {
    const auto some = bounds.subspan(first, std::min<std::size_t>(kBounds, bounds.size() - first));
    requests.push_back(
        {.view = view, .wanted = wanted, .small = limit_of(measured), .bounds = some, .other = nullptr});
    first += kBounds;
    wanted = kCounts;
  } while (first < bounds.size());
}

// Those of one device that the kernel takes.
void launch_kernel(const std::vector<std::size_t>& indices, std::span<const Measured> tensors,
                   std::vector<Launched>& launched) {
  const c10::Device where = tensors[indices.front()].tensor.device();
  Meter* const meter = meter_of(where);
  if (meter == nullptr) return;
  const Stream stream = native_stream(current_stream(where));
  if (!meter->takes_stream(stream)) return;
  std::vector<Request> requests;
  std::vector<std::size_t> owners;
  for (const std::size_t i : indices) {
    if (!takes(view_of_plain(tensors[i].tensor))) continue;
    add_requests(tensors[i], requests);
    owners.resize(requests.size(), i);
  }
  std::vector<Result> results = meter->launch(stream, requests);
  for (std::size_t k = 0; k < results.size(); ++k)
    launched[owners[k]].results.push_back(std::move(results[k]));
}

// What operators found of each, on the host; nothing of what they did not measure. One transfer and one wait
// for each stream.
template <typename One>
std::vector<std::vector<double>> fetch_numbers(std::span<const One> launched) {
  std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, c10::StreamId>, std::vector<std::size_t>> streams;
  for (std::size_t i = 0; i < launched.size(); ++i) {
    if (!launched[i].numbers.defined()) continue;
    const c10::Stream& stream = *launched[i].stream;
    streams[{stream.device_type(), stream.device_index(), stream.id()}].push_back(i);
  }
  std::vector<std::vector<double>> found(launched.size());
  for (const auto& [key, indices] : streams) {
    // What was launched there is complete when the transfer is.
    const c10::StreamGuard on_their_stream(*launched[indices.front()].stream);
    std::vector<at::Tensor> numbers;
    for (const std::size_t i : indices) numbers.push_back(launched[i].numbers.reshape({-1}));
    const at::Tensor host = at::cat(numbers).to(at::kCPU, at::kDouble).contiguous();
    const double* next = host.const_data_ptr<double>();
    for (const std::size_t i : indices) {
      found[i].assign(next, next + launched[i].numbers.numel());
      next += launched[i].numbers.numel();
    }
  }
  return found;
}

void set_intervals(stats::Summary& summary, const std::vector<std::int64_t>& above) {
  std::int64_t left = summary.count - summary.nan_count;
  for (const std::int64_t one : above) {
    summary.interval_counts.push_back(left - one);
    left = one;
  }
  summary.interval_counts.push_back(left + summary.nan_count);
}

Fetched of_kernel(const Launched& one) {
  const auto words = one.results.front().words();
  Fetched fetched{summary_of(words, one.dtype, one.count, one.wanted), words[kRawBits]};
  if (one.bounds == 0) return fetched;
  std::vector<std::int64_t> above;
  for (const Result& result : one.results) {
    const auto counts = result.words();
    for (std::size_t b = 0; b < kBounds && above.size() < one.bounds; ++b) {
      above.push_back(static_cast<std::int64_t>(counts[kAbove + b]));
    }
  }
  set_intervals(fetched.summary, above);
  return fetched;
}

Fetched of_operators(const Launched& one, std::span<const double> numbers) {
  if ((one.wanted & kRaw) != 0) {  // a byte in each number
    Fetched raw;
    for (std::size_t b = 0; b < numbers.size(); ++b) {
      raw.bits |= static_cast<std::uint64_t>(numbers[b]) << (8 * b);
    }
    return raw;
  }
  const Word wanted = one.wanted & ~static_cast<Word>(kSketches);
  Fetched fetched{
      summary_of(words_of_operators(numbers, one.dtype, one.count, wanted), one.dtype, one.count, wanted), 0};
  if (one.bounds > 0) set_intervals(fetched.summary, above_of_operators(numbers, wanted, one.bounds));
  return fetched;
}

}  // namespace

double limit_of(const Measured& measured) {
  const DType dtype = *dtype_of(measured.tensor.scalar_type());
  return fits_float(dtype) && !is_complex(dtype) ? static_cast<float>(measured.small) : measured.small;
}

std::vector<Launched> launch(std::span<const Measured> tensors) {
  const c10::NoGradGuard no_grad;
  std::vector<Launched> launched(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    launched[i].dtype = *dtype_of(tensors[i].tensor.scalar_type());
    launched[i].count = tensors[i].tensor.numel();
    launched[i].wanted = tensors[i].wanted;
    launched[i].bounds = tensors[i].bounds.size();
  }
  for (const auto& [device, indices] : by_device(tensors)) {
    launch_kernel(indices, tensors, launched);
    std::vector<Measured> left;
    std::vector<std::size_t> owners;
    for (const std::size_t i : indices) {
      if (!launched[i].results.empty()) continue;
      left.push_back(tensors[i]);
      owners.push_back(i);
    }
    if (left.empty()) continue;
    const c10::Stream stream = current_stream(left.front().tensor.device());
    std::vector<at::Tensor> numbers = launch_operators(left);
    for (std::size_t k = 0; k < owners.size(); ++k) {
      launched[owners[k]].numbers = std::move(numbers[k]);
      launched[owners[k]].stream = stream;
    }
  }
  return launched;
}

std::vector<Fetched> fetch(std::span<const Launched> launched) {
  const c10::NoGradGuard no_grad;
  const std::vector<std::vector<double>> numbers = fetch_numbers(launched);
  std::vector<Fetched> fetched(launched.size());
  for (std::size_t i = 0; i < launched.size(); ++i) {
    const Launched& one = launched[i];
    if (one.numbers.defined()) {
      fetched[i] = of_operators(one, numbers[i]);
    } else if (!one.results.empty()) {
      fetched[i] = of_kernel(one);
    } else if (one.bounds > 0) {
      fetched[i].summary.interval_counts.assign(one.bounds + 1, 0);
    }
  }
  return fetched;
}

// ---- two tensors

namespace {

std::vector<Result> launch_pairs_by_kernel(Meter& meter, Stream stream, std::span<const at::Tensor> left,
                                           std::span<const at::Tensor> right, double floor) {
  std::vector<Request> requests;
  std::vector<TensorView> others;
  others.reserve(right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    requests.push_back({.view = view_of_plain(left[i]),
                        .wanted = kPairs,
                        .small = floor,
                        .other = &others.emplace_back(view_of_plain(right[i]))});
  }
  return meter.launch(stream, requests);
}

FetchedPair pair_of_kernel(const Result& result) {
  FetchedPair pair;
  const auto words = result.words();
  for (Word f = 0; f < kPairFields; ++f) {
    const bool is_count = join_of(kPairs, f) == Join::kCount;
    pair.fields[f] = is_count ? static_cast<double>(words[f]) : as_double(words[f]);
  }
  return pair;
}

bool takes_pairs(Meter* meter, Stream stream, std::span<const at::Tensor> left,
                 std::span<const at::Tensor> right) {
  if (meter == nullptr || !meter->takes_stream(stream)) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].device() != left.front().device()) return false;
    const TensorView other = view_of_plain(right[i]);
    if (!takes(view_of_plain(left[i]), &other)) return false;
  }
  return true;
}

}  // namespace

std::vector<LaunchedPair> launch_pairs(std::span<const at::Tensor> left, std::span<const at::Tensor> right,
                                       double floor) {
  std::vector<LaunchedPair> launched(left.size());
  if (left.empty()) return launched;
  const c10::NoGradGuard no_grad;
  const c10::Device where = left.front().device();
  Meter* const meter = meter_of(where);
  const Stream stream = meter != nullptr ? native_stream(current_stream(where)) : nullptr;
  if (takes_pairs(meter, stream, left, right)) {
    std::vector<Result> results = launch_pairs_by_kernel(*meter, stream, left, right, floor);
    for (std::size_t i = 0; i < results.size(); ++i) launched[i].result = std::move(results[i]);
  } else {
    for (std::size_t i = 0; i < left.size(); ++i) {
      launched[i].numbers = launch_pair_operators(left[i], right[i], floor);
      launched[i].stream = current_stream(left[i].device());
    }
  }
  for (std::size_t i = 0; i < left.size(); ++i) launched[i].count = left[i].numel();
  return launched;
}

std::vector<FetchedPair> fetch(std::span<const LaunchedPair> launched) {
  const c10::NoGradGuard no_grad;
  const std::vector<std::vector<double>> numbers = fetch_numbers(launched);
  std::vector<FetchedPair> found(launched.size());
  for (std::size_t i = 0; i < launched.size(); ++i) {
    const LaunchedPair& one = launched[i];
    if (one.numbers.defined()) {
      std::copy(numbers[i].begin(), numbers[i].end(), found[i].fields.begin());
    } else {
      found[i] = pair_of_kernel(one.result);
    }
    found[i].count = one.count;
  }
  return found;
}

FetchedPair measured_pair(const at::Tensor& left, const at::Tensor& right, double floor) {
  const std::vector<LaunchedPair> launched = launch_pairs({&left, 1}, {&right, 1}, floor);
  collect_results();
  return fetch(launched).front();
}

stats::PairSums sums_of(const FetchedPair& pair) {
  const auto& fields = pair.fields;
  const bool is_finite = fields[kLeftNotFinite] == 0 && fields[kRightNotFinite] == 0;
  const auto sum = [&](PairField field) {
    return is_finite ? fields[field] : std::numeric_limits<double>::quiet_NaN();
  };
  return {.count = pair.count,
          .left_squares = sum(kLeftSquares),
          .right_squares = sum(kRightSquares),
          .dot = sum(kDot),
          .squared_distance = sum(kDistance),
          .sign_balance = static_cast<std::int64_t>(fields[kAgree] - fields[kDisagree])};
}

}  // namespace msprobe::torch_adapter
