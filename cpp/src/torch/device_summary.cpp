// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics of tensors that live on a device. Tested on CPU tensors, where the same operators run.

#include "torch/device_summary.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/torch.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

using Checksum = stats::SummaryOptions::Checksum;

// Elements are fetched for checksums in portions of this size.
constexpr std::int64_t kFetchBytes = std::int64_t{256} << 20;

// What is computed of one tensor, still on the device, as bytes.
struct Pieces {
  at::Tensor reals;   // min, max, sum, sum of the imaginary parts, norm; with powers: of |x|, of |x|^4
  at::Tensor counts;  // int64: NaN, +Inf, -Inf, zeros, small, then per bound the elements above it
  at::Tensor signs;   // packed bits
  at::Tensor elements;
};

bool has_doubles(const at::Tensor& tensor) { return tensor.is_cpu() || tensor.is_cuda(); }

at::Tensor pack_bits(const at::Tensor& positive) {
  const std::int64_t count = positive.numel();
  const auto bytes = at::constant_pad_nd(positive.reshape({-1}).to(at::kByte), {0, (8 - count % 8) % 8}, 0);
  const auto weights = at::bitwise_left_shift(at::ones({8}, bytes.options()), at::arange(8, bytes.options()));
  return at::sum(bytes.view({-1, 8}) * weights, {1}, /*keepdim=*/false, at::kByte);
}

// Real numbers that comparisons work on: fp8 and the unsigned types have few operators of their own.
at::Tensor comparable(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kDouble:
    case at::kFloat:
    case at::kLong:
    case at::kInt: return x;
    default: return at::isFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x.to(at::kLong);
  }
}

Pieces launch(const at::Tensor& tensor, const stats::SummaryOptions& options) {
  const c10::NoGradGuard no_grad;
  const at::ScalarType real = has_doubles(tensor) ? at::kDouble : at::kFloat;
  const bool complex = tensor.is_complex();
  const at::Tensor x = complex ? tensor.detach() : comparable(tensor.detach());
  const auto options_real = x.options().dtype(real);
  const at::Tensor zero = at::zeros({}, options_real);
  const auto count_of = [](const at::Tensor& mask) { return at::sum(mask, at::kLong); };

  Pieces pieces;
  at::Tensor min = zero;
  at::Tensor max = zero;
  at::Tensor sum;
  at::Tensor sum_imag = zero;
  at::Tensor norm;
  std::vector<at::Tensor> counts;
  if (complex) {
    const at::Tensor parts =
        at::view_as_real(x.scalar_type() == at::kComplexHalf ? x.to(at::kComplexFloat) : x);
    const at::Tensor re = parts.select(-1, 0);
    const at::Tensor im = parts.select(-1, 1);
    const at::Tensor nan = at::logical_or(at::isnan(re), at::isnan(im));
    const at::Tensor pos =
        at::logical_and(at::logical_or(at::isposinf(re), at::isposinf(im)), at::logical_not(nan));
    const at::Tensor neg = at::logical_and(at::logical_or(at::isneginf(re), at::isneginf(im)),
                                           at::logical_not(at::logical_or(nan, pos)));
    sum = at::sum(re, real);
    sum_imag = at::sum(im, real);
    norm = at::linalg_vector_norm(parts, 2, at::OptionalIntArrayRef(), false, real);
    counts = {count_of(nan), count_of(pos), count_of(neg), count_of(at::logical_and(re == 0, im == 0))};
  } else {
    std::tie(min, max) = at::aminmax(x);
    sum = at::sum(x, real);
    norm = at::linalg_vector_norm(at::isFloatingType(x.scalar_type()) ? x : x.to(real), 2,
                                  at::OptionalIntArrayRef(), false, real);
    counts = {count_of(at::isnan(x)), count_of(at::isposinf(x)), count_of(at::isneginf(x)), count_of(x == 0)};
  }
  const bool wants_small = options.small > 0;
  counts.push_back(wants_small ? count_of(at::abs(x) < options.small) : at::zeros_like(counts.front()));
  for (const float bound : options.bounds) counts.push_back(count_of(x > static_cast<double>(bound)));
  std::vector<at::Tensor> reals{min.to(real), max.to(real), sum.to(real), sum_imag.to(real), norm.to(real)};
  if (options.powers) {
    const at::Tensor absolute =
        at::abs(complex && x.scalar_type() == at::kComplexHalf ? x.to(at::kComplexFloat) : x).to(real);
    const at::Tensor squares = at::square(absolute);
    reals.push_back(at::sum(absolute, real));
    reals.push_back(at::dot(squares.reshape({-1}), squares.reshape({-1})));
  }
  pieces.reals = at::stack(reals);
  pieces.counts = at::stack(counts);
  if (!options.signs.empty()) pieces.signs = pack_bits(x > 0);
  if (options.checksum == Checksum::kNative) pieces.elements = tensor.detach().contiguous();
  if (options.checksum == Checksum::kFloat32) {
    pieces.elements = tensor.detach().to(complex ? at::kComplexFloat : at::kFloat).contiguous();
  }
  return pieces;
}

