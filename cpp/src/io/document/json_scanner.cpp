// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/document/json_scanner.h"

#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>

#include "io/document/json_bytes.h"
#include "io/utf8.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

// Small enough for the cache of a core.
constexpr std::size_t kWindow = std::size_t{256} << 10;

constexpr std::size_t kLongestPlainNumber = 300;  // digits: below the largest double

// The longer one before the one it begins with.
constexpr std::array<std::string_view, 3> kNumberWords = {"NaN", "Infinity", "Inf"};

bool is_number_word(std::string_view text) {
  return std::find(kNumberWords.begin(), kNumberWords.end(), text) != kNumberWords.end();
}

// Where the first digit of a number stands that is not 0, as a power of ten; that of 0 is the least there is.
std::int64_t leading_digit(std::string_view number) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // of an exponent
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.find_first_of("123456789");
  if (first == std::string_view::npos) return std::numeric_limits<std::int64_t>::min();
  std::int64_t exponent = 0;
  bool is_negative = false;
  for (const char c : number.substr(e)) {
    is_negative |= c == '-';
    if (is_digit(c)) exponent = std::min(exponent * 10 + (c - '0'), kMost);
  }
  const auto place = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  return (place > 0 ? place - 1 : place) + (is_negative ? -exponent : exponent);
}

// What the sequence of a backslash and `c` stands for; 0: nothing that is one character.
char escaped(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/': return c;
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return 0;
  }
}

// The four hexadecimal digits at `text`; above 0xffff: there are none.
std::uint32_t four_digits(const char* text, const char* end) {
  std::uint32_t value = 0;
  if (end - text < 4) return 0x10000;
  const auto [after, problem] = std::from_chars(text, text + 4, value, 16);
  return problem == std::errc() && after == text + 4 ? value : 0x10000;
}

