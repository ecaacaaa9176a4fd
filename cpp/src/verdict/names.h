// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the name of a record says of the call.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/record_name.h"
#include "msprobe/trace_reader.h"

namespace msprobe::verdict {

/// "blocks.0.attn" of "Module.blocks.0.attn.Attention.forward.0"; empty for anything else.
std::string module_path(std::string_view record);

/// "Attention" of the same.
std::string_view module_class(std::string_view record);

/// "Functional.gelu" of "Functional.gelu.3.forward"; empty for modules.
std::string operator_name(std::string_view record);

/// The records of the backward calls of a module, of the name of the record of its gradients.
std::vector<std::uint32_t> backward_calls(const trace::Trace& trace, std::string_view gradients);

inline bool is_module(std::string_view record) { return trace::RecordName(record).has_module_prefix(); }
inline bool is_backward(std::string_view record) { return trace::RecordName(record).is_backward(); }
inline bool is_collective(std::string_view record) {
  return trace::RecordName(record).has_collective_prefix();
}

}  // namespace msprobe::verdict
