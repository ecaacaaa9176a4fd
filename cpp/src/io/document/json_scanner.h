// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/file.h"

namespace msprobe::io {

/// Takes a JSON document apart into its signs, texts, numbers and words, wherever they stand; what may follow
/// what is left to the caller. Reads a string, or a file through a window that moves on, so that a file takes
/// no memory. Strict, but for the words NaN, Inf, Infinity (and those with a minus), and a byte order mark at
/// the start. Any function throws FormatError with the path and the place. Not thread-safe.
class JsonScanner {
 public:
  /// All of `content`, which is changed: texts are decoded where they stand, and zeros are appended.
  JsonScanner(std::string& content, std::filesystem::path path);
  /// The file at `path`. Throws IoError, and UnsupportedError above 4 GiB.
  explicit JsonScanner(const std::filesystem::path& path);

  /// The next character that is no white space, without taking it; '\0': the document ends.
  char peek() {
    if (static_cast<unsigned char>(*at_) > ' ') return *at_;
    if (*at_ == ' ' && static_cast<unsigned char>(at_[1]) > ' ') return *++at_;  // behind a colon
    return skip_space();
  }
  /// Takes what peek() has shown, a sign.
  void take() noexcept { token_ = at_++; }
  /// Takes the text whose quote peek() has shown; decoded UTF-8. Of a string it stays where it is, of a file
  /// it lives until the next call.
  std::string_view text();
  /// Takes the number that begins with what peek() has shown, as it stands there.
  std::string_view number();
  /// Takes `word`, of which peek() has shown the first character.
  void word(std::string_view word);
  /// Nothing but white space may follow.
  void expect_end();

  /// Bytes of the document before, and up to the end of, what was taken last.
  std::size_t begin_of_taken() const noexcept { return passed_ + static_cast<std::size_t>(token_ - begin_); }
  std::size_t position() const noexcept { return passed_ + static_cast<std::size_t>(at_ - begin_); }
  /// Bytes of the document.
  std::size_t size() const noexcept { return size_; }

  /// Throws: what peek() has shown, or the end of the document, cannot stand here. `expected`: what can.
  [[noreturn]] void refuse_next(std::string_view expected);
  /// Throws FormatError with a place.
  [[noreturn]] void refuse(std::size_t position, const std::string& problem) const;

 private:
  char skip_space();
  char skip_any_space();
  /// What begins at token_, of any form and length.
  std::string_view any_text();
  std::string_view any_number();
  void skip_mark();
  /// Moves the window on, so that it begins with token_: false where there is no more.
  bool more();
  /// Calls scan() for the end of what begins at token_, again when the window has moved on.
  template <typename Scan>
  char* end_of_token(const Scan& scan);
  [[noreturn]] void refuse_at(const char* place, std::string_view expected);
  std::size_t position_of(const char* place) const noexcept {
    return passed_ + static_cast<std::size_t>(place - begin_);
  }
  void check_number(std::string_view digits) const;
  std::string_view decode(char* begin, char* end);

  std::filesystem::path path_;
  std::unique_ptr<InputFile> file_;  // null: a string is read
  std::vector<char> window_;         // of a file
  std::size_t size_ = 0;
  std::size_t passed_ = 0;  // bytes of the document before begin_
  char* begin_ = nullptr;   // [begin_, end_) is there, and zeros behind it
  char* end_ = nullptr;
  char* at_ = nullptr;
  char* token_ = nullptr;  // begin of what was taken last
};

/// What a number that JsonScanner::number() gave stands for. Below the smallest double: 0 with its sign;
/// above the largest, which as a number of digits is refused only from 1e309 on: an infinity.
double number_value(std::string_view number) noexcept;

}  // namespace msprobe::io
