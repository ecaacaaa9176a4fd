// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "io/document/document_builder.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                   "YES",  "on",   "On",   "ON"};
constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No",
                                                    "NO",    "off",   "Off",   "OFF"};
constexpr std::array<std::string_view, 6> kInfinity = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"};
constexpr std::array<std::string_view, 3> kMinusInfinity = {"-.inf", "-.Inf", "-.INF"};
constexpr std::array<std::string_view, 3> kNan = {".nan", ".NaN", ".NAN"};

template <typename Number, typename... Base>
std::optional<Number> whole_text_as(std::string_view text, Base... base) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// 12, 0x1f, 0o17, 1.5, 1e-3, .5
std::optional<Value::Variant> number_of(std::string_view text) {
  const auto base = [&](std::string_view prefix, int of) -> std::optional<Value::Variant> {
    const auto number = whole_text_as<std::int64_t>(text.substr(prefix.size()), of);
    return number && *number >= 0 ? std::optional<Value::Variant>(*number) : std::nullopt;
  };
  if (text.starts_with("0x")) return base("0x", 16);
  if (text.starts_with("0o")) return base("0o", 8);
  std::string_view digits = text;
  if (digits.starts_with('+') || digits.starts_with('-')) digits.remove_prefix(1);
  const bool begins_well =
      !digits.empty() && (is_digit(digits[0]) || (digits[0] == '.' && digits.size() > 1));
  if (!begins_well || digits.find_first_not_of("0123456789.eE+-") != digits.npos) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  if (const auto number = whole_text_as<std::int64_t>(text)) return *number;
  if (const auto number = whole_text_as<double>(text)) return *number;
  return std::nullopt;
}

Value::Variant plain_value(const std::string& text) {
  if (is_one_of(text, kNull)) return nullptr;
  if (is_one_of(text, kTrue)) return true;
  if (is_one_of(text, kFalse)) return false;
  if (is_one_of(text, kInfinity)) return std::numeric_limits<double>::infinity();
  if (is_one_of(text, kMinusInfinity)) return -std::numeric_limits<double>::infinity();
  if (is_one_of(text, kNan)) return std::numeric_limits<double>::quiet_NaN();
  if (auto number = number_of(text)) return std::move(*number);
  return text;
}

// Makes a tree of what yaml-cpp meets.
class YamlReader : public YAML::EventHandler {
 public:
  YamlReader(const std::filesystem::path& path, const DocumentLimits& limits) : builder_(path, limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "expected one document, found another");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    scalar(mark, {nullptr, line_of(mark)}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool is_text = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!is_text && tag != "?" && !tag.empty()) refuse_tag(mark, tag);
    if (wants_key()) {
      if (!is_text && is_one_of(text, kNull)) refuse(mark, "expected a key that is text, found nothing");
      take_key(mark, text);
      if (anchor != 0) anchors_[anchor] = {text, line_of(mark)};
      return;
    }
    scalar(mark, {is_text ? Value::Variant(text) : plain_value(text), line_of(mark)}, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "an alias of what it is a part of");
    if (wants_key()) {
      const auto* const text = found->second.as<std::string>();
      if (text == nullptr) refuse(mark, "expected a key that is text, found " + found->second.kind());
      return take_key(mark, *text);
    }
    builder_.count_all(found->second);
    value_follows();
    Value copy = found->second;
    copy.line = line_of(mark);
    builder_.add(std::move(copy));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, "tag:yaml.org,2002:seq");
    builder_.begin_list(line_of(mark));
    open_.push_back({false, false, anchor});
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, "tag:yaml.org,2002:map");
    builder_.begin_object(line_of(mark));
    open_.push_back({true, true, anchor});
  }

  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

  Value take() { return builder_.take(); }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& problem) const {
    builder_.refuse(line_of(mark), problem);
  }

 private:
  struct Open {
    bool is_object;
    bool key_follows;
    YAML::anchor_t anchor;
  };

  static int line_of(const YAML::Mark& mark) { return mark.line + 1; }
  bool wants_key() const { return !open_.empty() && open_.back().key_follows; }

  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    refuse(mark, "the tag " + in_quotes(tag) + " is not read, expected a plain value");
  }

  void take_key(const YAML::Mark& mark, const std::string& text) {
    if (text == "<<")
      refuse(mark, "merge keys are not read: write the keys out, or use an alias for all of them");
    builder_.key(text, line_of(mark));
    open_.back().key_follows = false;
  }

  // A value is there: of an object the next key is.
  void value_follows() {
    if (!open_.empty()) open_.back().key_follows = open_.back().is_object;
  }

  void scalar(const YAML::Mark& mark, Value value, YAML::anchor_t anchor) {
    if (wants_key()) refuse(mark, "expected a key that is text, found " + value.kind());
    if (anchor != 0) anchors_[anchor] = value;
    value_follows();
    builder_.add(std::move(value));
  }

  void begin(const YAML::Mark& mark, const std::string& tag, std::string_view plain) {
    if (wants_key()) refuse(mark, "expected a key that is text, found brackets, or some that are not closed");
    if (!tag.empty() && tag != "?" && tag != "!" && tag != plain) refuse_tag(mark, tag);
    value_follows();
  }

  void end() {
    const YAML::anchor_t anchor = open_.back().anchor;
    open_.pop_back();
    const Value& closed = builder_.end();
    if (anchor == 0) return;
    builder_.count_all(closed);
    anchors_[anchor] = closed;
  }

  DocumentBuilder builder_;
  int documents_ = 0;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Value> anchors_;
};

}  // namespace

Value parse_yaml_document(std::string_view text, const std::filesystem::path& path,
                          const DocumentLimits& limits) {
  std::istringstream stream{std::string(checked_text(text, path))};
  YamlReader reader(path, limits);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(reader);
    parser.HandleNextDocument(reader);  // of a second document, which is refused
  } catch (const YAML::Exception& error) {
    throw FormatError(
        path.string(),
        "line " + std::to_string(error.mark.line + 1) + ", column " + std::to_string(error.mark.column + 1),
        "expected YAML: " + error.msg);
  }
  return reader.take();
}

}  // namespace msprobe::io
