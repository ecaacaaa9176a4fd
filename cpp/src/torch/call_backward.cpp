// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/call_backward.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <utility>

#include "torch/out_of_sight.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

trace::Badness worst_of(const Gradients& gradients) {
  trace::Badness worst = trace::Badness::kGood;
  for (const Gradient& gradient : gradients) worst = std::max(worst, gradient.worst);
  return worst;
}

bool holds_overflow(const CallBackward& call) {
  return std::max(worst_of(call.outputs), worst_of(call.inputs)) != trace::Badness::kGood;
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
      gradient.placement.reset();
      gradient.worst = trace::Badness::kGood;
      gradient.mixed = false;
      missing += gradient.expected;
    }
  }
}

void ParameterRecord::write(dump::Recorder& recorder) {
  if (written.exchange(true)) return;
  recorder.part(recorder.record(trace::RecordKind::kParametersGrad, name), trace::Part::kValue, elements);
}

void BackwardState::arrive(CallBackward& call, bool of_output, std::size_t index, const at::Tensor& value) {
  if (call.missing == 0) call.begin_round();  // the graph was kept, and runs again
  if (!call.started) {
    note_started(call);
    call.kept = recorder.keeps_backward(call.name, call.module.get());
  }
  Gradient& gradient = call.side(of_output)[index];
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
  const std::lock_guard lock(mutex);
  started.push_back({&call, call.weak_from_this()});
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
  if (!call.kept || !gradient.shown || !value.defined() || !recorder.options().data) return;
  thread_local trace::ElementWriter out;
  out.clear();
  const bool stores = recorder.stores(call.name);
  std::ptrdiff_t number = 0;
  if (stores) {
    number = std::count_if(side.begin(), side.begin() + static_cast<std::ptrdiff_t>(index),
                           [](const Gradient& other) { return other.shown; });
  }
  const std::string position = position_of(of_output, stores, static_cast<std::size_t>(number));
  // With only_overflow a file that turns out not to be wanted must not exist: one look, then another.
  if (recorder.options().only_overflow) {
    describer.describe(out, value, {}, {});
    if (out.worst() == trace::Badness::kGood) {
      gradient.element = out.bytes();
      return;
    }
    out.clear();
  }
  describer.describe(out, value, call.name, position,
                     gradient.placement ? std::string_view(*gradient.placement) : std::string_view());
  gradient.worst = out.worst();
  gradient.element = out.bytes();
}

void BackwardState::write(CallBackward& call) {
  const dump::Options& options = recorder.options();
  recorder.place_backward(call.name, call.module.get());
  if (!call.kept) return;
  describe_incomplete(call);
  if (options.only_overflow) {
    if (recorder.has_enough_overflows() || !holds_overflow(call)) return;
    recorder.note_overflow();
  }
  const auto kind = call.is_module ? trace::RecordKind::kModuleBackward : trace::RecordKind::kApiBackward;
  const trace::RecordId record = recorder.record(kind, call.name);
  if (!options.data) return;
  if (options.input) write_part(record, trace::Part::kInput, call.outputs);
  if (!options.output) return;
  write_part(record, trace::Part::kOutput, call.inputs);
  recorder.note_output(call.name, worst_of(call.inputs));
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

void BackwardState::write_part(trace::RecordId record, trace::Part part, const Gradients& gradients) {
  static const std::string none = [] {
    trace::ElementWriter null;
    null.null();
    return std::string(null.bytes());
  }();
  thread_local std::string elements;
  elements.clear();
  for (const Gradient& gradient : gradients) {
    if (gradient.shown) elements += gradient.element.empty() ? none : std::string_view(gradient.element);
  }
  recorder.part(record, part, elements);
}

}  // namespace msprobe::torch_adapter
