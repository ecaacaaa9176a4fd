// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "catch.h"
#include "contains.h"
#include "msprobe/error.h"

namespace msprobe::test {

/// What is said when `text` is refused, without the path; empty: it is not.
template <typename Parse>
std::string refusal(const Parse& parse, const std::string& text, const std::string& path) {
  try {
    (void)parse(text, path);
  } catch (const FormatError& error) {
    CHECK(error.path() == path);
    REQUIRE(std::string(error.what()).starts_with(path + ": "));
    return std::string(error.what()).substr(path.size() + 2);
  }
  return "";
}

}  // namespace msprobe::test
