// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <nlohmann/json.hpp>

#include "io/document/document_builder.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

using Json = nlohmann::json;

// How far the parser has read. It looks one character further to see that a number ends, which may be that of
// the next line.
struct Progress {
  int line = 1;
  int line_before = 1;  // before the last character
};

// Iterates over text and counts lines.
class Reading {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Reading(const char* at, Progress* progress) : at_(at), progress_(progress) {}
  reference operator*() const { return *at_; }
  Reading& operator++() {
    progress_->line_before = progress_->line;
    if (*at_++ == '\n') ++progress_->line;
    return *this;
  }
  Reading operator++(int) {
    Reading before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Reading& other) const { return at_ == other.at_; }
  bool operator!=(const Reading& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Progress* progress_;
};

// What the library says, without its own numbers and what it had read:
// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing value -
// invalid literal; last read: 'x'" -> "line 1, column 2", "invalid literal".
struct Problem {
  std::string where;
  std::string what;
};

Problem problem_of(std::string_view text, int line) {
  Problem problem{"line " + std::to_string(line), std::string(text)};
  constexpr std::string_view kPlace = "parse error at ";
  if (const std::size_t place = text.find(kPlace); place != text.npos) {
    text.remove_prefix(place + kPlace.size());
    const std::size_t end = std::min(text.find(": "), text.size());
    problem.where = text.substr(0, end);
    text.remove_prefix(std::min(end + 2, text.size()));
  } else if (const std::size_t end = text.find("] "); end != text.npos) {
    text.remove_prefix(end + 2);
  }
  if (const std::size_t dash = text.find(" - "); dash != text.npos) text.remove_prefix(dash + 3);
  const std::size_t read = text.find("; last read: ");
  std::string_view rest = read == text.npos ? std::string_view() : text.substr(read);
  rest.remove_prefix(std::min(rest.size(), rest.find("; expected ")));
  problem.what = std::string(text.substr(0, std::min(read, std::size_t{120})));
  problem.what += rest;
  return problem;
}

class JsonReader : public nlohmann::json_sax<Json> {
 public:
  JsonReader(const std::filesystem::path& path, const DocumentLimits& limits, const Progress& progress)
      : path_(path), builder_(path, limits), progress_(progress) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add_number(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (value <= std::uint64_t{INT64_MAX}) return add_number(static_cast<std::int64_t>(value));
    return add_number(static_cast<double>(value));
  }
  bool number_float(double value, const std::string&) override { return add_number(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override {
    builder_.begin_object(progress_.line);
    return true;
  }
  bool start_array(std::size_t) override {
    builder_.begin_list(progress_.line);
    return true;
  }
  bool key(std::string& name) override {
    builder_.key(name, progress_.line);
    return true;
  }
  bool end_object() override {
    builder_.end();
    return true;
  }
  bool end_array() override {
    builder_.end();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    const Problem problem = problem_of(error.what(), progress_.line);
    throw FormatError(path_.string(), problem.where, "expected JSON: " + problem.what);
  }

  Value take() { return builder_.take(); }

 private:
  template <typename T>
  bool add(T value) {
    builder_.add({std::move(value), progress_.line});
    return true;
  }
  template <typename T>
  bool add_number(T value) {
    builder_.add({value, progress_.line_before});
    return true;
  }

  const std::filesystem::path& path_;
  DocumentBuilder builder_;
  const Progress& progress_;
};

}  // namespace

Value parse_json_document(std::string_view text, const std::filesystem::path& path,
                          const DocumentLimits& limits) {
  text = checked_text(text, path);
  Progress progress;
  JsonReader reader(path, limits, progress);
  const char* const begin =
      text.data();  // NOLINT(bugprone-suspicious-stringview-data-usage): the end follows
  Json::sax_parse(Reading(begin, &progress), Reading(begin + text.size(), &progress), &reader);
  return reader.take();
}

}  // namespace msprobe::io
