// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "msprobe/torch.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"
#include "torch/device_meters.h"
#include "torch/device_summary.h"
#include "torch/host_copy.h"
#include "torch/known_tensors.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

// Smaller tensors are done before other threads would have begun.
constexpr std::int64_t kBytesForThreads = std::int64_t{1} << 20;

// Smaller tensors in memory are read faster than they are looked up.
constexpr std::size_t kBytesToKnow = std::size_t{16} << 10;

// A number: it is written as it is.
bool is_number(const at::Tensor& tensor) { return tensor.dim() == 0 && !tensor.is_complex(); }

// What of a record is measured on a device.
Measured measured(const at::Tensor& tensor, const trace::Measures& measures) {
  device::Word wanted = 0;
  if (is_number(tensor)) wanted |= device::kRaw;
  if (measures.sketch && tensor.dim() > 0) wanted |= device::kSketches;
  if (tensor.is_complex()) wanted |= device::kAbsolutes;
  return {.tensor = tensor, .wanted = wanted};
}

trace::Statistics statistics_of(const Fetched& fetched, const Launched& launched) {
  if ((launched.wanted & device::kRaw) != 0) {
    return trace::measure({&fetched.bits, launched.dtype, {}, {}}, {});
  }
  return trace::statistics_of(fetched.summary, launched.dtype, trace::NormIn::kFloat32);
}

std::string other_dtype(const at::Tensor& tensor) {
  std::string name = c10::toString(tensor.scalar_type());
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return "torch." + name;
}

