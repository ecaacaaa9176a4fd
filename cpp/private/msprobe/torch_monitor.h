// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The monitor's bridge to libtorch: tensors measured into the frames of monitor.h, and the gradients of
/// module calls.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/metrics.h"
#include "msprobe/monitor_frame.h"
#include "msprobe/stats.h"

namespace msprobe::torch_adapter {

/// Measures tensors.
///
/// Those of the CPU are read before measure() returns, all of one call at once, on `threads` threads. Those
/// of a device are reduced there, and nobody waits for them before Frame::complete(). A tensor
/// that cannot be read (sparse, quantised, meta) gets a row with its dtype and shape, and no elements. Never
/// throws because of a tensor. Thread-safe.
class MSPROBE_API TensorMeter {
 public:
  struct Options {
    double eps = 1e-8;     // Sums::small counts |x| < eps
    bool powers = true;    // Sums::absolute and fourth; they are NaN without
    unsigned threads = 0;  // 0: as many as at::get_num_threads()
    /// What this process holds of a tensor whose operators run in Python: of a DTensor its local shard.
    /// Undefined: nothing that can be read. Called with or without the GIL.
    std::function<at::Tensor(const at::Tensor&)> local_of;
  };
  struct Item {
    std::uint32_t label = 0;
    std::int32_t micro_step = -1;
    at::Tensor tensor;  // undefined: a row that is missing
  };

  explicit TensorMeter(Options options);
  ~TensorMeter();
  TensorMeter(const TensorMeter&) = delete;
  TensorMeter& operator=(const TensorMeter&) = delete;

  /// Adds a row for each item to `frame`. `calls` numbers them; null: the rows are numbered later.
  void measure(monitor::Frame& frame, std::span<const Item> items, monitor::CallCounter* calls);

  /// Adds a row of counts: `counts` has one number for each thing.
  void measure_counts(monitor::Frame& frame, std::uint32_t label, const at::Tensor& counts, double capacity);

  /// The sums of one tensor, at once.
  monitor::Sums sums_of(const at::Tensor& tensor);

  /// The pairs of two lists, at once. A pair of which one
  /// side is missing, or that cannot be read, has no elements.
  std::vector<stats::PairSums> pairs(std::span<const at::Tensor> left, std::span<const at::Tensor> right);

  /// The same as rows, one for each label; a pair without elements has none. `left_is_kept`: the left side
  /// are copies of keep(); beside a tensor of a device they come back to it, in pieces of 2 MB at most.
  void measure_pairs(monitor::Frame& frame, std::span<const std::uint32_t> labels,
                     std::span<const at::Tensor> left, std::span<const at::Tensor> right,
                     bool left_is_kept = false);

  /// Makes each of `kept` a copy of the tensor at its place, in memory of the host, which is used again where
  /// it fits; undefined where there is none that can be read. Of a device it is pinned, and nobody waits for
  /// it.
  void keep(std::vector<at::Tensor>& kept, std::span<const at::Tensor> tensors) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What attention looked at, of each query that is looked at.
struct AttentionRows {
  at::Tensor largest;  // logit over the keys that are not masked
  at::Tensor entropy;  // of the softmax over these keys, in nats
};

/// Of scaled dot-product attention, as torch's function of this name is called; `mask`: undefined, Boolean or
/// added to the logits. At most `queries` of each head are looked at, evenly spread; 0: all. Fewer heads of
/// keys serve several heads of queries each. Reads only; computes in float32.
MSPROBE_API AttentionRows attention_rows(const at::Tensor& query, const at::Tensor& key,
                                         const at::Tensor& mask, bool is_causal, std::optional<double> scale,
                                         std::int64_t queries);
/// Of scores that a program computes itself, (..., queries, keys), masked ones -Inf or very negative.
MSPROBE_API AttentionRows attention_rows(const at::Tensor& scores, std::int64_t queries);

/// What a router of experts decided.
struct Routing {
  at::Tensor counts;       // tokens for each expert
  at::Tensor probability;  // of each token: that of its first expert
  at::Tensor entropy;      // of each token: of its probabilities, in nats
};

/// `logits`: (..., experts), or probabilities, which is told by their sums. Each token goes to the `top` best
/// experts.
MSPROBE_API Routing routing(const at::Tensor& logits, std::int64_t top);

/// Spectral norm and stable rank of each matrix, through its product with itself, which is made where it
/// lies. NaN for what has no two dimensions, no elements, or others than real ones in floating point.
MSPROBE_API std::vector<metrics::Spectrum> spectra(std::span<const at::Tensor> matrices);

/// Sees the gradients of module calls: those that arrive at a call's outputs, and its share of those of its
/// inputs. Nothing is added to the graph of autograd (docs/adr/0008). Thread-safe.
class MSPROBE_API CallGradients {
 public:
  /// Told of one call. `gradient` may be undefined.
  struct Listener {
    virtual ~Listener() = default;
    /// A gradient is complete. It is the training's: read it, do not keep it.
    virtual void arrived(bool of_output, std::size_t index, const at::Tensor& gradient) = 0;
    /// All have arrived that can, or the step is over.
    virtual void complete() = 0;
  };

  /// Where inputs hang in the graph; taken before the call. Opaque.
  struct Before;

  CallGradients();
  ~CallGradients();
  CallGradients(const CallGradients&) = delete;
  CallGradients& operator=(const CallGradients&) = delete;

  std::shared_ptr<Before> before_call(std::span<const at::Tensor> inputs);

  /// Indices given to the listener are those of `inputs` and `outputs`. Without a gradient anywhere it is not
  /// told anything.
  void after_call(const std::shared_ptr<Before>& before, std::span<const at::Tensor> inputs,
                  std::span<const at::Tensor> outputs, std::unique_ptr<Listener> listener);

  /// Ends calls of which a gradient has not come. Hooks on what is left of old graphs do nothing.
  void end_step();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace msprobe::torch_adapter
