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
#include "msprobe/torch_tensors.h"
#include "torch/device_summary.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

// Smaller tensors are done before other threads would have begun.
constexpr std::int64_t kBytesForThreads = std::int64_t{1} << 20;

// So many tensors wait for fetch() at most: each takes two blocks of memory of the device, 1 KiB of it.
constexpr std::size_t kMostWaiting = 8192;

std::string other_dtype(const at::Tensor& tensor) {
  std::string name = c10::toString(tensor.scalar_type());
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return "torch." + name;
}

}  // namespace

trace::Framework framework() { return {.name = "pytorch", .package = "torch"}; }

struct TensorDescriber::State {
  State(dump::Session& owner, FindLocal find)
      : session(owner), recorder(owner.recorder()), find_local(std::move(find)) {}

  dump::Session& session;
  dump::Recorder& recorder;
  FindLocal find_local;
  std::mutex pool_mutex;  // one tensor at a time may use the threads; others do with their own
  std::optional<ThreadPool> pool;
  int pool_threads = 0;

  // Of a tensor in memory that can be read as it is.
  trace::Statistics measure_on_host(const at::Tensor& tensor) {
    const TensorView view = view_of_plain(tensor);
    const bool checksum = session.wants_checksums();
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
    if (session.wants_checksums()) {
      const c10::NoGradGuard no_grad;
      return measure_on_host(tensor.detach().cpu());
    }
    return fetch_statistics({launch_statistics(tensor)}).front();
  }

  // What belongs to a tensor beside its memory.
  struct Described {
    std::string_view placement;
    bool requires_grad;
    std::optional<trace::SlotId> slot;  // that it fills; nothing: it is written where it stands
  };
  void describe(dump::ValueWriter& to, const at::Tensor& tensor, const Described& as);
  void describe_any(const TensorDescriber& describer, dump::ValueWriter& to, const at::Tensor& tensor,
                    Described as);

  // A tensor whose statistics are on their way.
  struct Waiting {
    trace::SlotId slot = 0;
    DeviceStatistics statistics;
    std::vector<std::int64_t> shape;
    bool requires_grad = false;
    std::string placement;
    std::string data_name;
    std::string output_of;  // record whose output it is, or empty
  };
  std::mutex waiting_mutex;
  std::vector<Waiting> waiting;
  bool all_as_on_device = false;

