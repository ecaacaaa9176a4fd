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

#include "../held.h"
#include "python_call.h"

/// A module of the model that is watched.
struct WatchedModule {
  Held<> module;     // alive as long as it is looked up by its address
  std::string name;  // "Module.{path}.{Class}"
  std::unique_ptr<Placements> placements;
  std::int64_t count = 0;  // calls in this step
  bool is_paused = false;  // its calls are not seen
};

/// All of a session. Used under the GIL.
class WatchedModules {
 public:
  /// A module that is there already keeps its name and count, and is not paused any more.
  void add(const pybind11::object& module, const std::string& name) {
    auto& watched = modules_[module.ptr()];
    if (watched) {
      watched->is_paused = false;
      return;
    }
    watched = std::make_unique<WatchedModule>();
    watched->module = module;
    watched->name = name;
  }

  /// Null: it is not watched.
  WatchedModule* find(PyObject* module) const {
    const auto found = modules_.find(module);
    return found == modules_.end() || found->second->is_paused ? nullptr : found->second.get();
  }

  void pause(PyObject* module) {
    if (WatchedModule* const watched = find(module)) watched->is_paused = true;
  }

  /// A call begins: its number in this step.
  std::int64_t begin_call(WatchedModule& watched) {
    if (watched.count == 0) called_.push_back(&watched);
    return watched.count++;
  }

  /// Counts from 0 again. Lets go what is paused.
  void begin_step() {
    for (WatchedModule* watched : called_) watched->count = 0;
    called_.clear();
    std::vector<std::unique_ptr<WatchedModule>> gone;  // modules that end may call back
    for (auto at = modules_.begin(); at != modules_.end();) {
      if (at->second->is_paused) gone.push_back(std::move(at->second));
      at = at->second == nullptr ? modules_.erase(at) : std::next(at);
    }
  }

  void clear() {
    called_.clear();
    std::exchange(modules_, {});  // modules that end may call back
  }

 private:
  ska::flat_hash_map<PyObject*, std::unique_ptr<WatchedModule>> modules_;
  std::vector<WatchedModule*> called_;  // in this step
};
