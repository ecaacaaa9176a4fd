// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/event_log.h"

namespace msprobe::trace {

Filter::Filter(std::vector<std::string> list, std::vector<std::string> scope)
    : list_(std::move(list)), scope_(std::move(scope)) {
  if (!scope_.empty() && scope_.size() != 2) {
    throw InvalidArgument("scope: expected the first and the last record name, found " +
                          std::to_string(scope_.size()) + " names");
  }
}

bool Filter::lists(std::string_view name) const {
  return list_.empty() || !open_.empty() ||
         std::any_of(list_.begin(), list_.end(),
                     [&](const std::string& entry) { return name.find(entry) != std::string_view::npos; });
}

bool Filter::bounds(std::string_view name) const {
  return std::find(scope_.begin(), scope_.end(), name) != scope_.end();
}

bool Filter::keeps(std::string_view name) const { return lists(name) && is_in_scope(); }

bool Filter::keeps_api(std::string_view name) {
  enter(name);
  const bool kept = keeps(name);
  leave(name);
  return kept;
}

void Filter::enter(std::string_view name) {
  if (!scope_.empty() && name == scope_[0]) in_scope_ = true;
}

void Filter::leave(std::string_view name) {
  if (!scope_.empty() && name == scope_[1]) in_scope_ = false;
}

void Filter::open_module(std::string_view name) {
  enter(name);
  const bool named = !list_.empty() && std::any_of(list_.begin(), list_.end(), [&](const std::string& entry) {
    return name.find(entry) != std::string_view::npos;
  });
  if (named) open_.emplace_back(name);
}

bool Filter::close_module(std::string_view name) {
  const bool kept = keeps(name);
  leave(name);
  if (const auto open = std::find(open_.begin(), open_.end(), name); open != open_.end()) open_.erase(open);
  return kept;
}

}  // namespace msprobe::trace