  // Whether the host need not know the statistics before the end of the step.
  bool may_wait(const at::Tensor& tensor) const {
    return (all_as_on_device || !tensor.is_cpu()) && tensor.numel() > 0 && !session.wants_checksums() &&
           !session.keeps_overflows_only();
  }
  void wait_for(dump::ValueWriter& to, const at::Tensor& tensor, const Described& as, std::string data_name);
  void fetch();

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

TensorDescriber::TensorDescriber(dump::Session& session, FindLocal find_local)
    : state_(std::make_unique<State>(session, std::move(find_local))) {}

TensorDescriber::~TensorDescriber() = default;

TensorDescriber::Local TensorDescriber::local_of(const at::Tensor& tensor) const {
  if (state_->find_local && runs_in_python(tensor)) {
    if (auto local = state_->find_local(tensor)) return std::move(*local);
  }
  return {tensor, {}};
}

void TensorDescriber::describe(dump::ValueWriter& to, const at::Tensor& tensor, std::string_view placement) {
  if (!tensor.defined()) {
    to.out().null();
    return;
  }
  state_->describe_any(*this, to, tensor, {placement, tensor.requires_grad(), {}});
}

void TensorDescriber::fill(trace::SlotId slot, const at::Tensor& tensor, std::string_view record,
                           std::string_view position) {
  thread_local trace::ElementWriter out;
  out.clear();
  dump::ValueWriter to(out, record, state_->session.files_of(record));
  to.begin(position);
  state_->describe_any(*this, to, tensor, {{}, tensor.requires_grad(), slot});
  if (!out.bytes().empty()) state_->recorder.fill(slot, out.bytes());
}

void TensorDescriber::fetch() { state_->fetch(); }

void TensorDescriber::treat_all_as_on_device() { state_->all_as_on_device = true; }

void TensorDescriber::State::describe_any(const TensorDescriber& describer, dump::ValueWriter& to,
                                          const at::Tensor& tensor, Described as) {
  if (!runs_in_python(tensor)) {
    describe(to, tensor, as);
    return;
  }
  Local local{tensor, {}};
  try {
    local = describer.local_of(tensor);
  } catch (const std::exception& e) {
    recorder.note_fault(to.record(), e.what());
  }
  if (as.placement.empty()) as.placement = local.placement;
  describe(to, local.tensor, as);
}

void TensorDescriber::State::describe(dump::ValueWriter& to, const at::Tensor& tensor, const Described& as) {
  trace::TensorElement element;
  element.dtype = dtype_of(tensor.scalar_type());
  std::string dtype_text;
  if (!element.dtype) element.dtype_text = dtype_text = other_dtype(tensor);
  if (!tensor.is_nested()) element.shape = {tensor.sizes().data(), tensor.sizes().size()};
  element.requires_grad = as.requires_grad;
  element.placement = as.placement;
  std::string data_name;
  const std::string reason = why_unreadable(tensor);
  if (!reason.empty()) {
    recorder.note_skipped("statistics of a tensor that " + reason);
  } else {
    try {
      // A plain tensor in memory is read without any operator of torch.
      std::optional<OutOfSight> out_of_sight;
      const bool is_view_of_others = tensor.is_conj() || tensor.is_neg();
      if (!tensor.is_cpu() || is_view_of_others) out_of_sight.emplace();
      const at::Tensor others = is_view_of_others ? resolved(tensor) : at::Tensor();
      const at::Tensor& plain = is_view_of_others ? others : tensor;
      const bool waits = may_wait(plain);
      if (!waits) element.statistics = measure(plain);
      if (to.takes_files()) {
        data_name = recorder.data_name(to.record(), to.position());
        store(plain, data_name);
        element.data_name = data_name;
      }
      if (waits) {
        wait_for(to, plain, as, std::move(data_name));
        return;
      }
    } catch (const std::exception& e) {
      recorder.note_fault(to.record(), e.what());
    }
  }
  to.out().tensor(element);
}

void TensorDescriber::State::wait_for(dump::ValueWriter& to, const at::Tensor& tensor, const Described& as,
                                      std::string data_name) {
  Waiting one;
  one.statistics = launch_statistics(tensor);
  one.shape = tensor.sizes().vec();
  one.requires_grad = as.requires_grad;
  one.placement = as.placement;
  one.data_name = std::move(data_name);
  if (to.position().starts_with("output")) one.output_of = to.record();
  one.slot = as.slot ? *as.slot : recorder.new_slot();
  if (!as.slot) to.out().slot(one.slot);
  std::size_t count = 0;
  {
    const std::lock_guard lock(waiting_mutex);
    waiting.push_back(std::move(one));
    count = waiting.size();
  }
  if (count >= kMostWaiting) fetch();
}

void TensorDescriber::State::fetch() {
  std::vector<Waiting> taken;
  {
    const std::lock_guard lock(waiting_mutex);
    taken.swap(waiting);
  }
  if (taken.empty()) return;
  std::vector<DeviceStatistics> launched;
  launched.reserve(taken.size());
  for (Waiting& one : taken) launched.push_back(std::move(one.statistics));
  try {
    const OutOfSight out_of_sight;
    const std::vector<trace::Statistics> found = fetch_statistics(launched);
    trace::ElementWriter out;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const Waiting& one = taken[i];
      trace::TensorElement element;
      element.dtype = launched[i].dtype;
      element.shape = one.shape;
      element.requires_grad = one.requires_grad;
      element.statistics = found[i];
      element.data_name = one.data_name;
      element.placement = one.placement;
      out.clear();
      out.tensor(element);
      recorder.fill(one.slot, out.bytes());
      if (!one.output_of.empty()) recorder.note_output(one.output_of, out.worst());
    }
  } catch (const std::exception& e) {
    recorder.note_fault("statistics of " + std::to_string(taken.size()) + " tensors on a device", e.what());
  }
}

}  // namespace msprobe::torch_adapter
