// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

namespace msprobe::io {

/// Writes one tensor as `torch.save(tensor, path)` does; torch.load reads it, also with weights_only=True and
/// with mmap=True. Every dtype and every layout; a tensor with strides is written without gaps, in C order.
/// Format: docs/formats/pt.md.
///
/// The file is complete or absent (AtomicFile). Memory is read once; a tensor of any size needs less than a
/// MiB beside it. Thread-safe. Throws InvalidArgument for a bad shape, IoError.
MSPROBE_API void write_pt(const std::filesystem::path& path, const TensorView& view,
                          bool requires_grad = false);

/// The bytes of that file. For a tensor that will have changed by the time it is written: this copy is the
/// only one, and whoever writes it needs one OutputFile::write. Thread-safe. Throws InvalidArgument for a bad
/// shape.
MSPROBE_API std::string pt_bytes(const TensorView& view, bool requires_grad = false);

}  // namespace msprobe::io
