// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "backward_of_call.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <utility>

#include "changed_arguments.h"
#include "inside_call.h"
#include "msprobe/torch_perturb.h"
#include "unseen.h"

namespace py = pybind11;
namespace adapter = msprobe::torch_adapter;
using msprobe::perturb::Mode;
using torch::autograd::Node;
using torch::autograd::variable_list;

std::uint64_t next_node() { return at::sequence_number::peek(); }

namespace {

// A view whose base was changed in place gets a new node when it is asked for one, which is left to the
// training.
bool has_stale_node(const at::Tensor& tensor) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  return view != nullptr && view->has_bw_view() && tensor._version() != view->get_attr_version();
}

// Autocast as it was in the forward, for a time, without its cache: that is the training's.
class AutocastAgain {
 public:
  AutocastAgain(at::DeviceType device, bool enabled, at::ScalarType dtype)
      : device_(device),
        enabled_before_(at::autocast::is_autocast_enabled(device)),
        dtype_before_(at::autocast::get_autocast_dtype(device)),
        cache_before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastAgain() {
    at::autocast::set_autocast_enabled(device_, enabled_before_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
    at::autocast::set_autocast_cache_enabled(cache_before_);
  }
  AutocastAgain(const AutocastAgain&) = delete;
  AutocastAgain& operator=(const AutocastAgain&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
  bool cache_before_;
};

}  // namespace

struct BackwardOfCall::Arrival final : torch::autograd::FunctionPreHook {
  explicit Arrival(std::shared_ptr<BackwardOfCall> of) : call(std::move(of)) {}

