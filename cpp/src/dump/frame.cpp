// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "msprobe/dump.h"
#include "msprobe/record_name.h"

namespace msprobe::dump {
namespace {

void append_backward_name(std::string_view forward_name, std::string& out) {
  const trace::RecordName name(forward_name);
  if (name.direction() == trace::Direction::kNone) {
    out += forward_name;
  } else {
    name.append_with(trace::Direction::kBackward, out);
  }
}

}  // namespace

std::string backward_name(std::string_view forward_name) {
  std::string result;
  append_backward_name(forward_name, result);
  return result;
}

Frame::Frame(std::string_view forward_name, std::shared_ptr<const Frame> around)
    : parent(std::move(around)), forward_bytes_(forward_name.size()) {
  names_.reserve(2 * forward_name.size() + 1);  // "backward" is longer by one
  names_ = forward_name;
  append_backward_name(forward_name, names_);
}

}  // namespace msprobe::dump
