// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <mutex>
#include <optional>
#include <string>

#include "msprobe/torch.h"
#include "msprobe/torch_dump.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

// Smaller tensors are done before other threads would have begun.
constexpr std::int64_t kBytesForThreads = std::int64_t{1} << 20;

std::string other_dtype(const at::Tensor& tensor) {
  std::string name = c10::toString(tensor.scalar_type());
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return "torch." + name;
}

}  // namespace

struct TensorDescriber::State {
  explicit State(dump::Recorder& owner) : recorder(owner) {}

  dump::Recorder& recorder;
  std::mutex pool_mutex;  // one tensor at a time may use the threads; others do with their own
  std::optional<ThreadPool> pool;
  int pool_threads = 0;

  trace::Statistics measure_on_host(const at::Tensor& tensor) {
    const TensorView view = view_of(tensor);
    const bool checksum = recorder.options().checksum;
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    const int threads = bytes < kBytesForThreads ? 1 : at::get_num_threads();
    std::unique_lock lock(pool_mutex, std::defer_lock);
    if (threads <= 1 || !lock.try_lock()) return trace::measure(view, checksum);
    if (pool_threads != threads) {
      pool.emplace(static_cast<unsigned>(threads));
      pool_threads = threads;
    }
    return trace::measure(view, checksum, &*pool);
  }

  trace::Statistics measure(const at::Tensor& tensor) {
    if (tensor.is_cpu()) return measure_on_host(tensor);
    if (tensor.dim() == 0 || tensor.is_complex() || recorder.options().checksum) {
      const c10::NoGradGuard no_grad;
      return measure_on_host(tensor.detach().cpu());
    }
    return trace::statistics_of(summarize_on_device({{tensor, {}}}).front(), *dtype_of(tensor.scalar_type()));
  }

  void store(const at::Tensor& tensor, std::string data_name) {
    const OutOfSight out_of_sight;
    const c10::NoGradGuard no_grad;
    at::Tensor copy = tensor.detach().cpu();
    if (copy.is_alias_of(tensor) || !copy.is_contiguous()) copy = copy.clone(at::MemoryFormat::Contiguous);
    dump::StoredTensor stored;
    stored.data = copy.numel() > 0 ? copy.const_data_ptr() : nullptr;
    stored.dtype = *dtype_of(copy.scalar_type());
    stored.shape.assign(copy.sizes().begin(), copy.sizes().end());
    stored.owner = std::make_shared<at::Tensor>(std::move(copy));
    recorder.store(std::move(data_name), std::move(stored));
  }
};

TensorDescriber::TensorDescriber(dump::Recorder& recorder) : state_(std::make_unique<State>(recorder)) {}

TensorDescriber::~TensorDescriber() = default;

void TensorDescriber::describe(trace::ElementWriter& out, const at::Tensor& tensor, std::string_view record,
                               std::string_view position) {
  if (!tensor.defined()) {
    out.null();
    return;
  }
  trace::TensorElement element;
  element.dtype = dtype_of(tensor.scalar_type());
  std::string dtype_text;
  if (!element.dtype) element.dtype_text = dtype_text = other_dtype(tensor);
  if (!tensor.is_nested()) element.shape = {tensor.sizes().data(), tensor.sizes().size()};
  element.requires_grad = tensor.requires_grad();
  std::string data_name;
  const std::string reason = why_unreadable(tensor);
  if (!reason.empty()) {
    state_->recorder.note_skipped("statistics of a tensor that " + reason);
  } else {
    try {
      // A plain tensor in memory is read without any operator of torch.
      std::optional<OutOfSight> out_of_sight;
      if (!tensor.is_cpu() || tensor.is_conj() || tensor.is_neg()) out_of_sight.emplace();
      const at::Tensor plain = resolved(tensor);
      element.statistics = state_->measure(plain);
      if (!record.empty() && state_->recorder.stores(record)) {
        data_name = state_->recorder.data_name(record, position);
        state_->store(plain, data_name);
        element.data_name = data_name;
      }
    } catch (const std::exception& e) {
      state_->recorder.note_fault(record, e.what());
    }
  }
  out.tensor(element);
}

std::string TensorDescriber::store(const at::Tensor& tensor, std::string_view record,
                                   std::string_view position) {
  if (record.empty() || !state_->recorder.stores(record) || !why_unreadable(tensor).empty()) return {};
  std::string data_name = state_->recorder.data_name(record, position);
  state_->store(tensor, data_name);
  return data_name;
}

}  // namespace msprobe::torch_adapter
