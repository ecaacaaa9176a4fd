// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/backward_hooks.h"

#include <algorithm>
#include <mutex>

namespace msprobe::torch_adapter {

using torch::autograd::variable_list;

namespace {

void deliver(CallBackward& call, const Places& places, const variable_list& gradients) {
  if (call.state->step.load(std::memory_order_relaxed) != call.step) {
    call.state->recorder.note_late();
    return;
  }
  guarded(call.state->recorder, call.name, [&] {
    const std::lock_guard lock(call.mutex);
    for (const Place& place : places) {
      call.state->arrive(call, place.of_output, place.index, gradients[place.number]);
    }
  });
}

}  // namespace

variable_list ArrivalHook::operator()(const variable_list& gradients) {
  deliver(*call, places, gradients);
  return gradients;
}

variable_list DepartureHook::operator()(const variable_list& outputs, const variable_list& inputs) {
  if (!arriving.empty()) deliver(*call, arriving, inputs);
  if (!leaving.empty()) deliver(*call, leaving, outputs);
  return outputs;
}

OneNodeHook::OneNodeHook(std::shared_ptr<BackwardState> owner, std::string_view record)
    : state(std::move(owner)),
      step(state->step.load(std::memory_order_relaxed)),
      module(state->recorder.innermost()),
      name(record.begin(), record.end()) {}

variable_list OneNodeHook::operator()(const variable_list& leaving, const variable_list& arriving) {
  if (state->step.load(std::memory_order_relaxed) == step) {
    guarded(state->recorder, name_text(), [&] { write(leaving, arriving); });
  } else {
    state->recorder.note_late();
  }
  return leaving;
}

void OneNodeHook::write(const variable_list& leaving, const variable_list& arriving) const {
  dump::Session& session = state->session;
  const dump::Backward backward{name_text(), false, module.get()};
  const bool is_kept = session.begin_backward(backward);
  const dump::Session::Kept& kept = session.kept(trace::RecordKind::kApiBackward);
  const dump::Files files = is_kept ? session.files_of(name_text()) : dump::Files::kNone;
  thread_local trace::ElementWriter of_outputs;
  thread_local trace::ElementWriter of_inputs;
  of_outputs.clear();
  of_inputs.clear();
  const auto describe = [&](dump::ValueWriter& to, std::size_t position, const at::Tensor& gradient) {
    to.item(position, [&] { state->describer.describe(to, gradient); });
  };
  const auto describe_all = [&](dump::Files with) {
    of_outputs.clear();
    of_inputs.clear();
    if (kept.inputs) {
      dump::ValueWriter to(of_outputs, name_text(), with);
      to.begin(category_of(true));
      std::size_t position = 0;
      for (const std::uint16_t number : outputs) describe(to, position++, arriving[number]);
    }
    if (kept.outputs) {
      dump::ValueWriter to(of_inputs, name_text(), with);
      to.begin(category_of(false));
      std::size_t position = 0;
      for (const std::int16_t edge : inputs) {
        if (edge == kHidden) continue;
        describe(to, position++, edge == kNone ? at::Tensor() : leaving[static_cast<std::size_t>(edge)]);
      }
    }
  };
  const bool decides_later = session.keeps_overflows_only();  // files are those of records alone
  if (is_kept) describe_all(decides_later ? dump::Files::kNone : files);
  if (decides_later && files != dump::Files::kNone &&
      session.keeps_overflow(std::max(of_outputs.worst(), of_inputs.worst()))) {
    describe_all(files);
  }
  session.write_backward(backward, is_kept, {of_outputs.bytes(), of_outputs.worst()},
                         {of_inputs.bytes(), of_inputs.worst()});
}

ParameterHook::ParameterHook(std::shared_ptr<BackwardState> owner,
                             std::shared_ptr<dump::ParameterGradients> of, std::string_view parameter,
                             trace::SlotId slot_id)
    : state(std::move(owner)),
      record(std::move(of)),
      parameter_name(parameter),
      slot(slot_id),
      step(state->step.load()) {}

variable_list ParameterHook::operator()(const variable_list& gradients) {
  if (state->step.load(std::memory_order_relaxed) == step && !gradients.empty() && gradients[0].defined()) {
    guarded(state->recorder, record->name(), [&] {
      const bool is_measured = state->session.keeps_overflows_only();
      const trace::Badness worst =
          is_measured ? state->describer.worst_of(gradients[0]) : trace::Badness::kGood;
      if (!state->session.takes_gradient(*record, worst)) return;
      state->describer.fill(slot, gradients[0], record->name(), parameter_name);
    });
  }
  return gradients;
}

}  // namespace msprobe::torch_adapter
