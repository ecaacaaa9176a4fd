// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dump/object_pool.h"
#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/record_name.h"

namespace msprobe::dump {
namespace {

using trace::Badness;
using trace::Part;
using trace::RecordKind;

// What is written at the moment.
thread_local trace::ElementWriter element_buffer;

constexpr std::string_view kGradients = ".parameters_grad";

Session::Kept kept_of(RecordKind kind, const Options& options) {
  Session::Kept kept;
  switch (kind) {
    case RecordKind::kApiForward:
    case RecordKind::kModuleForward: kept.record = options.forward; break;
    case RecordKind::kSaved: kept.record = true; break;
    default: kept.record = options.backward; break;
  }
  const bool has_data = kept.record && options.data;
  kept.inputs = has_data && options.input;
  kept.outputs = has_data && options.output;
  kept.parameters = has_data;
  return kept;
}

}  // namespace

void ValueWriter::refuse_depth() {
  throw UnsupportedError("values are nested more than " + std::to_string(kDeepest) + " deep");
}

void CallValues::keywords(ValueWriter&) {}
bool CallValues::are_results_an_object() const { return false; }
void CallValues::parameters(ValueWriter&) {}
void CallValues::find_arguments() {}
void CallValues::find_results() {}
trace::StackId CallValues::stack() { return trace::kNoStack; }

struct Session::State {
  struct GradientsRecord final : ParameterGradients {
    std::string_view name() const noexcept override { return text; }

    void write(Recorder& recorder) {
      if (is_written.exchange(true)) return;
      recorder.part(recorder.record(RecordKind::kParametersGrad, text), Part::kValue, elements);
    }

    PooledText text;      // the name
    PooledText backward;  // that of the module's backward
    PooledText elements;  // one object with a slot for each parameter
    std::atomic<bool> is_written{false};
    std::atomic<bool> was_in_scope{false};  // that backward, which may end before the gradients are there
  };

  explicit State(Options options)
      : is_mix(options.level == "mix"),
        has_scope(!options.scope.empty()),
        overflow_limit(options.overflow_limit),
        wanted(take_wanted(options)),
        recorder(std::move(options)) {}

  // At level L2 the list names the one call, and is no part of names.
  static std::string take_wanted(Options& options) {
    if (options.level != "L2" || options.list.empty()) return {};
    std::string name = std::move(options.list.front());
    options.list.clear();
    return name;
  }

  const bool is_mix;
  const bool has_scope;
  const std::size_t overflow_limit;
  const std::string wanted;
  Recorder recorder;
  std::atomic<std::size_t> overflows{0};
  std::mutex mutex;
  std::unordered_map<std::string, std::int64_t> saved_counts;
  // Of this step, by name.
  std::unordered_set<std::string_view> gradient_names;
  std::vector<std::shared_ptr<GradientsRecord>> gradients;

  void keep_gradients_of(std::string_view backward) {
    const std::lock_guard lock(mutex);
    for (const auto& record : gradients) {
      if (std::string_view(record->backward) == backward) record->was_in_scope = true;
    }
  }

  // One part of a record, which `pull(to)` writes.
  template <typename Pull>
  void write_part(trace::RecordId record, Part part, std::string_view name, std::string_view category,
                  Files files, const Pull& pull) {
    element_buffer.clear();
    ValueWriter to(element_buffer, name, files);
    to.begin(category);
    pull(to);
    recorder.part(record, part, element_buffer.bytes());
  }

  // Of a part that is one object.
  template <typename Pull>
  void write_object(trace::RecordId record, Part part, std::string_view name, std::string_view category,
                    Files files, const Pull& pull) {
    write_part(record, part, name, category, files, [&](ValueWriter& to) {
      element_buffer.begin_object();
      pull(to);
      element_buffer.end();
    });
  }

  void write_arguments(const Call& call, Files files, CallValues& values) {
    write_part(call.record, Part::kInputArgs, call.name, "input", files,
               [&](ValueWriter& to) { values.arguments(to); });
    write_object(call.record, Part::kInputKwargs, call.name, "kwargs", files,
                 [&](ValueWriter& to) { values.keywords(to); });
  }

  void write_results(const Call& call, Files files, CallValues& values) {
    const Part part = values.are_results_an_object() ? Part::kOutputObject : Part::kOutput;
    write_part(call.record, part, call.name, "output", files, [&](ValueWriter& to) { values.results(to); });
    if (!call.returns_arguments) recorder.note_output(call.name, element_buffer.worst());
  }

