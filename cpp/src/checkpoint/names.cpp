// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/names.h"

#include <algorithm>
#include <charconv>

#include "msprobe/error.h"

namespace msprobe::checkpoint {

bool matches(std::string_view pattern, std::string_view name) noexcept {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // the last one passed, and what it stood for so far
  std::size_t taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matches_any(std::span<const std::string> patterns, std::string_view name) noexcept {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](const std::string& pattern) { return matches(pattern, name); });
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  if (from.empty()) return std::string(text);
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    result += text.substr(at, found - at);
    if (found == std::string_view::npos) return result;
    result += to;
    at = found + from.size();
  }
}

std::optional<NumberedName> find_number(std::string_view name, std::string_view word) noexcept {
  for (std::size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    if (at > 0 && name[at - 1] != '.' && name[at - 1] != '_') continue;
    const std::size_t begin = at + word.size();
    const std::size_t end = std::min(name.find('.', begin), name.size());
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(name.data() + begin, name.data() + end, number);
    constexpr std::int64_t kTooLarge = 1'000'000'000;
    if (error == std::errc{} && rest == name.data() + end && number >= 0 && number < kTooLarge) {
      return NumberedName{name.substr(0, begin), number, name.substr(end)};
    }
  }
  return std::nullopt;
}

std::string with_number(const NumberedName& name, std::int64_t number) {
  return std::string(name.before).append(std::to_string(number)).append(name.after);
}

bool capture(std::string_view pattern, std::string_view name, Captures& captures) {
  std::size_t n = 0;
  for (std::size_t p = 0; p < pattern.size();) {
    const std::size_t close = pattern[p] == '{' ? pattern.find('}', p) : std::string_view::npos;
    if (close == std::string_view::npos) {
      if (n == name.size() || pattern[p] != name[n]) return false;
      ++p;
      ++n;
      continue;
    }
    // What follows the brackets ends the part, if it is not a dot: "weight{e}" or "w{x}_b" are fine.
    const char stop = close + 1 < pattern.size() ? pattern[close + 1] : '.';
    std::size_t end = std::min({name.find('.', n), name.find(stop, n), name.size()});
    if (pattern.substr(p, close - p).ends_with("...")) {  // parts with dots, up to the text behind
      const std::size_t behind = pattern.size() - close - 1;
      end = name.size() > n + behind ? name.size() - behind : n;
    }
    if (end == n) return false;
    const std::string value(name.substr(n, end - n));
    const auto [known, is_new] = captures.emplace(std::string(pattern.substr(p + 1, close - p - 1)), value);
    if (!is_new && known->second != value) return false;
    n = end;
    p = close + 1;
  }
  return n == name.size();
}

std::string filled_in(std::string_view pattern, const Captures& captures) {
  std::string result;
  for (std::size_t p = 0; p < pattern.size();) {
    const std::size_t close = pattern[p] == '{' ? pattern.find('}', p) : std::string_view::npos;
    if (close == std::string_view::npos) {
      result += pattern[p++];
      continue;
    }
    const auto found = captures.find(pattern.substr(p + 1, close - p - 1));
    if (found == captures.end()) {
      throw InvalidArgument("mapping: \"" + std::string(pattern) + "\" has a {} that its rule does not know");
    }
    result += found->second;
    p = close + 1;
  }
  return result;
}

bool has_part(std::string_view name, std::string_view part) {
  for (std::size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

}  // namespace msprobe::checkpoint