at::Tensor as_bytes(const at::Tensor& tensor) {
  const at::Tensor flat = (tensor.is_complex() ? at::view_as_real(tensor) : tensor).reshape({-1});
  return flat.view(at::kByte);
}

// Moves many small byte tensors to the host at once.
std::vector<at::Tensor> fetch(const std::vector<at::Tensor>& pieces) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(pieces.size());
  for (const at::Tensor& piece : pieces) sizes.push_back(piece.numel());
  return at::cat(pieces).to(at::kCPU).split_with_sizes(sizes);
}

// NaN that stays NaN, for the reals of 32 or 64 bits.
double real_at(const at::Tensor& bytes, bool doubles, std::int64_t index) {
  if (doubles) {
    double value;
    std::memcpy(&value, bytes.const_data_ptr<std::uint8_t>() + index * 8, 8);
    return value;
  }
  float value;
  std::memcpy(&value, bytes.const_data_ptr<std::uint8_t>() + index * 4, 4);
  return value;
}

std::int64_t count_at(const at::Tensor& bytes, std::size_t index) {
  std::int64_t value;
  std::memcpy(&value, bytes.const_data_ptr<std::uint8_t>() + index * 8, 8);
  return value;
}

// Of a tensor of real numbers with `count` elements.
stats::Summary summary_of(std::int64_t count, bool doubles, const at::Tensor& reals,
                          const at::Tensor& counts) {
  stats::Summary summary;
  summary.count = count;
  summary.nan_count = count_at(counts, 0);
  summary.pos_inf_count = count_at(counts, 1);
  summary.neg_inf_count = count_at(counts, 2);
  summary.zero_count = count_at(counts, 3);
  summary.sum = real_at(reals, doubles, 2);
  summary.mean = summary.sum / static_cast<double>(count);
  summary.norm = real_at(reals, doubles, 4);
  summary.squares = summary.norm * summary.norm;
  summary.min = real_at(reals, doubles, 0);
  summary.max = real_at(reals, doubles, 1);
  return summary;
}

// What depends on the dtype and on what was asked for.
void add_requested(stats::Summary& summary, bool doubles, bool complex, bool powers, bool small,
                   const at::Tensor& reals, const at::Tensor& counts) {
  if (complex) {
    summary.min = summary.max = std::nullopt;
    summary.mean_imag = real_at(reals, doubles, 3) / static_cast<double>(summary.count);
  }
  if (powers) {
    summary.sum_abs = real_at(reals, doubles, 5);
    summary.fourth_powers = real_at(reals, doubles, 6);
  }
  if (small) summary.small_count = count_at(counts, 4);
}

stats::Summary assemble(const DeviceRequest& request, const at::Tensor& reals, const at::Tensor& counts) {
  const at::Tensor& tensor = request.tensor;
  const bool doubles = has_doubles(tensor);
  stats::Summary summary = summary_of(tensor.numel(), doubles, reals, counts);
  add_requested(summary, doubles, tensor.is_complex(), request.options.powers, request.options.small > 0,
                reals, counts);
  if (!request.options.bounds.empty()) {
    std::int64_t left = summary.count - summary.nan_count;
    for (std::size_t k = 0; k < request.options.bounds.size(); ++k) {
      const std::int64_t above = count_at(counts, 5 + k);
      summary.interval_counts.push_back(left - above);
      left = above;
    }
    summary.interval_counts.push_back(left + summary.nan_count);
  }
  return summary;
}