  // Whether something of it holds a NaN or an infinity.
  static bool overflows_in(CallValues& values, bool arguments, bool results) {
    element_buffer.clear();
    ValueWriter to(element_buffer);
    if (arguments) {
      values.arguments(to);
      values.keywords(to);
    }
    if (results) values.results(to);
    return element_buffer.worst() != Badness::kGood;
  }
};

// ------------------------------------------------------------------------------------------------ decisions

Session::Session(Options options)
    : measures_{.checksum = options.checksum, .sketch = options.sketch},
      wants_evidence_only_(options.only_evidence),
      keeps_overflows_only_(options.only_overflow) {
  for (std::size_t kind = 0; kind < kept_.size(); ++kind) {
    kept_[kind] = kept_of(static_cast<RecordKind>(kind), options);
  }
  state_ = std::make_unique<State>(std::move(options));
}

Session::~Session() = default;

Recorder& Session::recorder() noexcept { return state_->recorder; }

Session::Interest Session::interest(std::string_view forward_name) const {
  const std::string& wanted = state_->wanted;
  if (wanted.empty()) return Interest::kRecord;
  const bool is_it = wanted == forward_name || wanted == backward_name(forward_name);
  return is_it ? Interest::kOperators : Interest::kNothing;
}

const std::string& Session::wanted() const noexcept { return state_->wanted; }

Files Session::files_of(std::string_view record) const {
  return state_->recorder.stores(record) ? Files::kAll : Files::kNone;
}

bool Session::has_enough_overflows() const noexcept {
  return state_->overflow_limit > 0 && state_->overflows.load() >= state_->overflow_limit;
}

void Session::count_overflow() noexcept {
  ++state_->overflows;
  if (has_enough_overflows()) set_collecting(false);
}

void Session::end_step() {
  std::vector<std::shared_ptr<State::GradientsRecord>> gone;
  const std::lock_guard lock(state_->mutex);
  gone.swap(state_->gradients);
  state_->gradient_names.clear();
  state_->saved_counts.clear();
}

// ------------------------------------------------------------------------------------------------ functions

void Session::begin_record(Call& call, CallValues& values) {
  const Kept& kept = this->kept(RecordKind::kApiForward);
  call.is_kept = true;
  if (kept.record) {
    call.record = state_->recorder.record(RecordKind::kApiForward, call.name, values.stack(),
                                          call.is_recompute, call.repeats);
  }
  if (kept.inputs) {
    state_->write_arguments(call, files_of(call.name), values);
  } else if (call.watches_backward) {
    values.find_arguments();
  }
}

void Session::begin_call(Call& call, CallValues& values) {
  call.is_listed = state_->recorder.keeps_api(call.name);
  call.watches_backward = kept(RecordKind::kApiBackward).record && !call.returns_arguments &&
                          state_->recorder.may_keep_backward(call.name);
  if (!call.is_listed) {
    if (call.watches_backward) values.find_arguments();
    return;
  }
  if (!keeps_overflows_only_ || State::overflows_in(values, true, false)) begin_record(call, values);
}

void Session::end_call(Call& call, CallValues& values) {
  place_call(call);
  if (!call.is_listed) {
    if (call.watches_backward) values.find_results();
    return;
  }
  // Arguments that the call changed in place are shown as they are now.
  if (keeps_overflows_only_ && !call.is_kept && State::overflows_in(values, false, true))
    begin_record(call, values);
  if (keeps_overflows_only_ && call.is_kept) count_overflow();
  if (call.is_kept && kept(RecordKind::kApiForward).outputs) {
    state_->write_results(call, files_of(call.name), values);
  } else if (call.watches_backward) {
    values.find_results();
  }
}

void Session::place_call(const Call& call) { state_->recorder.place(call.name); }

void Session::write_results(const Call& call, CallValues& values) {
  if (call.is_kept && kept(RecordKind::kApiForward).outputs)
    state_->write_results(call, files_of(call.name), values);
}

// -------------------------------------------------------------------------------------------------- modules

void Session::begin_module(Call& call) {
  state_->recorder.open_module(call.name);
  call.watches_backward =
      kept(RecordKind::kModuleBackward).record && state_->recorder.may_keep_backward(call.name);
}

void Session::end_module(Call& call, CallValues* values) {
  call.is_listed = state_->recorder.close_module(call.name);
  if (values == nullptr || !is_collecting()) call.watches_backward = false;
  if (values == nullptr || !is_collecting() || !call.is_listed) {
    if (!call.watches_backward) return;
    values->find_arguments();
    values->find_results();
    return;
  }
  if (keeps_overflows_only_) {
    if (!State::overflows_in(*values, true, true)) return;
    count_overflow();
  }
  call.is_kept = true;
  const Kept& kept = this->kept(RecordKind::kModuleForward);
  const Files files = files_of(call.name);
  if (kept.record) {
    call.record = state_->recorder.record(RecordKind::kModuleForward, call.name, values->stack(),
                                          call.is_recompute, call.repeats);
  }
  if (kept.inputs) {
    state_->write_arguments(call, files, *values);
  } else if (call.watches_backward) {
    values->find_arguments();
  }
  if (kept.outputs) {
    state_->write_results(call, files, *values);
  } else if (call.watches_backward) {
    values->find_results();
  }
  if (!kept.parameters) return;
  state_->write_object(call.record, Part::kParameters, call.name, "parameters", files,
                       [&](ValueWriter& to) { values->parameters(to); });
}

void Session::open_phase(std::string_view name) {
  if (is_collecting() && state_->is_mix) state_->recorder.open_module(name);
}

void Session::close_phase(std::string_view name) { state_->recorder.close_module(name); }

// ------------------------------------------------------------------------------------------------ operators

void Session::begin_operator(Call& call, bool backward, CallValues& values) {
  const RecordKind kind = backward ? RecordKind::kApiBackward : RecordKind::kApiForward;
  state_->recorder.open_module(call.name);
  call.record = state_->recorder.record(kind, call.name);
  if (!kept(kind).inputs) return;
  if (!backward) return state_->write_arguments(call, files_of(call.name), values);
  state_->write_part(call.record, Part::kInput, call.name, "input", files_of(call.name),
                     [&](ValueWriter& to) { values.arguments(to); });
}

void Session::end_operator(Call& call, bool backward, CallValues* values) {
  state_->recorder.close_module(call.name);
  const Kept& kept = this->kept(backward ? RecordKind::kApiBackward : RecordKind::kApiForward);
  if (values != nullptr && kept.outputs) state_->write_results(call, files_of(call.name), *values);
}

// ------------------------------------------------------------------------------------------------- backward

bool Session::begin_backward(const Backward& backward) {
  return state_->recorder.begin_backward(backward.name, backward.forward_module, backward.is_module);
}

bool Session::keeps_overflow(Badness worst) const noexcept {
  return worst != Badness::kGood && !has_enough_overflows();
}

void Session::write_backward(const Backward& backward, bool is_kept, const Gradients& of_outputs,
                             const Gradients& of_inputs) {
  Recorder& recorder = state_->recorder;
  recorder.place_backward(backward.name, backward.forward_module);
  if (backward.is_module) {
    if (!recorder.end_backward(backward.name, backward.forward_module)) return;
    if (state_->has_scope) state_->keep_gradients_of(backward.name);
  }
  if (!is_kept) return;
  if (keeps_overflows_only_) {
    if (!keeps_overflow(std::max(of_outputs.worst, of_inputs.worst))) return;
    count_overflow();
  }
  const RecordKind kind = backward.is_module ? RecordKind::kModuleBackward : RecordKind::kApiBackward;
  const Kept& kept = this->kept(kind);
  const trace::RecordId record = recorder.record(kind, backward.name);
  if (kept.inputs) recorder.part(record, Part::kInput, of_outputs.elements);
  if (!kept.outputs) return;
  recorder.part(record, Part::kOutput, of_inputs.elements);
  recorder.note_output(backward.name, of_inputs.worst);
}

std::shared_ptr<ParameterGradients> Session::watch_parameters(const Call& module,
                                                              std::span<const std::string_view> names,
                                                              std::span<trace::SlotId> slots) {
  const Kept& kept = this->kept(RecordKind::kParametersGrad);
  if (!kept.record || names.empty()) return nullptr;
  auto record = std::allocate_shared<State::GradientsRecord>(PoolAllocator<State::GradientsRecord>());
  record->text.reserve(module.name.size() + kGradients.size());
  record->text.append(trace::RecordName(module.name).callee()).append(kGradients);
  if (state_->has_scope) record->backward = backward_name(module.name);
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->gradient_names.insert(record->text).second) return nullptr;
    state_->gradients.push_back(record);
  }
  element_buffer.clear();
  element_buffer.begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) {
    slots[i] = state_->recorder.new_slot();
    element_buffer.key(names[i]);
    element_buffer.begin_list();
    element_buffer.slot(slots[i]);
    element_buffer.end();
  }
  element_buffer.end();
  record->elements = element_buffer.bytes();
  // A place beside the forward; otherwise when a gradient comes that is kept.
  if (!state_->has_scope && (!keeps_overflows_only_ || module.is_kept)) record->write(state_->recorder);
  return kept.parameters || state_->has_scope ? record : nullptr;
}

