// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/signs.h"
#include "device/to_host.h"
#include "device/waits.h"
#include "msprobe/export.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"

namespace msprobe::device {

/// One tensor of the device, with at least one element, and what is wanted of it. The memory is read when the
/// kernel runs: in the order of the stream, like that of any other operator.
struct Request {
  TensorView view;
  Word wanted = 0;                    // of enum Wanted
  double small = 0;                   // of kCounts; of kPairs the floor of ratios
  std::span<const float> bounds{};    // at most kBounds
  const TensorView* other = nullptr;  // of kPairs: of the same shape
  struct {
    Word* to = nullptr;
    Long first = 0;
    Long count = 0;
  } signs{};  // of kSigns: of which elements, and where to
};

/// Whether the kernel takes a tensor of such a layout, or two: at most kDims dimensions after those that
/// follow each other in memory are taken as one.
MSPROBE_API bool takes(const TensorView& view, const TensorView* other = nullptr);

/// Results on their way.
class Batch;

/// What one request found, as soon as its batch has come.
class MSPROBE_API Result {
 public:
  Result() = default;
  Result(std::shared_ptr<Batch> batch, std::size_t index) : batch_(std::move(batch)), index_(index) {}

  /// Waits for the device where the results have not come yet. kFields words; those of PairField for kPairs.
  std::array<Long, kFields> words() const;

 private:
  std::shared_ptr<Batch> batch_;
  std::size_t index_ = 0;
};

/// Measures tensors of one device by as few launches as it can, and brings the results of each stream to the
/// host by one copy. Takes at most kMostBytes of the device, however many tensors and streams there are:
/// results that find no room are copied earlier. Thread-safe.
class MSPROBE_API Meter {
 public:
  /// Of the device, with the bits of signs.
  static constexpr std::size_t kMostBytes = std::size_t{14} << 20;

  explicit Meter(std::unique_ptr<Device> device);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  /// Whether a stream has room here; one of more than a few at the same time has none.
  bool takes_stream(Stream stream);

  /// Queues the kernel; waits for nothing. Throws UnsupportedError while the stream is captured.
  std::vector<Result> launch(Stream stream, std::span<const Request> requests);

  /// Queues the copies of all results that are not on their way yet: one for each stream.
  void collect();

  /// As ToHost::bring(): to `to`, one piece behind the other.
  void bring_to_host(Stream stream, void* to, const std::function<void(const ToHost::Add&)>& pieces);

  /// Brings signs; waits for nothing. Throws UnsupportedError while the stream is captured.
  std::unique_ptr<ComingSigns> bring_signs(Stream stream, std::span<const Signs> tensors);

  /// What it has done so far.
  struct Work {
    std::size_t launches = 0;
    std::size_t tensors = 0;
    std::size_t waits = 0;  // for the device, by whoever read results
  };
  Work work();

 private:
  struct OfStream;

  OfStream& of(Stream stream);
  void launch_some(Stream stream, OfStream& state, std::span<const Item> items);
  void collect(Stream stream, OfStream& state);

  std::unique_ptr<Device> device_;
  std::mutex mutex_;
  std::map<Stream, std::unique_ptr<OfStream>> streams_;
  std::shared_ptr<Waits> waits_;
  std::shared_ptr<PinnedPool> pool_;
  ToHost to_host_;
  SignsToHost signs_;
  Work work_;
};

/// The words of a Result as a summary of `count` elements: sums with NaN and infinities, where there are
/// some, as stats::summarize() has them. What was not wanted is absent.
MSPROBE_API stats::Summary summary_of(const std::array<Long, kFields>& words, DType dtype, std::int64_t count,
                                      Word wanted);

}  // namespace msprobe::device
