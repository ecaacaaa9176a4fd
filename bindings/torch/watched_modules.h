// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The modules of a model whose calls are recorded, found by their address.

#include <c10/util/flat_hash_map.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python_call.h"

/// A module of the model that is watched.
struct alignas(64) WatchedModule {
  pybind11::object module;  // alive as long as it is looked up by its address
  std::string name;         // "Module.{path}.{Class}"
  std::unique_ptr<Placements> placements;
  std::int64_t count = 0;         // calls in this step
  WatchedModule* next = nullptr;  // that was called after it the last time
};

/// All of a session. Used under the GIL. Steps call modules in the same order, mostly: the one that comes
/// next is expected, and its memory, which a step has driven out of the processor's caches, fetched while the
/// present one runs.
class WatchedModules {
 public:
  /// A module that is there already keeps its name and count.
  void add(const pybind11::object& module, const std::string& name) {
    auto& watched = modules_[module.ptr()];
    if (watched) return;
    watched = std::make_unique<WatchedModule>();
    watched->module = module;
    watched->name = name;
  }

  /// Null: it is not watched.
  WatchedModule* find(PyObject* module) const {
    if (expected_ != nullptr && expected_->module.ptr() == module) return expected_;
    const auto found = modules_.find(module);
    return found == modules_.end() ? nullptr : found->second.get();
  }

  /// A call begins: its number in this step.
  std::int64_t begin_call(WatchedModule& watched) {
    if (watched.count == 0) called_.push_back(&watched);
    if (latest_ != nullptr) latest_->next = &watched;
    latest_ = &watched;
    expected_ = watched.next;
    if (expected_ != nullptr) {
      __builtin_prefetch(expected_->name.data());
      if (expected_->next != nullptr) __builtin_prefetch(expected_->next, 1);
    }
    return watched.count++;
  }

  /// Counts from 0 again.
  void begin_step() {
    for (WatchedModule* watched : called_) watched->count = 0;
    called_.clear();
  }

  void clear() {
    latest_ = expected_ = nullptr;
    called_.clear();
    std::exchange(modules_, {});  // modules that end may call back
  }

 private:
  ska::flat_hash_map<PyObject*, std::unique_ptr<WatchedModule>> modules_;
  std::vector<WatchedModule*> called_;  // in this step
  WatchedModule* latest_ = nullptr;
  WatchedModule* expected_ = nullptr;
};
