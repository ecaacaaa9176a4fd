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
struct WatchedModule {
  pybind11::object module;  // alive as long as it is looked up by its address
  std::string name;         // "Module.{path}.{Class}"
  std::unique_ptr<Placements> placements;
  std::int64_t count = 0;  // calls in this step
};

/// All of a session. Used under the GIL.
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
    const auto found = modules_.find(module);
    return found == modules_.end() ? nullptr : found->second.get();
  }

  /// A call begins: its number in this step.
  std::int64_t begin_call(WatchedModule& watched) {
    if (watched.count == 0) called_.push_back(&watched);
    return watched.count++;
  }

  /// Counts from 0 again.
  void begin_step() {
    for (WatchedModule* watched : called_) watched->count = 0;
    called_.clear();
  }

  void clear() {
    called_.clear();
    std::exchange(modules_, {});  // modules that end may call back
  }

 private:
  ska::flat_hash_map<PyObject*, std::unique_ptr<WatchedModule>> modules_;
  std::vector<WatchedModule*> called_;  // in this step
};
