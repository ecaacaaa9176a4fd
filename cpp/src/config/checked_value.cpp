// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "config/checked_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

namespace msprobe::config {
namespace {

constexpr std::int64_t kLargestIndex = 1'000'000;

std::string joined_names(const std::vector<Word>& words) {
  std::string names;
  for (const Word& word : words) names += (names.empty() ? "" : ", ") + std::string(word.name);
  return names;
}

// The checks of one value.
class Check {
 public:
  Check(const Key& key, const Value& given, const Refuse& refuse)
      : key_(key), given_(given), refuse_(refuse) {}

  Value run() const {
    switch (key_.type) {
      case Type::kSwitch: return must_be<bool>("expected true or false");
      case Type::kInteger: return integer();
      case Type::kNumber: return number();
      case Type::kText: return must_be<std::string>("expected text");
      case Type::kPath: return path();
      case Type::kWord: return word();
      case Type::kWords: return words();
      case Type::kTexts: return texts();
      case Type::kNumbers: return numbers();
      case Type::kRanges: return ranges();
      case Type::kObject: return must_be<Value::Object>("expected an object");
      case Type::kObjects: return objects();
      case Type::kAnything: return given_;
    }
    return given_;
  }

 private:
  // `problem` is completed by what was found.
  [[noreturn]] void fail(const std::string& problem, const Value& value) const {
    refuse_(problem + ", found " + value.shown(), value);
    throw InternalError("a refusal returned");
  }
  [[noreturn]] void fail(const std::string& problem) const { fail(problem, given_); }
  std::string complaint(const std::string& otherwise) const {
    return key_.complaint.empty() ? otherwise : std::string(key_.complaint);
  }

  template <typename T>
  Value must_be(const std::string& expected) const {
    if (given_.as<T>() == nullptr) fail(complaint(expected));
    return given_;
  }
  template <typename T>
  const T& as(const std::string& expected) const {
    const T* const value = given_.as<T>();
    if (value == nullptr) fail(expected);
    return *value;
  }

  // `kind`: "an integer", "a number".
  std::string expected_within(const std::string& kind) const {
    constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
    if (key_.most != kNone) {
      return "expected " + kind + " from " + std::to_string(key_.least) + " to " + std::to_string(key_.most);
    }
    if (key_.least != std::numeric_limits<std::int64_t>::min()) {
      return "expected " + kind + " of " + std::to_string(key_.least) + " or more";
    }
    return "expected " + kind;
  }

  Value integer() const {
    const std::string expected = complaint(expected_within("an integer"));
    const std::int64_t number = as<std::int64_t>(expected);
    if (number < key_.least || number > key_.most) fail(expected);
    return given_;
  }

  static std::optional<double> number_of(const Value& value) {
    if (const auto* const whole = value.as<std::int64_t>()) return static_cast<double>(*whole);
    if (const auto* const real = value.as<double>(); real != nullptr && *real == *real) return *real;
    return std::nullopt;
  }

  Value number() const {
    const std::optional<double> number = number_of(given_);
    const bool is_within =
        number &&
        (key_.least == std::numeric_limits<std::int64_t>::min() ||
         *number >= static_cast<double>(key_.least)) &&
        (key_.most == std::numeric_limits<std::int64_t>::max() || *number <= static_cast<double>(key_.most));
    if (!is_within || !std::isfinite(*number)) fail(complaint(expected_within("a number")));
    return {*number, given_.line};
  }

  Value path() const {
    if (as<std::string>("expected a path").find('\0') != std::string::npos) fail("expected a path");
    return given_;
  }

  Value word() const {
    const std::vector<Word> allowed = words_of(key_);
    const auto* const text = given_.as<std::string>();
    const bool is_one = text != nullptr && std::any_of(allowed.begin(), allowed.end(),
                                                       [&](const Word& one) { return one.name == *text; });
    if (!is_one) fail(complaint("expected one of") + " " + joined_names(allowed));
    return given_;
  }

  Value words() const {
    const std::vector<Word> allowed = words_of(key_);
    const std::string expected = "expected a list out of " + joined_names(allowed) + R"(, or ["all"])";
    const Value::List& list = as<Value::List>(expected);
    for (const Value& one : list) {
      if (one.as<std::string>() == nullptr) fail(expected);
    }
    const auto holds = [&](std::string_view name) {
      return std::any_of(list.begin(), list.end(),
                         [&](const Value& one) { return *one.as<std::string>() == name; });
    };
    const bool is_all = list.size() == 1 && holds("all");
    if (!is_all && holds("all")) fail("expected \"all\" alone in the list");
    for (const Value& one : list) {
      const auto is_it = [&](const Word& word) { return word.name == *one.as<std::string>(); };
      if (!is_all && std::none_of(allowed.begin(), allowed.end(), is_it)) fail_inside(expected, one);
    }
    if (list.size() > allowed.size()) fail("expected at most " + std::to_string(allowed.size()) + " entries");
    Value::List result;
    for (const Word& word : allowed) {
      if (is_all || holds(word.name)) result.emplace_back(std::string(word.name), given_.line);
    }
    return {std::move(result), given_.line};
  }

