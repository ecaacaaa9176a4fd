// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "msprobe/tensor_view.h"

namespace msprobe::io {

/// Class of torch that a storage of this dtype is saved as, e.g. "FloatStorage". Empty for the dtypes that
/// came later (fp8, uint16 to uint64, complex32): theirs is "torch.storage.UntypedStorage", and the tensor
/// names the dtype.
std::string_view storage_class(DType dtype) noexcept;

/// The dtype of the class `name`, without its module. nullopt for what storage_class() does not give.
std::optional<DType> dtype_of_storage_class(std::string_view name) noexcept;

}  // namespace msprobe::io