// Checksums need every element on the host; a portion of tensors is fetched at a time.
void add_checksums(const std::vector<DeviceRequest>& requests, const std::vector<Pieces>& pieces,
                   std::vector<stats::Summary>& summaries) {
  std::vector<std::size_t> portion;
  std::int64_t bytes = 0;
  const auto finish_portion = [&] {
    if (portion.empty()) return;
    std::vector<at::Tensor> elements;
    for (const std::size_t i : portion) elements.push_back(as_bytes(pieces[i].elements));
    const std::vector<at::Tensor> host = fetch(elements);
    for (std::size_t k = 0; k < portion.size(); ++k) {
      const std::int64_t shape[] = {host[k].numel()};
      stats::SummaryOptions options;
      options.checksum = Checksum::kNative;
      const TensorView view{host[k].const_data_ptr(), DType::kUInt8, shape, {}};
      summaries[portion[k]].crc32 = stats::summarize(view, options).crc32;
    }
    portion.clear();
    bytes = 0;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!pieces[i].elements.defined()) continue;
    portion.push_back(i);
    bytes += static_cast<std::int64_t>(pieces[i].elements.nbytes());
    if (bytes >= kFetchBytes) finish_portion();
  }
  finish_portion();
}

void check_request(const DeviceRequest& request) {
  if (const std::string reason = why_unreadable(request.tensor); !reason.empty()) {
    throw UnsupportedError("summarize: the tensor " + reason);
  }
  if (request.tensor.is_complex() && (!request.options.bounds.empty() || !request.options.signs.empty())) {
    throw InvalidArgument("summarize: bounds and signs are not defined for complex tensors");
  }
  if (!request.options.signs.empty() &&
      request.options.signs.size() < stats::sign_bytes(request.tensor.numel())) {
    throw InvalidArgument("summarize: signs need " +
                          std::to_string(stats::sign_bytes(request.tensor.numel())) + " bytes, found " +
                          std::to_string(request.options.signs.size()));
  }
}

}  // namespace

std::vector<stats::Summary> summarize_on_device(const std::vector<DeviceRequest>& requests) {
  std::vector<stats::Summary> summaries(requests.size());
  std::vector<Pieces> pieces(requests.size());
  std::vector<at::Tensor> small;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    check_request(requests[i]);
    const at::Tensor tensor = resolved(requests[i].tensor);
    if (tensor.numel() == 0) {  // nothing to launch: the host knows the answer
      const std::int64_t shape[] = {0};
      summaries[i] = stats::summarize({nullptr, DType::kFloat32, shape, {}}, requests[i].options);
      continue;
    }
    pieces[i] = launch(tensor, requests[i].options);
    small.push_back(as_bytes(pieces[i].reals));
    small.push_back(as_bytes(pieces[i].counts));
    if (pieces[i].signs.defined()) small.push_back(pieces[i].signs);
  }
  if (small.empty()) return summaries;
  const std::vector<at::Tensor> host = fetch(small);
  std::size_t next = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!pieces[i].reals.defined()) continue;
    summaries[i] = assemble(requests[i], host[next], host[next + 1]);
    next += 2;
    if (pieces[i].signs.defined()) {
      const at::Tensor& signs = host[next++];
      std::memcpy(requests[i].options.signs.data(), signs.const_data_ptr(),
                  static_cast<std::size_t>(signs.numel()));
    }
  }
  add_checksums(requests, pieces, summaries);
  return summaries;
}

// ---- Statistics of records

namespace {

// A complex tensor shows its absolute values; nothing else of it does.
trace::Statistics absolute_statistics(const stats::Summary& summary, DType dtype) {
  trace::Statistics result;
  result.nan_count = summary.nan_count;
  result.inf_count = summary.pos_inf_count;
  if (dtype == DType::kComplex32) return result;
  result.form = trace::Statistics::Form::kNoNorm;
  result.max = summary.max.value_or(0);
  result.min = summary.min.value_or(0);
  result.mean = summary.mean.value_or(0);
  for (double* number : {&result.max, &result.min, &result.mean}) {
    if (summary.nan_count > 0) *number = std::numeric_limits<double>::quiet_NaN();
    if (dtype == DType::kComplex64) *number = static_cast<float>(*number);
  }
  return result;
}

// Pieces that are still on a device, and the stream that they are computed on.
struct Waiting {
  c10::Stream stream;
  std::vector<at::Tensor> pieces;
};

// The pieces of each on the host, as bytes: one transfer and one wait for each stream.
std::vector<std::vector<at::Tensor>> fetch_by_stream(const std::vector<Waiting>& waiting) {
  struct Fetch {
    std::vector<at::Tensor> bytes;
    std::vector<std::size_t> owners;
  };
  std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, c10::StreamId>, Fetch> streams;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const c10::Stream& stream = waiting[i].stream;
    Fetch& fetched = streams[{stream.device_type(), stream.device_index(), stream.id()}];
    for (const at::Tensor& piece : waiting[i].pieces) {
      fetched.bytes.push_back(as_bytes(piece));
      fetched.owners.push_back(i);
    }
  }
  std::vector<std::vector<at::Tensor>> found(waiting.size());
  for (const auto& [key, fetched] : streams) {
    // What was launched there is complete when the transfer is.
    const c10::StreamGuard on_their_stream(waiting[fetched.owners.front()].stream);
    const std::vector<at::Tensor> host = fetch(fetched.bytes);
    for (std::size_t k = 0; k < host.size(); ++k) found[fetched.owners[k]].push_back(host[k]);
  }
  return found;
}

