// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "msprobe/export.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"

namespace msprobe::trace {

/// What a file says of a tensor beside the statistics of mindstudio-probe (docs/formats/dump.md, "Sketch").
struct SketchText {
  stats::Sketch sketch;
  stats::NonFinite non_finite;
  bool has_extremes = false;  // else minimum and maximum of the sketch are those of the tensor
  bool has_digest = true;     // false: of the first form, whose sums take the elements in another order
};

/// As bytes: they stand in the event log as they are, in JSON as base64. `wide`: sums as double, not as
/// float.
MSPROBE_API std::string sketch_bytes(const stats::Sketch& sketch, const stats::NonFinite& non_finite,
                                     bool wide);

/// The same as base64.
MSPROBE_API std::string sketch_text(const stats::Sketch& sketch, const stats::NonFinite& non_finite,
                                    bool wide);

/// Whether sums of that dtype are kept as double: those of 64-bit types are.
bool is_wide(std::optional<DType> dtype) noexcept;

/// What sketch_bytes() made, here or in the first form, as base64; nothing for anything else.
MSPROBE_API std::optional<SketchText> read_sketch(std::string_view base64);

}  // namespace msprobe::trace
