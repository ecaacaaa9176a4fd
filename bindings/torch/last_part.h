// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// "float32" of "torch.float32".
inline std::string_view last_part(std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); }