  // What is wrong is one entry of the list.
  [[noreturn]] void fail_inside(const std::string& expected, const Value& entry) const {
    refuse_(expected + ", found " + entry.shown() + " in it", entry);
    throw InternalError("a refusal returned");
  }

  Value texts() const {
    for (const Value& one : as<Value::List>(complaint("expected a list of strings"))) {
      if (one.as<std::string>() == nullptr) fail_inside("expected a list of strings", one);
    }
    return given_;
  }

  // What the objects hold is checked by their own rows.
  Value objects() const {
    const std::vector<Word> allowed = words_of(key_);
    const auto is_word = [&](const Value& value) {
      const auto* const text = value.as<std::string>();
      return text != nullptr &&
             std::any_of(allowed.begin(), allowed.end(), [&](const Word& one) { return one.name == *text; });
    };
    if (is_word(given_)) return given_;
    const std::string words = allowed.empty() ? "" : ", or of " + joined_names(allowed);
    const std::string expected = complaint("expected a list of objects" + words);
    for (const Value& one : as<Value::List>(expected)) {
      if (one.as<Value::Object>() == nullptr && !is_word(one)) fail_inside(expected, one);
    }
    return given_;
  }

  Value numbers() const {
    const std::string name(key_.name);
    const Value* before = nullptr;
    double last = 0;  // the number of `before`
    for (const Value& one : as<Value::List>(name + " must be a list of ascending numbers")) {
      const bool is_number = one.as<std::int64_t>() != nullptr || one.as<double>() != nullptr;
      if (!is_number) fail(name + " element is not int or float", one);
      const std::optional<double> number = number_of(one);
      // A whole number that does not fit is a double at the end of the range or beyond.
      if (!number || (one.as<double>() != nullptr && std::abs(*number) >= 0x1p63)) {
        fail(name + " element is out of int64 range", one);
      }
      if (before != nullptr && !(last < *number)) {
        refuse_(name + " list is not ascending, found " + one.shown() + " after " + before->shown(), one);
      }
      before = &one;
      last = *number;
    }
    return given_;
  }

  Value ranges() const {
    const Value::List& list = as<Value::List>("expected a list of integers and ranges \"a-b\"");
    if (std::cmp_greater(list.size(), kLargestIndex)) {
      refuse_("expected a list of at most " + std::to_string(kLargestIndex) + " elements, found " +
                  std::to_string(list.size()),
              given_);
    }
    std::vector<bool> holds;
    for (const Value& one : list) {
      const auto [first, last] = range(one);
      if (first < 0 || last > kLargestIndex) {
        fail("expected numbers from 0 to " + std::to_string(kLargestIndex), one);
      }
      if (std::cmp_greater_equal(last, holds.size())) holds.resize(static_cast<std::size_t>(last) + 1);
      std::fill(holds.begin() + first, holds.begin() + last + 1, true);
    }
    Value::List result;
    for (std::size_t i = 0; i < holds.size(); ++i) {
      if (holds[i]) result.emplace_back(static_cast<std::int64_t>(i), given_.line);
    }
    return {std::move(result), given_.line};
  }

  std::pair<std::int64_t, std::int64_t> range(const Value& element) const {
    if (const auto* const number = element.as<std::int64_t>()) return {*number, *number};
    const auto* const text = element.as<std::string>();
    if (text == nullptr) fail("expected an integer or a range \"a-b\" in the list", element);
    const std::string_view words(*text);
    const std::size_t dash = words.find('-');
    const auto first = digits(words.substr(0, dash));  // "3" is "3-3"
    const auto last = first && dash != words.npos ? digits(words.substr(dash + 1)) : first;
    if (!last) fail("expected an integer or a range \"a-b\" in the list", element);
    if (*first > *last) fail("expected a range from the smaller to the larger number", element);
    return {*first, *last};
  }

  // A number with white space around it.
  static std::optional<std::int64_t> digits(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n\v\f";
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    text = text.substr(0, text.find_last_not_of(kSpace) + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = error == std::errc() && end == text.data() + text.size() && text[0] != '-';
    return is_number ? std::optional(number) : std::nullopt;
  }

  const Key& key_;
  const Value& given_;
  const Refuse& refuse_;
};

}  // namespace

Value checked_value(const Key& key, const Value& given, const Refuse& refuse) {
  return Check(key, given, refuse).run();
}

}  // namespace msprobe::config
