// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "msprobe/dump.h"

namespace msprobe::dump {
namespace {

void append_backward_name(std::string& out, std::string_view forward_name) {
  constexpr std::string_view kForward = ".forward";
  constexpr std::string_view kBackward = ".backward";
  const std::size_t at = forward_name.rfind(kForward);
  if (at == std::string_view::npos) {
    out += forward_name;
    return;
  }
  out.reserve(out.size() + forward_name.size() + kBackward.size() - kForward.size());
  out.append(forward_name.substr(0, at)).append(kBackward).append(forward_name.substr(at + kForward.size()));
}

}  // namespace

std::string backward_name(std::string_view forward_name) {
  std::string result;
  append_backward_name(result, forward_name);
  return result;
}

Frame::Frame(std::string_view forward_name, std::shared_ptr<const Frame> around)
    : parent(std::move(around)), forward_bytes_(forward_name.size()) {
  names_.reserve(2 * forward_name.size() + 1);  // "backward" is longer by one
  names_ = forward_name;
  append_backward_name(names_, forward_name);
}

}  // namespace msprobe::dump