  variable_list operator()(const variable_list& gradients) override {
    for (const auto& [number, output] : places) {
      if (number < gradients.size()) call->arrive(output, gradients[number]);
    }
    return gradients;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  std::shared_ptr<BackwardOfCall> call;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // number of a gradient, tensor of the result
};

std::string BackwardOfCall::watch(std::weak_ptr<BackwardObserver> owner, std::uint64_t step, const Call& call,
                                  std::unique_ptr<Repetition> repetition, PyObject* result,
                                  std::uint64_t first_node) {
  const std::vector<at::Tensor> outputs = tensors_of(result);
  // The nodes in the order of the results.
  std::vector<std::pair<Node*, std::vector<std::pair<std::size_t, std::size_t>>>> nodes;
  std::size_t expected = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& output = outputs[i];
    if (!output.requires_grad() || output.is_leaf()) continue;
    if (has_stale_node(output)) return "its result is a view that was changed in place";
    Node* node = output.grad_fn().get();
    if (node->sequence_nr() < first_node) return "its result is an argument";
    const auto is_it = [node](const auto& known) { return known.first == node; };
    auto known = std::find_if(nodes.begin(), nodes.end(), is_it);
    if (known == nodes.end()) known = nodes.insert(nodes.end(), {node, {}});
    known->second.emplace_back(output.output_nr(), i);
    ++expected;
  }
  if (nodes.empty()) return {};
  std::vector<PyObject*> inputs;
  for (PyObject* tensor : repetition->tensors()) {
    const at::Tensor& input = THPVariable_Unpack(tensor);
    const bool is_known = std::find(inputs.begin(), inputs.end(), tensor) != inputs.end();
    // An argument that the call changed in place wants one since then, if not before.
    if (input.requires_grad() && at::isFloatingType(input.scalar_type()) && !is_known) {
      inputs.push_back(tensor);
    }
  }
  if (inputs.empty()) return {};
  std::shared_ptr<BackwardOfCall> self(new BackwardOfCall());
  self->owner_ = std::move(owner);
  self->step_ = step;
  self->api_ = call.api();
  self->name_ = call.name();
  self->name_.replace(self->name_.rfind("forward"), std::string_view("forward").size(), "backward");
  repetition->keep();
  self->repetition_ = std::move(repetition);
  self->inputs_ = std::move(inputs);
  self->arrived_.resize(outputs.size());
  self->missing_ = expected;
  const at::DeviceType device = THPVariable_Unpack(self->inputs_.front()).device().type();
  self->autocast_ = {device, at::autocast::is_autocast_enabled(device),
                     at::autocast::get_autocast_dtype(device)};
  for (auto& [node, places] : nodes) {
    auto hook = std::make_unique<Arrival>(self);
    hook->places = std::move(places);
    node->add_pre_hook(std::move(hook));
  }
  return {};
}

void BackwardOfCall::arrive(std::size_t output, const at::Tensor& gradient) {
  {
    const std::lock_guard lock(mutex_);
    if (missing_ == 0) return;  // the graph was kept, and runs again
    arrived_[output] = gradient;
    if (--missing_ > 0) return;
  }
  const std::shared_ptr<BackwardObserver> owner = owner_.lock();
  if (owner && Py_IsInitialized() != 0) {
    const py::gil_scoped_acquire gil;
    const InsideCall inside;
    owner->check_backward(*this);
    repetition_.reset();
  }
  arrived_.clear();
  inputs_.clear();
}

std::optional<BackwardOfCall::Gradients> BackwardOfCall::compute_twice(Mode mode) {
  const bool on_cpu = mode == Mode::kToCpu;
  const bool improves = on_cpu || mode == Mode::kImprovePrecision;
  std::vector<at::Tensor> plain;
  for (PyObject* input : inputs_) plain.push_back(repetition_->before(input).detach());
  std::vector<at::Tensor> changed = plain;
  if (improves) {
    const bool any = autocast_.enabled || can_be_improved(*repetition_) ||
                     std::any_of(arrived_.begin(), arrived_.end(),
                                 [](const at::Tensor& one) { return one.defined() && is_half(one); });
    if (!on_cpu && !any) return std::nullopt;
    for (at::Tensor& input : changed) input = improved(input, on_cpu);
  } else if (mode != Mode::kNoChange) {
    if (!adapter::why_unperturbable(plain.front()).empty()) return std::nullopt;
    changed.front() = adapter::perturbed(plain.front(), mode);
    if (!changed.front().defined()) return std::nullopt;
  }
  Gradients found;
  found.original = compute(plain, false, true);
  found.perturbed = improves ? compute(changed, on_cpu, false) : compute(changed, false, true);
  return found;
}

std::vector<at::Tensor> BackwardOfCall::compute_changed(const Change& change) {
  std::vector<at::Tensor> inputs;
  for (PyObject* input : inputs_) {
    const at::Tensor before = repetition_->before(input).detach();
    inputs.push_back(change ? change(before) : before);
  }
  return compute(inputs, false, true, change);
}

std::vector<at::Tensor> BackwardOfCall::compute(const std::vector<at::Tensor>& inputs, bool on_cpu,
                                                bool as_in_forward, const Change& change) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  const bool improves = !as_in_forward;
  Repetition::Way way;
  way.graph = true;
  way.replace = [&](PyObject* value) -> py::object {
    if (!THPVariable_Check(value)) return {};
    const auto place = std::find(inputs_.begin(), inputs_.end(), value);
    if (place != inputs_.end()) {
      const at::Tensor& leaf = leaves[static_cast<std::size_t>(place - inputs_.begin())];
      const c10::AutoGradMode gradients(true);
      return python_tensor(repetition_->is_changed(value) ? leaf.clone() : leaf);
    }
    at::Tensor other = repetition_->before(value).detach();
    if (improves) other = improved(other, on_cpu);
    if (change) other = change(other);
    return python_tensor(repetition_->is_changed(value) ? other.clone() : other);
  };
  const AutocastAgain autocast(autocast_.device, autocast_.enabled && as_in_forward, autocast_.dtype);
  const py::object result = repetition_->again(way);
  if (!result) throw py::error_already_set();
  variable_list outputs;
  variable_list gradients;
  const std::vector<at::Tensor> results = tensors_of(result.ptr());
  for (std::size_t i = 0; i < results.size() && i < arrived_.size(); ++i) {
    if (!results[i].requires_grad() || !arrived_[i].defined()) continue;
    outputs.push_back(results[i]);
    const at::Tensor arrived = arrived_[i].detach();
    gradients.push_back((change ? change(arrived) : arrived).to(results[i].options()));
  }
  if (outputs.empty()) return std::vector<at::Tensor>(inputs.size());
  const Unseen unseen;
  const py::gil_scoped_release no_gil;
  return torch::autograd::grad(outputs, leaves, gradients, false, false, true);
}
