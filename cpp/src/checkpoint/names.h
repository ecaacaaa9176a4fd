// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Names of parameters: patterns, replaced text, numbers between dots.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/checkpoint.h"

namespace msprobe::checkpoint {

/// `*` stands for any text, also none. Takes time with the product of both lengths at most.
bool matches(std::string_view pattern, std::string_view name) noexcept;
bool matches_any(std::span<const std::string> patterns, std::string_view name) noexcept;

/// Replaces all occurrences, from left to right.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

/// A number behind a word in a name: "decoder.layers.12.mlp" has 12 behind "layers.".
struct NumberedName {
  std::string_view before;  // "decoder.layers."
  std::int64_t number = 0;
  std::string_view after;  // ".mlp", or nothing
};

/// The first number between dots that follows `word`, such as "layers."; the word itself begins the name or
/// follows a dot or an underscore. nullopt where there is none below 10^9.
std::optional<NumberedName> find_number(std::string_view name, std::string_view word) noexcept;
std::string with_number(const NumberedName& name, std::int64_t number);

/// Text for what `{x}` stood for.
using Captures = std::map<std::string, std::string, std::less<>>;

/// Whether `name` is `pattern`, in which `{x}` stands for one part between dots that is not empty, `{x...}`
/// for one or more, with text alone behind it. Adds what they stand for to `captures`; one that is there
/// already must be the same.
bool capture(std::string_view pattern, std::string_view name, Captures& captures);

/// `pattern` with the texts put in. Throws InvalidArgument for one that is not known.
std::string filled_in(std::string_view pattern, const Captures& captures);

/// Whether one of the parts of a name, which dots divide, is `part`.
bool has_part(std::string_view name, std::string_view part);

}  // namespace msprobe::checkpoint