bool Session::takes_gradient(ParameterGradients& of, Badness worst) {
  auto& record = static_cast<State::GradientsRecord&>(of);
  const Recorder& recorder = state_->recorder;
  if (!record.is_written && !record.was_in_scope && !recorder.keeps(record.text) &&
      !recorder.keeps(record.backward)) {
    return false;
  }
  if (keeps_overflows_only_) {
    if (!keeps_overflow(worst)) return false;
    count_overflow();
  }
  record.write(state_->recorder);
  return kept(RecordKind::kParametersGrad).parameters;
}

// ---------------------------------------------------------------------------------------------------- saved

Session::SavedNames Session::number_saved(const std::string& name) {
  std::int64_t count = 0;
  {
    const std::lock_guard lock(state_->mutex);
    count = state_->saved_counts[name]++;
  }
  const std::string number = "." + std::to_string(count) + ".debug";
  return {name + number, name + "_grad" + number};
}

void Session::write_saved(const std::string& record, const std::function<void(ValueWriter&)>& put) {
  const trace::RecordId id = state_->recorder.record(RecordKind::kSaved, record);
  // A buffer of its own: what is saved may be values whose tensors the adapter describes elsewhere meanwhile.
  trace::ElementWriter out;
  ValueWriter values(out, record, files_of(record));
  put(values);
  state_->recorder.part(id, Part::kValue, out.bytes());
}

}  // namespace msprobe::dump
