// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Summaries as stats::summarize() gives them, of tensors of a device. Checksums need the elements on the
// host.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/error.h"
#include "msprobe/torch.h"
#include "torch/device_meters.h"
#include "torch/device_summary.h"
#include "torch/host_copy.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

using device::Word;
using Checksum = stats::SummaryOptions::Checksum;

// Made of signs at a time.
constexpr std::int64_t kSignElements = std::int64_t{1} << 20;

void check_request(const DeviceRequest& request) {
  if (const std::string reason = why_unreadable(request.tensor); !reason.empty()) {
    throw UnsupportedError("summarize: the tensor " + reason);
  }
  const stats::SummaryOptions& options = request.options;
  if (request.tensor.is_complex() && (!options.bounds.empty() || !options.signs.empty())) {
    throw InvalidArgument("summarize: bounds and signs are not defined for complex tensors");
  }
  if (!options.shard.shape.empty()) throw UnsupportedError("summarize: shards are not sketched on a device");
  const std::size_t bytes = stats::sign_bytes(request.tensor.numel());
  if (!options.signs.empty() && options.signs.size() < bytes) {
    throw InvalidArgument("summarize: signs need " + std::to_string(bytes) + " bytes, found " +
                          std::to_string(options.signs.size()));
  }
}

void add_signs(const at::Tensor& tensor, std::span<std::uint8_t> signs) {
  const at::Tensor weights = at::bitwise_left_shift(at::ones({8}, tensor.options().dtype(at::kByte)),
                                                    at::arange(8, tensor.options().dtype(at::kByte)));
  std::uint8_t* to = signs.data();
  const auto pack = [&](const at::Tensor& flags) {
    const at::Tensor packed = at::sum(flags.view({-1, 8}) * weights, {1}, /*keepdim=*/false, at::kByte).cpu();
    std::memcpy(to, packed.const_data_ptr(), packed.nbytes());
    to += packed.nbytes();
  };
  at::Tensor left = at::empty({0}, weights.options());  // less than a byte of an earlier piece
  for_pieces(tensor, kSignElements, [&](const at::Tensor& piece, std::int64_t) {
    const at::Tensor known = c10::isFloat8Type(piece.scalar_type()) ? piece.to(at::kFloat) : piece;
    const at::Tensor flags = known.gt(0).to(at::kByte);
    const at::Tensor all = left.numel() > 0 ? at::cat({left, flags}) : flags;
    const std::int64_t whole = all.numel() / 8 * 8;
    if (whole > 0) pack(all.slice(0, 0, whole));
    left = all.slice(0, whole);
  });
  if (left.numel() > 0) pack(at::constant_pad_nd(left, {0, 8 - left.numel()}, 0));
}

struct SignsOf {
  at::Tensor tensor;
  std::span<std::uint8_t> to;
};

// By the kernel where the device has one, together; else by operators, one by one, which waits for them.
std::vector<std::unique_ptr<device::ComingSigns>> begin_signs(const std::vector<SignsOf>& all) {
  struct OfDevice {
    c10::Device where;
    std::vector<device::Signs> signs;
  };
  std::map<device::Meter*, OfDevice> by_kernel;
  for (const SignsOf& one : all) {
    const c10::Device where = one.tensor.device();
    const TensorView view = view_of_plain(one.tensor);
    device::Meter* const meter = meter_of(where);
    if (meter == nullptr || !device::takes(view)) {
      add_signs(one.tensor, one.to);
    } else {
      by_kernel.try_emplace(meter, OfDevice{where, {}}).first->second.signs.push_back({view, one.to});
    }
  }
  std::vector<std::unique_ptr<device::ComingSigns>> coming;
  for (const auto& [meter, of] : by_kernel) {
    coming.push_back(meter->bring_signs(native_stream(current_stream(of.where)), of.signs));
  }
  return coming;
}

std::uint32_t checksum_of(const at::Tensor& tensor, Checksum checksum) {
  const at::Tensor host = host_copy(tensor);
  stats::SummaryOptions options;
  options.checksum = checksum;
  return *stats::summarize(view_of_plain(host), options).crc32;
}

// What is asked of a tensor in one launch: a sketch, or all the rest.
Measured question(const at::Tensor& tensor, const stats::SummaryOptions& options, bool sketch) {
  if (sketch) return {.tensor = tensor, .wanted = device::kSketches};
  return {.tensor = tensor,
          .wanted = options.powers ? device::kPowers | device::kCounts : Word{device::kCounts},
          .small = options.small,
          .bounds = {options.bounds.begin(), options.bounds.end()}};
}

}  // namespace

ComingSummaries::ComingSummaries(const std::vector<DeviceRequest>& requests) {
  const c10::NoGradGuard no_grad;
  std::vector<Measured> questions;
  std::vector<at::Tensor> tensors;
  for (const DeviceRequest& request : requests) {
    check_request(request);
    tensors.push_back(resolved(request.tensor));
    questions.push_back(question(tensors.back(), request.options, false));
  }
  std::vector<SignsOf> signs;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const stats::SummaryOptions& options = requests[i].options;
    Answer& answer = answers_.emplace_back();
    answer.powers = options.powers;
    answer.small = options.small > 0;
    if (tensors[i].numel() == 0) {  // the host knows the answer
      const std::int64_t shape[] = {0};
      answer.known = stats::summarize({nullptr, DType::kFloat32, shape, {}}, options);
      continue;
    }
    if (options.sketch) {
      answer.sketch = questions.size();
      questions.push_back(question(tensors[i], options, true));
    }
    if (!options.signs.empty()) signs.push_back({tensors[i], options.signs});
    if (options.checksum != Checksum::kNone) answer.checksum = checksum_of(tensors[i], options.checksum);
  }
  launched_ = launch(questions);
  signs_ = begin_signs(signs);
  collect_results();
}

std::vector<stats::Summary> ComingSummaries::finish() {
  std::vector<Fetched> fetched = fetch(launched_);
  for (const auto& coming : signs_) coming->finish();
  std::vector<stats::Summary> summaries;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const Answer& answer = answers_[i];
    if (answer.known) {
      summaries.push_back(*answer.known);
      continue;
    }
    stats::Summary& summary = summaries.emplace_back(std::move(fetched[i].summary));
    if (!answer.powers) summary.sum_abs = summary.fourth_powers = std::nullopt;
    if (!answer.small) summary.small_count = std::nullopt;
    summary.crc32 = answer.checksum;
    if (answer.sketch) summary.sketch = fetched[*answer.sketch].summary.sketch;
  }
  return summaries;
}

std::vector<stats::Summary> summarize_on_device(const std::vector<DeviceRequest>& requests) {
  return ComingSummaries(requests).finish();
}

}  // namespace msprobe::torch_adapter
