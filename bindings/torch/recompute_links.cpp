// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "recompute_links.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

#include "../python_stack.h"

namespace py = pybind11;

// Null: the innermost hooks on saved tensors, if any, are none of activation checkpointing.
RecomputeLinks::Region* RecomputeLinks::region_of_hooks() {
  if (at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return nullptr;
  static const py::handle top_hooks =
      py::object(py::module_::import("torch._C._autograd").attr("_top_saved_tensors_default_hooks"))
          .release();
  static const py::handle region_of =
      py::object(py::module_::import("msprobe.dump.checkpointing").attr("region_of")).release();
  const py::object hooks = top_hooks(false);
  if (hooks.is_none()) return nullptr;
  const py::object pack = hooks[py::int_(0)];
  if (!last_hook_ || !last_hook_().is(pack)) {
    const py::object region = region_of(pack);
    last_hook_ = py::weakref(pack);  // the hook itself would keep the region's arguments alive
    last_region_ = nullptr;
    if (!region.is_none()) {
      last_region_ = region.ptr();
      Region& known = regions_[last_region_];
      // Another object may have come to live at the address of one that is gone.
      if (!known.weak || !known.weak().is(region)) known = {py::weakref(region), {}};
    }
  }
  const auto found = regions_.find(last_region_);
  return found == regions_.end() ? nullptr : &found->second;
}

// A call of the forward.
void RecomputeLinks::note(const void* callee, std::int64_t count) {
  if (Region* region = region_of_hooks()) {
    region->calls[callee].push_back(count);
  } else if (!c10::GradMode::is_enabled()) {
    without_graph_[callee].push_back({at::sequence_number::peek(), count});
  }
}

// The number of the call that a repeated one repeats, if that is known.
std::optional<std::int64_t> RecomputeLinks::find(const void* callee) {
  const auto node = torch::autograd::get_current_node();
  if (!node) return std::nullopt;
  const int backward = torch::autograd::get_current_graph_task_id();
  if (const Region* region = region_of_hooks()) {
    const auto calls = region->calls.find(callee);
    if (calls == region->calls.end()) return std::nullopt;
    const std::size_t index = done_[{reinterpret_cast<std::uintptr_t>(region), backward, callee}]++;
    return index < calls->second.size() ? std::optional(calls->second[index]) : std::nullopt;
  }
  const auto calls = without_graph_.find(callee);
  if (calls == without_graph_.end()) return std::nullopt;
  const auto first =
      std::upper_bound(calls->second.begin(), calls->second.end(), node->sequence_nr(),
                       [](std::uint64_t number, const Call& call) { return number < call.sequence; });
  const std::size_t index = done_[{node->sequence_nr(), backward, callee}]++;
  const auto left = static_cast<std::size_t>(calls->second.end() - first);
  return index < left ? std::optional((first + static_cast<std::ptrdiff_t>(index))->count) : std::nullopt;
}

Recompute RecomputeLinks::begin_call(const void* callee, std::int64_t count) {
  if (torch::autograd::get_current_node() == nullptr || !StackCollector::in_recompute()) {
    note(callee, count);
    return {};
  }
  const auto original = find(callee);
  // Of a region inside of the repeated one, this may be the forward.
  if (!original || !c10::GradMode::is_enabled()) note(callee, count);
  return {true, original};
}

void RecomputeLinks::begin_step() {
  regions_.clear();
  without_graph_.clear();
  done_.clear();
  last_hook_ = py::object();
  last_region_ = nullptr;
}
