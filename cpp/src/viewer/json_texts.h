// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msprobe::viewer {

/// The texts and numbers of a JSON list, as texts; empty for anything else.
std::vector<std::string> list_texts(std::string_view json);

}  // namespace msprobe::viewer
