// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tensors of a device, measured there. In two halves: launching waits for nothing, and fetching brings the
/// results of many to the host at once. By the kernel where the device has one, else by torch's operators: at
/// most eight launches a tensor (two more for small elements and for each bound), and no copy of a whole one.

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/meter.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"
#include "msprobe/torch.h"

namespace msprobe::torch_adapter {

/// A tensor and what is wanted of it, as device::Request has it; any number of bounds.
struct Measured {
  at::Tensor tensor;
  device::Word wanted = 0;
  double small = 0;
  std::vector<float> bounds{};
};

/// The limit of small elements as stats::summarize() has it: in float where it compares floats.
double limit_of(const Measured& measured);

/// One tensor whose results are on their way. Holds no reference to it.
struct Launched {
  DType dtype = DType::kFloat32;
  std::int64_t count = 0;  // of elements; 0: nothing was launched
  device::Word wanted = 0;
  std::size_t bounds = 0;
  std::vector<device::Result>
      results;         // of the kernel: the first, and one more for each further kBounds bounds
  at::Tensor numbers;  // of operators: doubles, on the device
  std::optional<c10::Stream> stream;  // that operators ran on
};

/// What a tensor turned out to be.
struct Fetched {
  stats::Summary summary;
  std::uint64_t bits = 0;  // of kRaw
};

/// Begins to measure tensors of strided layout without pending conjugation, of any devices: those of one
/// device by one launch.
///
/// Operators count NaN and infinities for kPowers and kCounts alone; otherwise counts say that there is one.
/// They make no sketch. Complex tensors are measured by their magnitudes with kAbsolutes; without, they have
/// no minimum and maximum. Of kRaw nothing but the bits comes.
std::vector<Launched> launch(std::span<const Measured> tensors);

/// One transfer and one wait for each stream.
std::vector<Fetched> fetch(std::span<const Launched> launched);

/// What device::PairField has, of two tensors of `count` elements each.
struct FetchedPair {
  std::int64_t count = 0;
  std::array<double, device::kPairFields> fields{};
};

/// Of one of them, on its way. Holds no reference to the tensors.
struct LaunchedPair {
  std::int64_t count = 0;
  device::Result result;              // of the kernel
  at::Tensor numbers;                 // of operators
  std::optional<c10::Stream> stream;  // that operators ran on
};

/// Begins to measure pairs of tensors of one shape and device each, with elements that are not complex.
/// `floor`: of the ratios.
std::vector<LaunchedPair> launch_pairs(std::span<const at::Tensor> left, std::span<const at::Tensor> right,
                                       double floor);

/// One transfer and one wait for each stream.
std::vector<FetchedPair> fetch(std::span<const LaunchedPair> launched);

/// Both at once, of one pair.
FetchedPair measured_pair(const at::Tensor& left, const at::Tensor& right, double floor);

/// NaN where an element of either is not finite.
stats::PairSums sums_of(const FetchedPair& pair);

/// Summaries of tensors of devices, on their way. Holds no tensor.
class ComingSummaries {
 public:
  /// As summarize_on_device(). Waits for checksums, which need the elements, and for signs where there is no
  /// kernel. The memory of signs must be there until finish().
  explicit ComingSummaries(const std::vector<DeviceRequest>& requests);

  std::vector<stats::Summary> finish();

 private:
  struct Answer {
    std::optional<stats::Summary> known;  // of an empty tensor
    bool powers = false, small = false;
    std::optional<std::uint32_t> checksum;
    std::optional<std::size_t> sketch;  // place in launched_
  };
  std::vector<Answer> answers_;
  std::vector<Launched> launched_;  // of each request, and then sketches
  std::vector<std::unique_ptr<device::ComingSigns>> signs_;
};

}  // namespace msprobe::torch_adapter
