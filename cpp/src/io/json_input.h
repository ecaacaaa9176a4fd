// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// JSON from files, as events. The one place that knows the library that parses.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#ifdef __SSE2__
#define RAPIDJSON_SSE2
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "io/in_quotes.h"
#include "io/utf8.h"
#include "msprobe/error.h"

namespace msprobe::io {

/// The deepest nesting that is read: a dump has at most 50 levels below a record.
inline constexpr int kJsonDepth = 64;

/// Reads all of `path`. Throws IoError, and UnsupportedError above 4 GiB.
std::string read_json_file(const std::filesystem::path& path);

/// Receives the events of a document and knows how deep it is. A subclass hides what it wants to see: null(),
/// boolean(bool), number(text), text(text), key(text), begin(is_object), end(is_object). Texts stay where
/// they are: in the string that is parsed, decoded in place. Any of them may call fail().
template <typename Derived>
class JsonHandler {
 public:
  using Ch = char;

  // The interface of the library.
  bool Null() {
    return go([this] { self().null(); });
  }
  bool Bool(bool value) {
    return go([this, value] { self().boolean(value); });
  }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    return go([=, this] { self().number({text, length}); });
  }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    return go([=, this] { self().text({text, length}); });
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    return go([=, this] { self().key({text, length}); });
  }
  bool StartObject() { return begin_any(true); }
  bool StartArray() { return begin_any(false); }
  bool EndObject(rapidjson::SizeType) { return end_any(true); }
  bool EndArray(rapidjson::SizeType) { return end_any(false); }
  // Never called: numbers come as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

  const std::string& problem() const noexcept { return problem_; }
  void attach(rapidjson::InsituStringStream& stream) noexcept { stream_ = &stream; }

 protected:
  /// Ends the parsing; the first problem is kept.
  void fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  /// Bytes read so far: just behind the text of the present event.
  std::size_t position() noexcept { return stream_->Tell(); }
  /// Open brackets, that of the present begin() included.
  int depth() const noexcept { return depth_; }

 private:
  friend Derived;  // and no other class can take its place as Derived
  JsonHandler() = default;

  Derived& self() noexcept { return static_cast<Derived&>(*this); }
  template <typename Event>
  bool go(const Event& event) {
    event();
    return problem_.empty();
  }
  bool begin_any(bool is_object) {
    if (++depth_ > kJsonDepth) fail("found nesting deeper than " + std::to_string(kJsonDepth) + " levels");
    return go([=, this] { self().begin(is_object); });
  }
  bool end_any(bool is_object) {
    return go([=, this] {
      self().end(is_object);
      --depth_;
    });
  }

  rapidjson::InsituStringStream* stream_ = nullptr;
  std::string problem_;
  int depth_ = 0;
};

/// UTF-8, but a second half of a surrogate pair without the first becomes U+FFFD: that is how Python writes a
/// byte of a file name that is not UTF-8. (A first half without the second is an error of the parser.)
struct Utf8WithoutSurrogates : rapidjson::UTF8<> {
  template <typename Stream>
  static void Encode(Stream& out, unsigned character) {
    rapidjson::UTF8<>::Encode(out, character >= 0xD800 && character <= 0xDFFF ? 0xFFFD : character);
  }
};

/// Parses `content`, which is changed: texts are decoded in place. Numbers and the words NaN, Infinity,
/// -Infinity come as text. A byte order mark at the start is skipped. Throws FormatError with `path` and the
/// place.
template <typename Derived>
void parse_json(std::string& content, const std::filesystem::path& path, JsonHandler<Derived>& handler) {
  const auto refuse = [&path](std::size_t where, const std::string& problem) {
    throw FormatError(path.string(), "byte " + std::to_string(where), problem);
  };
  if (const std::size_t at = find_invalid_utf8(content); at != std::string::npos) {
    refuse(at, "found bytes that are not UTF-8");
  }
  const std::size_t size = content.size();
  if (content.starts_with("\xEF\xBB\xBF")) content.replace(0, 3, "   ");  // editors leave that mark
  content.append(16, '\0');                                               // the parser reads whole vectors
  rapidjson::InsituStringStream stream(content.data());
  handler.attach(stream);
  rapidjson::GenericReader<Utf8WithoutSurrogates, Utf8WithoutSurrogates> reader;
  constexpr unsigned kFlags =
      rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseNanAndInfFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, static_cast<Derived&>(handler));
  if (result.IsError()) {
    const std::string& problem = handler.problem();
    const bool cut = result.Offset() >= size;
    refuse(std::min(result.Offset(), size),
           !problem.empty() ? problem
           : size == 0      ? "the file is empty, expected JSON"
           : cut            ? "the file ends within a value: it is cut short"
                            : std::string("found no JSON: ") + rapidjson::GetParseError_En(result.Code()));
  }
  if (stream.Tell() != size) refuse(stream.Tell(), "found a NUL byte, expected text");
}

}  // namespace msprobe::io