char* append_utf8(char* out, std::uint32_t c) {
  const auto put = [&out](std::uint32_t byte) { *out++ = static_cast<char>(byte); };
  const auto put_rest = [&](unsigned shift) { put(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put_rest(0);
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put_rest(6);
    put_rest(0);
  } else {
    put(0xf0 | (c >> 18));
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
  return out;
}

bool is_first_half(std::uint32_t c) { return c >= 0xd800 && c <= 0xdbff; }
bool is_second_half(std::uint32_t c) { return c >= 0xdc00 && c <= 0xdfff; }

}  // namespace

// ---- Where the bytes come from

JsonScanner::JsonScanner(std::string& content, std::filesystem::path path)
    : path_(std::move(path)), size_(content.size()) {
  content.append(kJsonZeros, '\0');
  begin_ = at_ = token_ = content.data();
  end_ = begin_ + size_;
  skip_mark();
}

JsonScanner::JsonScanner(const std::filesystem::path& path)
    : path_(path), file_(std::make_unique<InputFile>(path)) {
  if (file_->size() > std::numeric_limits<std::uint32_t>::max() - 64) {
    throw UnsupportedError(path.string() + ": has " + std::to_string(file_->size()) +
                           " bytes; JSON files are read up to 4 GiB");
  }
  file_->advise_sequential();
  size_ = static_cast<std::size_t>(file_->size());
  window_.resize(std::min(size_, kWindow) + kJsonZeros);
  begin_ = end_ = at_ = token_ = window_.data();
  more();
  skip_mark();
}

bool JsonScanner::more() {
  const auto kept = static_cast<std::size_t>(end_ - token_);
  const std::size_t next = position_of(end_);
  if (next == size_) return false;
  const auto taken = at_ - token_;
  passed_ = position_of(token_);
  std::memmove(window_.data(), token_, kept);
  if (kept + kJsonZeros >= window_.size() / 2) window_.resize(2 * window_.size());  // a long text
  const std::size_t count = std::min(size_ - next, window_.size() - kJsonZeros - kept);
  file_->read(next, {reinterpret_cast<std::uint8_t*>(window_.data()) + kept, count});
  begin_ = token_ = window_.data();
  at_ = begin_ + taken;
  end_ = begin_ + kept + count;
  std::memset(end_, 0, kJsonZeros);
  return true;
}

// Editors leave that mark.
void JsonScanner::skip_mark() {
  if (std::string_view(begin_, end_).starts_with("\xEF\xBB\xBF")) at_ += 3;
}

template <typename Scan>
char* JsonScanner::end_of_token(const Scan& scan) {
  for (;;) {
    char* const end = scan(token_);
    if (end < end_ || !more()) return end;
  }
}

// ---- What stands there

char JsonScanner::skip_space() {
  // Mostly a line break and an indentation. The zeros behind the end are no character to go on with.
  if (*at_ == '\n') {
    char* const next = after_blanks(at_ + 1);
    if (static_cast<unsigned char>(*next) > ' ') {
      at_ = next;
      return *next;
    }
  }
  return skip_any_space();
}

char JsonScanner::skip_any_space() {
  for (;;) {
    at_ = after_space(at_);
    token_ = at_;
    if (at_ < end_ || !more()) break;
  }
  if (*at_ == '\0' && at_ < end_) refuse(position(), "found a NUL byte, expected text");
  return *at_;
}

std::string_view JsonScanner::text() {
  token_ = at_;
  bool high = false;
  if (char* const quote = end_of_plain_text(at_ + 1, high); *quote == '"' && !high) {  // most texts
    at_ = quote + 1;
    return {token_ + 1, quote};
  }
  return any_text();
}

std::string_view JsonScanner::any_text() {
  bool high = false;
  bool has_escapes = false;
  char* const end = end_of_token([&](char* p) {
    high = has_escapes = false;
    for (++p;; ++p) {
      p = end_of_plain_text(p, high);
      if (*p != '\\') return p;
      has_escapes = true;
      if (++p >= end_) return p;
      high |= static_cast<unsigned char>(*p) >= 0x80;
    }
  });
  char* const begin = token_ + 1;
  const std::string_view raw(begin, std::min(end, end_));
  if (high) {
    const std::size_t at = find_invalid_utf8(raw);
    // A file that is cut may end within a character.
    const bool is_cut = end >= end_ && at != raw.npos && raw.size() - at < 4;
    if (at != raw.npos && !is_cut) refuse(position_of(begin + at), "found bytes that are not UTF-8");
  }
  if (end >= end_) refuse(size_, "the file ends within a value: it is cut short");
  if (*end == '\0') refuse(position_of(end), "found a NUL byte, expected text");
  if (*end != '"') refuse_at(end, "a control character in a text is written as \\u00XX");
  at_ = end + 1;
  if (!has_escapes) return raw;
  return decode(begin, end);
}

std::string_view JsonScanner::decode(char* begin, char* end) {
  char* out = begin;
  for (char* p = begin; p < end;) {
    if (*p != '\\') {
      *out++ = *p++;
      continue;
    }
    const char one = escaped(p[1]);
    if (one != 0) {
      *out++ = one;
      p += 2;
      continue;
    }
    if (p[1] != 'u') refuse_at(p, "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u behind a backslash");
    std::uint32_t c = four_digits(p + 2, end);
    if (c > 0xffff) refuse_at(p, "four hexadecimal digits behind \\u");
    char* next = p + 6;
    if (is_first_half(c)) {
      const bool follows = end - next >= 2 && next[0] == '\\' && next[1] == 'u';
      const std::uint32_t second = follows ? four_digits(next + 2, end) : 0;
      if (!is_second_half(second)) refuse_at(p, "the other half of a surrogate pair");
      c = 0x10000 + ((c - 0xd800) << 10) + (second - 0xdc00);
      next += 6;
    } else if (is_second_half(c)) {
      c = 0xfffd;  // how Python writes a byte of a file name that is not UTF-8
    }
    out = append_utf8(out, c);  // never longer than what it stands for
    p = next;
  }
  return {begin, out};
}

std::string_view JsonScanner::number() {
  token_ = at_;
  char* const end = end_of_mantissa(at_);
  const bool is_all = end != nullptr && *end != 'e' && *end != 'E' && *end != '\0';
  if (!is_all || end > at_ + kLongestPlainNumber) return any_number();
  at_ = end;
  return {token_, end};
}

std::string_view JsonScanner::any_number() {
  const char* problem = nullptr;
  bool is_word = false;
  bool has_exponent = false;
  char* const end = end_of_token([&](char* p) {
    problem = nullptr;
    has_exponent = false;
    if (*p == '-') ++p;
    is_word = *p == 'N' || *p == 'I';
    if (is_word) {
      std::size_t longest = 0;
      for (const std::string_view word : kNumberWords) {
        const std::string_view rest(p, end_);
        const auto [unlike, end_of_word] = std::mismatch(rest.begin(), rest.end(), word.begin(), word.end());
        const auto alike = static_cast<std::size_t>(end_of_word - word.begin());
        if (alike == word.size()) return p + alike;
        if (alike == rest.size()) return end_;
        longest = std::max(longest, alike);
      }
      p += longest;
      problem = "NaN, Inf or Infinity";
      return p;
    }
    if (!is_digit(*p)) {
      problem = "a value";
      return p;
    }
    p = *p == '0' ? p + 1 : after_digits(p);
    if (*p == '.') {
      if (!is_digit(*++p)) problem = "a digit behind the point";
      p = after_digits(p);
    }
    if (problem == nullptr && (*p == 'e' || *p == 'E')) {
      has_exponent = true;
      ++p;
      if (*p == '+' || *p == '-') ++p;
      if (!is_digit(*p)) problem = "a digit in the exponent";
      p = after_digits(p);
    }
    return p;
  });
  if (problem != nullptr) refuse_at(end, problem);
  const std::string_view digits(token_, end);
  if (is_word && !is_number_word(digits.substr(*token_ == '-' ? 1 : 0))) refuse_at(end, "a value");
  at_ = end;
  if (!is_word && (has_exponent || digits.size() > kLongestPlainNumber)) check_number(digits);
  return digits;
}

void JsonScanner::check_number(std::string_view digits) const {
  if (leading_digit(digits) > std::numeric_limits<double>::max_exponent10) {
    refuse(position_of(token_), "found no JSON: Number too big to be stored in double.");
  }
}

void JsonScanner::word(std::string_view word) {
  token_ = at_;
  char* const end = end_of_token([&](char* p) {
    for (const char c : word) {
      if (*p != c) return p;
      ++p;
    }
    return p;
  });
  if (std::string_view(token_, end) != word) refuse_at(end, "null, true or false");
  at_ = end;
}

void JsonScanner::expect_end() {
  if (peek() != '\0') refuse_next("the end of the document");
}

// ---- What cannot stand there

void JsonScanner::refuse_next(std::string_view expected) { refuse_at(at_, expected); }

void JsonScanner::refuse_at(const char* place, std::string_view expected) {
  const std::size_t position = position_of(place);
  if (size_ == 0) refuse(0, "the file is empty, expected JSON");
  if (place >= end_) refuse(size_, "the file ends within a value: it is cut short");
  if (*place == '\0') refuse(position, "found a NUL byte, expected text");
  if (utf8_sequence({place, end_}) == 0) refuse(position, "found bytes that are not UTF-8");
  refuse(position, "found no JSON: expected " + std::string(expected));
}

void JsonScanner::refuse(std::size_t position, const std::string& problem) const {
  throw FormatError(path_.string(), "byte " + std::to_string(position), problem);
}

// ---- Numbers

namespace {

// 0 or an infinity. from_chars() does not tell which; a locale of the process must not matter.
double beyond_double(const std::string& digits) {
  static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return ::strtod_l(digits.c_str(), nullptr, c_locale);
}

}  // namespace

double number_value(std::string_view number) noexcept {
  double value = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (problem == std::errc() && end == number.data() + number.size()) return value;
  if (number.ends_with("NaN")) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (number.ends_with("Infinity") || number.ends_with("Inf")) {
    return number.starts_with('-') ? -kInfinity : kInfinity;
  }
  return beyond_double(std::string(number));
}

}  // namespace msprobe::io
