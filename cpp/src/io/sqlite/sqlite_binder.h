// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <SQLiteCpp/Statement.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::io {

/// Binds the values of a statement one after the other, and runs it; then again from the first. What is not
/// bound is NULL. A std::string and bytes must outlive run(); of other texts a copy is made.
class Binder {
 public:
  explicit Binder(SQLite::Statement& statement) : statement_(statement) {}

  Binder& text(const std::string& text) {
    statement_.bindNoCopy(++position_, text);
    return *this;
  }
  Binder& text(std::string_view text) {
    statement_.bind(++position_, std::string(text));
    return *this;
  }
  /// An empty one is NULL.
  template <typename Text>
  Binder& text_or_null(const Text& text) {
    return text.empty() ? null() : this->text(text);
  }
  Binder& number(std::int64_t value) {
    statement_.bind(++position_, value);
    return *this;
  }
  /// NaN is NULL.
  Binder& real(double value) {
    statement_.bind(++position_, value);
    return *this;
  }
  Binder& bytes(const void* data, std::size_t size) {
    statement_.bindNoCopy(++position_, size == 0 ? "" : data, static_cast<int>(size));
    return *this;
  }
  Binder& null() {
    ++position_;
    return *this;
  }
  void run() {
    statement_.exec();
    statement_.reset();
    statement_.clearBindings();
    position_ = 0;
  }

 private:
  SQLite::Statement& statement_;
  int position_ = 0;
};

}  // namespace msprobe::io