// Without statistics. `dtype_text`: memory for its own text, which the element shows.
trace::TensorElement unmeasured(const at::Tensor& tensor, bool requires_grad, std::string& dtype_text) {
  trace::TensorElement element;
  element.dtype = dtype_of(tensor.scalar_type());
  if (!element.dtype) element.dtype_text = dtype_text = other_dtype(tensor);
  if (!tensor.is_nested()) element.shape = {tensor.sizes().data(), tensor.sizes().size()};
  element.requires_grad = requires_grad;
  return element;
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

  KnownTensors<trace::Statistics> known;                      // in memory
  KnownTensors<std::shared_ptr<const Launched>> known_there;  // on devices
  std::atomic<bool> reads_all = false;

  // Of a tensor in memory that can be read as it is. `is_input`: what is known of it serves.
  trace::Statistics measure_on_host(const at::Tensor& tensor, bool is_input) {
    if (reads_all || tensor.nbytes() < kBytesToKnow) return read_on_host(tensor);
    if (is_input) {
      if (auto found = known.find(tensor)) return *std::move(found);
    }
    trace::Statistics found = read_on_host(tensor);
    known.keep(tensor, found);
    return found;
  }

  trace::Statistics read_on_host(const at::Tensor& tensor) {
    const TensorView view = view_of_plain(tensor);
    const trace::Measures& measures = session.measures();
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    const int threads = bytes < kBytesForThreads ? 1 : at::get_num_threads();
    std::unique_lock lock(pool_mutex, std::defer_lock);
    if (threads <= 1 || !lock.try_lock()) return trace::measure(view, measures);
    if (pool_threads != threads) {
      pool.emplace(static_cast<unsigned>(threads));
      pool_threads = threads;
    }
    return trace::measure(view, measures, &*pool);
  }

  trace::Statistics measure(const at::Tensor& tensor, bool is_input) {
    if (!is_elsewhere(tensor)) return measure_on_host(tensor, is_input);
    if (session.measures().checksum) return read_on_host(host_copy(tensor));
    const Measured one = measured(tensor, session.measures());
    const std::vector<Launched> launched = launch({&one, 1});
    collect_results();
    return statistics_of(fetch(launched).front(), launched.front());
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
    std::shared_ptr<const Launched> launched;
    std::vector<std::int64_t> shape;
    bool requires_grad = false;
    std::string placement;
    std::string data_name;
    std::string output_of;  // record whose output it is, or empty
  };
  std::mutex waiting_mutex;
  std::vector<Waiting> waiting;

  // What one call has, to be measured by one launch.
  struct Collected {
    std::vector<Measured> tensors;
    std::vector<Waiting> waiting;
  };

  // Whether the host need not know the statistics before the end of the step.
  bool may_wait(const at::Tensor& tensor) const {
    return is_elsewhere(tensor) && tensor.numel() > 0 && !session.measures().checksum &&
           !session.keeps_overflows_only();
  }
  void wait_for(dump::ValueWriter& to, const at::Tensor& tensor, const Described& as, std::string data_name);
  void launch_all(Collected& collected);
  void finish();
  static trace::TensorElement element_of(const Waiting& one, const Fetched& fetched);
  template <typename Step>
  static void fill(const std::vector<Waiting>& taken, Step& step);

  void store(const at::Tensor& tensor, std::string data_name) {
    at::Tensor copy = host_copy(tensor);
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

void TensorDescriber::describe_unmeasured(dump::ValueWriter& to, const at::Tensor& tensor) {
  std::string dtype_text;
  to.out().tensor(unmeasured(tensor, tensor.requires_grad(), dtype_text));
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

trace::Badness TensorDescriber::worst_of(const at::Tensor& tensor) {
  thread_local trace::ElementWriter out;
  out.clear();
  dump::ValueWriter to(out, {}, dump::Files::kNone);
  to.begin({});
  describe(to, tensor);
  return out.worst();
}

void TensorDescriber::finish() { state_->finish(); }

void TensorDescriber::read_all(bool all) { state_->reads_all = all; }

void TensorDescriber::end_step() {
  state_->known.clear();
  state_->known_there.clear();
}

namespace {

// Of the describer that this thread works for at the moment.
thread_local TensorDescriber::Together* together_here = nullptr;

}  // namespace

struct TensorDescriber::Together::State {
  TensorDescriber::State::Collected collected;
};

TensorDescriber::Together::Together(TensorDescriber& describer)
    : describer_(describer), outer_(std::exchange(together_here, this)) {}

TensorDescriber::Together::~Together() {
  together_here = outer_;
  if (!state_) return;
  try {
    const OutOfSight out_of_sight;
    describer_.state_->launch_all(state_->collected);
  } catch (const std::exception& e) {
    describer_.state_->recorder.note_fault("tensors of a device", e.what());
  }
}

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
  std::string dtype_text;
  trace::TensorElement element = unmeasured(tensor, as.requires_grad, dtype_text);
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
      if (is_elsewhere(tensor) || is_view_of_others) out_of_sight.emplace();
      const at::Tensor others = is_view_of_others ? resolved(tensor) : at::Tensor();
      const at::Tensor& plain = is_view_of_others ? others : tensor;
      const bool waits = may_wait(plain);
      if (!waits) element.statistics = measure(plain, !to.position().starts_with("output"));
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
  one.shape = tensor.sizes().vec();
  one.requires_grad = as.requires_grad;
  one.placement = as.placement;
  one.data_name = std::move(data_name);
  const bool is_output = to.position().starts_with("output");
  if (is_output) one.output_of = to.record();
  one.slot = as.slot ? *as.slot : recorder.new_slot();
  if (!as.slot) to.out().slot(one.slot);
  if (!is_output && !reads_all) {
    if (auto found = known_there.find(tensor)) one.launched = *std::move(found);
  }
  if (one.launched != nullptr) {
    const std::lock_guard lock(waiting_mutex);
    waiting.push_back(std::move(one));
    return;
  }
  Together* const here = together_here;
  if (here != nullptr && here->describer_.state_.get() == this) {
    if (!here->state_) here->state_ = std::make_unique<Together::State>();
    here->state_->collected.tensors.push_back(measured(tensor, session.measures()));
    here->state_->collected.waiting.push_back(std::move(one));
    return;
  }
  Collected alone;
  alone.tensors.push_back(measured(tensor, session.measures()));
  alone.waiting.push_back(std::move(one));
  launch_all(alone);
}

void TensorDescriber::State::launch_all(Collected& collected) {
  std::vector<Launched> launched = launch(collected.tensors);
  const std::lock_guard lock(waiting_mutex);
  for (std::size_t i = 0; i < launched.size(); ++i) {
    Waiting& one = collected.waiting[i];
    one.launched = std::make_shared<const Launched>(std::move(launched[i]));
    known_there.keep(collected.tensors[i].tensor, one.launched);
    waiting.push_back(std::move(one));
  }
}

trace::TensorElement TensorDescriber::State::element_of(const Waiting& one, const Fetched& fetched) {
  trace::TensorElement element;
  element.dtype = one.launched->dtype;
  element.shape = one.shape;
  element.requires_grad = one.requires_grad;
  element.statistics = statistics_of(fetched, *one.launched);
  element.data_name = one.data_name;
  element.placement = one.placement;
  return element;
}

// Waits for what `taken` waits for.
template <typename Step>
void TensorDescriber::State::fill(const std::vector<Waiting>& taken, Step& step) {
  const OutOfSight out_of_sight;
  std::vector<Launched> launched;
  launched.reserve(taken.size());
  for (const Waiting& one : taken) launched.push_back(*one.launched);
  const std::vector<Fetched> found = torch_adapter::fetch(launched);
  trace::ElementWriter out;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    out.clear();
    out.tensor(element_of(taken[i], found[i]));
    step.fill(taken[i].slot, out.bytes());
    if (!taken[i].output_of.empty()) step.note_output(taken[i].output_of, out.worst());
  }
}

void TensorDescriber::State::finish() {
  std::vector<Waiting> taken;
  {
    const std::lock_guard lock(waiting_mutex);
    taken.swap(waiting);
  }
  if (taken.empty()) return;
  // What operators have found is brought by operators, which are no work for another thread.
  const auto by_kernel = [](const Waiting& one) { return !one.launched->numbers.defined(); };
  const auto middle = std::stable_partition(taken.begin(), taken.end(), by_kernel);
  const std::vector<Waiting> others(std::make_move_iterator(middle), std::make_move_iterator(taken.end()));
  taken.erase(middle, taken.end());
  try {
    collect_results();
    if (!taken.empty()) {
      recorder.complete_later([all = std::make_shared<std::vector<Waiting>>(std::move(taken))](
                                  dump::LateStep& step) { fill(*all, step); });
    }
    if (!others.empty()) fill(others, recorder);
  } catch (const std::exception& e) {
    recorder.note_fault("statistics of tensors on a device", e.what());
  }
}

}  // namespace msprobe::torch_adapter
