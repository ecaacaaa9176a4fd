// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <string>

#include "interception.h"
#include "msprobe/torch_monitor.h"

/// The calls by which models compute attention: torch's own function, and a softmax over scores.
class AttentionCalls {
 public:
  AttentionCalls() = default;
  AttentionCalls(const AttentionCalls&) = delete;
  AttentionCalls& operator=(const AttentionCalls&) = delete;

  bool is_found() const noexcept { return !functions_.empty(); }
  /// Looks for the functions. Throws what Python raises.
  void find();

  /// Null: it is none of them.
  Api* api_of(PyObject* function) const;

  /// Logits and entropies of at most `queries` queries of each head; nothing where the call is no attention.
  /// `module`: the name of the innermost module that is called.
  std::optional<msprobe::torch_adapter::AttentionRows> rows_of(const Api& api, const CallArguments& arguments,
                                                               const std::string& module,
                                                               std::int64_t queries) const;

 private:
  Api attention_{.name = "scaled_dot_product_attention"};
  Api softmax_{.name = "softmax"};
  ska::flat_hash_map<PyObject*, Api*> functions_;
};
