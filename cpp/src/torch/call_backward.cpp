// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/call_backward.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <utility>

#include "msprobe/torch_tensors.h"
#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {

namespace autograd = torch::autograd;

namespace {

trace::Badness worst_of(const Gradients& gradients) {
  trace::Badness worst = trace::Badness::kGood;
  for (const Gradient& gradient : gradients) worst = std::max(worst, gradient.worst);
  return worst;
}

// As the entries of one list; empty where they are not wanted.
void append_elements(const Gradients& gradients, std::string& out) {
  static const std::string none = [] {
    trace::ElementWriter null;
    null.null();
    return std::string(null.bytes());
  }();
  for (const Gradient& gradient : gradients) {
    if (gradient.shown) out += gradient.element.empty() ? none : std::string_view(gradient.element);
  }
}

// The sum is a tensor of ours from the first contribution on, so that later ones can be added in place.
void add_plain(Gradient& gradient, const at::Tensor& contribution) {
  const OutOfSight out_of_sight;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::Tensor& sum = gradient.sum;
  if (!sum.defined()) {
    sum = contribution.clone();
  } else if (sum.layout() == at::kStrided && sum.scalar_type() == contribution.scalar_type() &&
             sum.sizes() == contribution.sizes()) {
    sum.add_(contribution);
  } else {
    sum = sum + contribution;
  }
}

}  // namespace

CallBackward::~CallBackward() {
  if (!started || state->step.load() != step) return;
  state->forget_started(*this);
  guarded(state->recorder, name, [&] { state->write(*this); });
}

void CallBackward::begin_round() {
  missing = 0;
  started = false;
  for (Gradients* side : {&outputs, &inputs}) {
    for (Gradient& gradient : *side) {
      gradient.arrived = 0;
      gradient.element.clear();
      gradient.sum = at::Tensor();
      gradient.value = at::Tensor();
      gradient.placement.reset();
      gradient.worst = trace::Badness::kGood;
      gradient.mixed = false;
      missing += gradient.expected;
    }
  }
}

void BackwardState::arrive(CallBackward& call, bool of_output, std::size_t index, const at::Tensor& value) {
  Gradient& gradient = call.side(of_output)[index];
  if (call.started && call.pass != autograd::get_current_graph_task_id()) {  // that one did not end
    forget_started(call);
    write(call);
  }
  if (!call.started) call.begin_round();  // also where the graph was kept, and runs again
  if (!call.started) {
    note_started(call);
    call.kept = session.begin_backward(call.backward());
    call.files =
        call.kept && !session.keeps_overflows_only() ? session.files_of(call.name) : dump::Files::kNone;
  }
  ++gradient.arrived;
  if (gradient.expected == 1) {
    describe(call, of_output, index, value);
  } else {
    add(gradient, value);
    if (gradient.arrived == gradient.expected) {
      if (!gradient.mixed) describe(call, of_output, index, gradient.sum);
      gradient.sum = at::Tensor();
    }
  }
  if (--call.missing > 0) return;
  forget_started(call);
  write(call);
}

void BackwardState::note_started(CallBackward& call) {
  call.started = true;
  call.pass = autograd::get_current_graph_task_id();
  const std::lock_guard lock(mutex);
  started.push_back({&call, call.weak_from_this()});
  if (call.pass < 0 || call.pass == noted_pass) return;
  noted_pass = call.pass;
  // Where the rest never comes, because an output is not used or an input not wanted.
  autograd::Engine::get_default_engine().queue_callback(
      [self = call.state, pass = call.pass] { self->complete(pass); });
}

void BackwardState::complete(std::optional<int> pass) {
  std::vector<std::shared_ptr<CallBackward>> calls;
  {
    const std::lock_guard lock(mutex);
    for (const Started& entry : started) {
      if (auto call = entry.owner.lock()) calls.push_back(std::move(call));
    }
  }
  for (const auto& call : calls) {
    const std::lock_guard lock(call->mutex);
    if (!call->started || (pass && call->pass != *pass)) continue;
    forget_started(*call);
    guarded(recorder, call->name, [&] { write(*call); });
  }
}