c10::Stream stream_of(const at::Tensor& tensor) {
  return c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
}

}  // namespace

DeviceStatistics launch_statistics(const at::Tensor& tensor) {
  const c10::NoGradGuard no_grad;
  DeviceStatistics launched;
  launched.dtype = *dtype_of(tensor.scalar_type());
  launched.count = tensor.numel();
  launched.stream = stream_of(tensor);
  if (tensor.dim() == 0) {
    launched.value = tensor.detach().clone();
    return launched;
  }
  const bool half = tensor.scalar_type() == at::kComplexHalf;
  const at::Tensor x = half ? tensor.detach().to(at::kComplexFloat) : tensor.detach();
  const Pieces pieces = launch(x.is_complex() ? at::abs(x) : x, {});
  launched.reals = pieces.reals;
  launched.counts = pieces.counts;
  return launched;
}

std::vector<trace::Statistics> fetch_statistics(const std::vector<DeviceStatistics>& launched) {
  const c10::NoGradGuard no_grad;
  std::vector<Waiting> waiting;
  waiting.reserve(launched.size());
  for (const DeviceStatistics& one : launched) {
    waiting.push_back({one.stream.value(), one.value.defined()
                                               ? std::vector<at::Tensor>{one.value}
                                               : std::vector<at::Tensor>{one.reals, one.counts}});
  }
  const std::vector<std::vector<at::Tensor>> host = fetch_by_stream(waiting);
  std::vector<trace::Statistics> found(launched.size());
  for (std::size_t i = 0; i < launched.size(); ++i) {
    const DeviceStatistics& one = launched[i];
    if (one.value.defined()) {
      const at::Tensor value = host[i][0].clone();  // aligned, as a part of the transfer may not be
      found[i] = trace::measure({value.const_data_ptr(), one.dtype, {}, {}}, false);
      continue;
    }
    const bool doubles = one.reals.scalar_type() == at::kDouble;
    const stats::Summary summary = summary_of(one.count, doubles, host[i][0], host[i][1]);
    found[i] = is_complex(one.dtype) ? absolute_statistics(summary, one.dtype)
                                     : trace::statistics_of(summary, one.dtype);
  }
  return found;
}

// ---- Summaries in two halves

LaunchedSummary launch_summary(const at::Tensor& tensor, const stats::SummaryOptions& options) {
  const c10::NoGradGuard no_grad;
  LaunchedSummary launched;
  launched.count = tensor.numel();
  launched.is_complex = tensor.is_complex();
  launched.doubles = has_doubles(tensor);
  launched.powers = options.powers;
  launched.small = options.small > 0;
  launched.stream = stream_of(tensor);
  const Pieces pieces = launch(tensor.detach(), options);
  launched.reals = pieces.reals;
  launched.counts = pieces.counts;
  return launched;
}

std::vector<stats::Summary> fetch_summaries(const std::vector<LaunchedSummary>& launched) {
  const c10::NoGradGuard no_grad;
  std::vector<Waiting> waiting;
  waiting.reserve(launched.size());
  for (const LaunchedSummary& one : launched) {
    waiting.push_back({one.stream.value(), {one.reals, one.counts}});
  }
  const std::vector<std::vector<at::Tensor>> host = fetch_by_stream(waiting);
  std::vector<stats::Summary> summaries(launched.size());
  for (std::size_t i = 0; i < launched.size(); ++i) {
    const LaunchedSummary& one = launched[i];
    summaries[i] = summary_of(one.count, one.doubles, host[i][0], host[i][1]);
    add_requested(summaries[i], one.doubles, one.is_complex, one.powers, one.small, host[i][0], host[i][1]);
  }
  return summaries;
}

}  // namespace msprobe::torch_adapter
