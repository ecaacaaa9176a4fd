// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/record_name.h"

#include <algorithm>
#include <array>

#include "msprobe/trace_match.h"
#include "msprobe/trace_reader.h"

namespace msprobe::trace {
namespace {

constexpr std::string_view kForward = "forward", kBackward = "backward", kGradients = "parameters_grad";

constexpr std::array<std::string_view, 2> kModulePrefixes = {"Module", "Cell"};
constexpr std::array<std::string_view, 2> kCollectivePrefixes = {"Distributed", "MintDistributed"};
constexpr std::array<std::string_view, 12> kCallPrefixes = {
    "Tensor",    "Torch", "Functional",     "NPU",      "VF", "Distributed", "Aten", "Mint",
    "Primitive", "Jit",   "MintFunctional", "MindSpeed"};
// In front of the name of the function stands that of the object which is called.
constexpr std::string_view kInstancePrefix = "Primitive";

bool is_number(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Takes the part behind the last dot off; empty: there is none.
std::string_view take_last(std::string_view& text) noexcept {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view last = text.substr(dot + 1);
  text = text.substr(0, dot);
  return last;
}

std::string_view after(std::string_view text, std::size_t dot) noexcept {
  return dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
}

Direction direction_named(std::string_view part) noexcept {
  if (part == kForward) return Direction::kForward;
  return part == kBackward ? Direction::kBackward : Direction::kNone;
}

template <std::size_t count>
bool contains(const std::array<std::string_view, count>& words, std::string_view word) noexcept {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

RecordName::RecordName(std::string_view text) noexcept : text_(text), callee_(text) {
  std::string_view rest = text;
  const std::string_view last = take_last(rest);
  if (last == kGradients) {
    kind_ = NameKind::kGradients;
    callee_ = rest;
  } else if (is_number(last)) {
    const std::string_view before = take_last(rest);
    direction_ = direction_named(before);
    if (direction_ == Direction::kNone && before != kGradients) return;
    kind_ = direction_ == Direction::kNone ? NameKind::kGradients : NameKind::kModule;
    callee_ = rest;
    count_ = last;
  } else if (const Direction direction = direction_named(last); direction != Direction::kNone) {
    if (has_module_prefix()) return;  // it has no count
    kind_ = NameKind::kCall;
    direction_ = direction;
    callee_ = rest;
    const std::string_view count = take_last(rest);
    if (!is_number(count)) return;
    callee_ = rest;
    count_ = count;
  }
}

std::string_view RecordName::call() const noexcept {
  if (kind_ != NameKind::kCall) return {};
  return text_.substr(0, callee_.size() + (count_.empty() ? 0 : count_.size() + 1));
}

std::string_view RecordName::path() const noexcept {
  if (kind_ == NameKind::kOther) return {};
  const std::string_view named = kind_ == NameKind::kCall ? callee_ : place();
  return after(named, named.find('.'));
}

std::string_view RecordName::type() const noexcept {
  const bool is_of_module = kind_ == NameKind::kModule || kind_ == NameKind::kGradients;
  return is_of_module ? after(callee_, callee_.rfind('.')) : std::string_view();
}

std::string_view RecordName::place() const noexcept {
  const std::string_view of = type();
  return of.empty() ? of : callee_.substr(0, callee_.size() - of.size() - 1);
}

std::string_view RecordName::function() const noexcept {
  if (kind_ != NameKind::kCall) return {};
  const std::string_view named = path();
  return prefix() == kInstancePrefix ? named.substr(named.rfind('.') + 1) : named.substr(0, named.find('.'));
}

bool RecordName::has_module_prefix() const noexcept { return contains(kModulePrefixes, prefix()); }

bool RecordName::has_collective_prefix() const noexcept { return contains(kCollectivePrefixes, prefix()); }

std::string RecordName::with(Direction direction) const {
  std::string name;
  append_with(direction, name);
  return name;
}

void RecordName::append_with(Direction direction, std::string& out) const {
  if (direction_ == Direction::kNone || direction == Direction::kNone) return;
  out.reserve(out.size() + text_.size() + kBackward.size() - kForward.size());
  out.append(kind_ == NameKind::kCall ? call() : callee_)
      .append(1, '.')
      .append(direction == Direction::kForward ? kForward : kBackward);
  if (kind_ == NameKind::kModule) out.append(1, '.').append(count_);
}

void append_without_count(std::string& out, std::string_view name) {
  const RecordName parts(name);
  const bool is_call = parts.kind() == NameKind::kCall;
  const std::string_view kept = is_call ? parts.callee() : parts.place();
  const std::string_view dropped_too = is_call ? parts.call() : parts.callee();
  out.append(kept).append(name.substr(kept.empty() ? 0 : dropped_too.size()));
}

bool begins_as_call(std::string_view name) noexcept {
  return std::any_of(kCallPrefixes.begin(), kCallPrefixes.end(), [name](std::string_view prefix) {
    return name.starts_with(prefix) && name.size() > prefix.size();
  });
}

bool holds_gradients(std::string_view record) noexcept {
  return RecordName(record).kind() == NameKind::kGradients;
}

}  // namespace msprobe::trace
