// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// JSON from files, as events.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/document/json_scanner.h"
#include "io/in_quotes.h"

namespace msprobe::io {

/// The deepest nesting that is read: a dump has at most 50 levels below a record.
inline constexpr int kJsonDepth = 64;

/// Receives the events of a document and knows how deep it is. A subclass hides what it wants to see: null(),
/// boolean(bool), number(text), text(text), key(text), begin(is_object), end(is_object). Any of them may call
/// fail().
template <typename Derived>
class JsonHandler {
 protected:
  io::JsonScanner& scanner() noexcept { return *scanner_; }
  /// Ends the parsing; the first problem is kept.
  void fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  /// Bytes of the document before, and up to the end of, the value or bracket of the present event.
  std::size_t begin_of_event() const noexcept { return scanner_->begin_of_taken(); }
  std::size_t position() const noexcept { return scanner_->position(); }
  /// Open brackets, that of the present begin() included.
  int depth() const noexcept { return depth_; }

 private:
  friend Derived;  // and no other class can take its place as Derived
  template <typename Handler>
  friend void parse_json(JsonScanner& scanner, Handler& handler);
  JsonHandler() = default;

  void run(JsonScanner& scanner);
  void value();
  void begin();
  void end();
  void check() const {
    if (!problem_.empty()) scanner_->refuse(scanner_->position(), problem_);
  }
  bool in_object() const noexcept { return (objects_ >> (depth_ - 1) & 1) != 0; }
  Derived& self() noexcept { return static_cast<Derived&>(*this); }

  JsonScanner* scanner_ = nullptr;
  std::string problem_;
  int depth_ = 0;
  bool is_first_ = false;      // what comes next is the first in its brackets
  std::uint64_t objects_ = 0;  // a bit for each open bracket: it is that of an object
};

template <typename Derived>
void JsonHandler<Derived>::run(JsonScanner& scanner) {
  scanner_ = &scanner;
  scanner.peek();
  value();
  while (depth_ > 0) {
    const bool is_object = in_object();
    const char next = scanner.peek();
    if (next == (is_object ? '}' : ']')) {
      scanner.take();
      end();
      continue;
    }
    if (!is_first_) {
      if (next != ',') scanner.refuse_next(is_object ? "a comma or }" : "a comma or ]");
      scanner.take();
      const char after = scanner.peek();
      if (after == '}' || after == ']') scanner.refuse_next("a value behind the comma");
    }
    is_first_ = false;
    if (is_object) {
      if (scanner.peek() != '"') scanner.refuse_next("a key in quotes");
      self().key(scanner.text());
      check();
      if (scanner.peek() != ':') scanner.refuse_next("a colon behind the key");
      scanner.take();
      scanner.peek();
    }
    value();
  }
  scanner.expect_end();
}

// What peek() has shown.
template <typename Derived>
void JsonHandler<Derived>::value() {
  switch (scanner_->peek()) {
    case '{':
    case '[': return begin();
    case '"': self().text(scanner_->text()); break;
    case 'n':
      scanner_->word("null");
      self().null();
      break;
    case 't':
      scanner_->word("true");
      self().boolean(true);
      break;
    case 'f':
      scanner_->word("false");
      self().boolean(false);
      break;
    default: self().number(scanner_->number());
  }
  check();
}

template <typename Derived>
void JsonHandler<Derived>::begin() {
  const bool is_object = scanner_->peek() == '{';
  scanner_->take();
  if (depth_ == kJsonDepth) fail("found nesting deeper than " + std::to_string(kJsonDepth) + " levels");
  check();
  const std::uint64_t bit = std::uint64_t{1} << depth_++;
  objects_ = is_object ? objects_ | bit : objects_ & ~bit;
  is_first_ = true;
  self().begin(is_object);
  check();
}

template <typename Derived>
void JsonHandler<Derived>::end() {
  is_first_ = false;
  self().end(in_object());
  check();
  --depth_;
}

/// Parses what `scanner` reads: numbers and the words NaN, Infinity, -Infinity come as text. Texts live as
/// long as JsonScanner::text() says. Throws FormatError with the place.
template <typename Handler>
void parse_json(JsonScanner& scanner, Handler& handler) {
  handler.run(scanner);
}

/// Parses `content`, which is changed: texts are decoded where they are, and stay there.
template <typename Handler>
void parse_json(std::string& content, const std::filesystem::path& path, Handler& handler) {
  JsonScanner scanner(content, path);
  parse_json(scanner, handler);
}

/// Parses a file without keeping it: texts live during their event. Throws IoError, UnsupportedError above
/// 4 GiB, FormatError.
template <typename Handler>
void parse_json_file(const std::filesystem::path& path, Handler& handler) {
  JsonScanner scanner(path);
  parse_json(scanner, handler);
}

}  // namespace msprobe::io
