// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// libmsprobe_torch: the bridge from libtorch tensors to msprobe. The only public header that includes torch.
/// Written against libtorch 2.1 and newer; built and tested with 2.13.0 on CPU. Tensors of a GPU are measured
/// by a kernel, those of other devices by at:: operators; both are tested with tensors of the CPU in their
/// place.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/grad_probe.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"

namespace msprobe::torch_adapter {

/// nullopt for a type without arithmetic (quantised, packed 4-bit) or one this version does not know.
MSPROBE_API std::optional<DType> dtype_of(at::ScalarType type);

/// The memory of a strided CPU tensor. The view borrows: it lives as long as `tensor`.
/// Throws UnsupportedError for tensors of another device or layout (sparse, quantised, meta, functional,
/// nested) and for dtypes without msprobe::DType.
MSPROBE_API TensorView view_of(const at::Tensor& tensor);

/// Torch's name of a dtype. Throws UnsupportedError for one that this torch does not have.
MSPROBE_API at::ScalarType scalar_type_of(DType dtype);

/// stats::summarize for a tensor of any device. Conjugated and negated views are resolved first.
MSPROBE_API stats::Summary summarize(const at::Tensor& tensor, const stats::SummaryOptions& options = {},
                                     ThreadPool* pool = nullptr);

/// One tensor of summarize_on_device().
struct DeviceRequest {
  at::Tensor tensor;
  stats::SummaryOptions options;
};

/// Summaries made on the devices of the tensors, fetched together: one synchronisation for all of a stream,
/// and more where checksums or signs are wanted, which need elements or bits of them on the host. Tensors are
/// of strided layout. Without a kernel (docs/adr/0032) there are no sketches, and sums are kept in float on
/// devices without doubles.
MSPROBE_API std::vector<stats::Summary> summarize_on_device(const std::vector<DeviceRequest>& requests);

/// Which gradients a probe records, and when.
struct GradProbeSettings {
  grad_probe::Options options;
  std::vector<std::int64_t> steps;  // ascending; empty: all
  unsigned threads = 0;             // of the measuring kernels; 0: as many as at::get_num_threads()
};

/// The gradient probe of one model. Not thread-safe: call it from the thread that steps the optimizer.
/// After construction nothing here throws because of a gradient, a full disk or a bug of ours: it is logged.
class MSPROBE_API GradProbe {
 public:
  /// Throws what grad_probe::Writer throws.
  GradProbe(std::vector<std::pair<std::string, at::Tensor>> parameters, GradProbeSettings settings);
  ~GradProbe();
  GradProbe(const GradProbe&) = delete;
  GradProbe& operator=(const GradProbe&) = delete;

  /// Records `parameter.grad()` of every parameter as one step. Call it right before `optimizer.step()`.
  void step();

  /// As step(), for gradients kept elsewhere (Megatron's main_grad, the local shard of a DTensor): one per
  /// parameter in the order of the constructor, undefined where there is none. CPU gradients are read in
  /// place; those of a device are reduced there, and nobody waits for them: their step is written when the
  /// next one comes, the last one by flush() or the destructor. (Checksums of level L0 need the elements.)
  void step(const std::vector<at::Tensor>& gradients);

  /// True when the next step() is one of the wanted ones: otherwise there is no need to collect gradients for
  /// it.
  bool wants_next_step() const noexcept;

  /// Counts a step without recording anything.
  void skip_step() noexcept;

  std::int64_t steps_seen() const noexcept;

  /// As grad_probe::Writer::flush, of all steps so far.
  std::int64_t flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::torch_adapter