void BackwardState::forget_started(CallBackward& call) {
  call.started = false;
  const std::lock_guard lock(mutex);
  const auto is_it = [&](const Started& entry) { return entry.call == &call; };
  const auto found = std::find_if(started.rbegin(), started.rend(), is_it);
  if (found != started.rend()) started.erase(std::prev(found.base()));
}

void BackwardState::add(Gradient& gradient, const at::Tensor& contribution) {
  if (!contribution.defined()) return;
  if (runs_in_python(contribution)) {
    add_local(gradient, contribution);
  } else {
    add_plain(gradient, contribution);
  }
}

void BackwardState::add_local(Gradient& gradient, const at::Tensor& contribution) {
  TensorDescriber::Local local = describer.local_of(contribution);
  if (!gradient.placement) gradient.placement = std::make_unique<std::string>(local.placement);
  gradient.mixed =
      gradient.mixed || *gradient.placement != local.placement || !why_unreadable(local.tensor).empty();
  if (!gradient.mixed) {
    add_plain(gradient, local.tensor);
  } else {
    recorder.note_skipped("a gradient whose parts are tensors that cannot be added up in this process");
  }
}

void BackwardState::describe(CallBackward& call, bool of_output, std::size_t index, const at::Tensor& value) {
  Gradients& side = call.side(of_output);
  Gradient& gradient = side[index];
  const dump::Session::Kept& kept = session.kept(call.kind());
  const bool is_written = of_output ? kept.inputs : kept.outputs;
  const bool is_wanted = is_written || session.keeps_overflows_only();
  if (!call.kept || !is_wanted || !gradient.shown || !value.defined()) return;
  thread_local trace::ElementWriter out;
  out.clear();
  dump::ValueWriter to(out, call.name, is_written ? call.files : dump::Files::kNone);
  std::ptrdiff_t number = 0;
  if (to.files() != dump::Files::kNone) {
    number = std::count_if(side.begin(), side.begin() + static_cast<std::ptrdiff_t>(index),
                           [](const Gradient& other) { return other.shown; });
  }
  to.begin(category_of(of_output));
  to.item(static_cast<std::size_t>(number), [&] {
    describer.describe(to, value,
                       gradient.placement ? std::string_view(*gradient.placement) : std::string_view());
  });
  gradient.worst = out.worst();
  gradient.element = out.bytes();
  if (session.keeps_overflows_only() && is_written && call.files == dump::Files::kNone)
    gradient.value = value;
}

// Task overflow_check: of a record that is kept the finite tensors are files, too.
void BackwardState::describe_with_files(CallBackward& call, bool is_kept) {
  call.files = is_kept ? session.files_of(call.name) : dump::Files::kNone;
  for (const bool of_output : {true, false}) {
    Gradients& side = call.side(of_output);
    for (std::size_t i = 0; i < side.size(); ++i) {
      const at::Tensor value = std::exchange(side[i].value, at::Tensor());
      if (call.files != dump::Files::kNone) describe(call, of_output, i, value);
    }
  }
}

void BackwardState::write(CallBackward& call) {
  if (call.kept) describe_incomplete(call);
  const trace::Badness worst = std::max(worst_of(call.outputs), worst_of(call.inputs));
  if (call.kept && session.keeps_overflows_only()) describe_with_files(call, session.keeps_overflow(worst));
  const dump::Session::Kept& kept = session.kept(call.kind());
  thread_local std::string of_outputs;
  thread_local std::string of_inputs;
  of_outputs.clear();
  of_inputs.clear();
  if (call.kept && kept.inputs) append_elements(call.outputs, of_outputs);
  if (call.kept && kept.outputs) append_elements(call.inputs, of_inputs);
  session.write_backward(call.backward(), call.kept, {of_outputs, worst_of(call.outputs)},
                         {of_inputs, worst_of(call.inputs)});
}

// Sums of which a part never comes, because an output was not used.
void BackwardState::describe_incomplete(CallBackward& call) {
  for (const bool of_output : {true, false}) {
    Gradients& side = call.side(of_output);
    for (std::size_t i = 0; i < side.size(); ++i) {
      if (side[i].sum.defined() && !side[i].mixed)
        describe(call, of_output, i, std::exchange(side[i].sum, at::Tensor()));
    }
  }
}

}  // namespace msprobe::torch_adapter
