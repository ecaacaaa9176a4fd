// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// A finding in words that need no knowledge of records.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string>

#include "msprobe/engines.h"
#include "msprobe/record_name.h"
#include "verdict/names.h"
#include "verdict/reasons.h"

namespace msprobe::verdict {
namespace {

using compare::Finding;
using compare::FindingKind;

constexpr std::size_t kLongestValue = 60;

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

// Two numbers with as many digits as it takes to tell them apart; anything else as it is.
std::pair<std::string, std::string> told_apart(const std::string& a, const std::string& b) {
  double x = 0, y = 0;
  const auto is_number = [](const std::string& text, double& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (!is_number(a, x) || !is_number(b, y)) return {a, b};
  const auto shorter = [](const std::string& one, const std::string& other) {
    return one.size() <= other.size() ? one : other;
  };
  for (int digits = 3; digits < 17; ++digits) {
    char left[64], right[64];
    std::snprintf(left, sizeof left, "%.*g", digits, x);
    std::snprintf(right, sizeof right, "%.*g", digits, y);
    if (std::string_view(left) != right) return {shorter(left, a), shorter(right, b)};
  }
  return {a, b};
}

// "Functional.linear.5.forward.input.0" -> the record, "input.0".
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  for (std::size_t end = name.size(); end != name.npos; end = name.rfind('.', end - 1)) {
    const std::string_view record = name.substr(0, end);
    const trace::NameKind kind = trace::RecordName(record).kind();
    if (kind == trace::NameKind::kCall || kind == trace::NameKind::kModule) {
      return {record, end == name.size() ? std::string_view() : name.substr(end + 1)};
    }
    if (end == 0) break;
  }
  return {name, {}};
}

class Words {
 public:
  Words(const Finding& finding, std::string_view at, Language language)
      : finding_(finding), at_(at), is_chinese_(language == Language::kChinese), language_(language) {}

  std::string sentence() const {
    const std::string thing = this->thing();
    const std::string called =
        at_.empty() ? "" : in(joined({", called at ", at_}), joined({"(调用处 ", at_, ")"}));
    const std::string &ours = finding_.target_value, &theirs = finding_.reference_value;
    const bool has_values =
        (!ours.empty() || !theirs.empty()) && std::max(ours.size(), theirs.size()) <= kLongestValue;
    const FindingKind kind = finding_.kind;
    const bool is_missing = kind == FindingKind::kMissingCall, is_extra = kind == FindingKind::kExtraCall;
    if ((is_missing || is_extra) && !has_values) {
      const std::string where = at_.empty() ? "" : in(joined({" at ", at_}), joined({"(", at_, ")"}));
      const std::string again = number_of_call() == 0
                                    ? ""
                                    : in(joined({" a ", ordinal(number_of_call()), " time"}),
                                         joined({"第 ", std::to_string(number_of_call() + 1), " 次"}));
      return in(joined({"only the ", is_missing ? "reference" : "target", " calls ", thing, again, where}),
                joined({"只有", is_missing ? "标杆侧" : "调试侧", again, "调用了 ", thing, where}));
    }
    if (is_missing || is_extra || kind == FindingKind::kInPlace || kind == FindingKind::kClipping ||
        thing.empty()) {
      return said();
    }
    if (has_values) {
      const bool is_setting = kind == FindingKind::kModuleAttribute ||
                              kind == FindingKind::kOptimizerSetting || kind == FindingKind::kOptimizerState;
      const auto [a, b] = told_apart(ours.empty() ? "absent" : ours, theirs.empty() ? "absent" : theirs);
      const std::string name = is_setting ? finding_.name : thing, place = is_setting ? "" : called;
      return in(joined({name, " = ", a, " (reference: ", b, ")", place}),
                joined({name, " = ", a, "(标杆侧:", b, ")", place}));
    }
    if (kind == FindingKind::kOperator || kind == FindingKind::kReduction ||
        kind == FindingKind::kRandomness) {
      const bool is_exact =
          !finding_.because.empty() && finding_.because.front().reason == Reason::kResultOfEqual;
      return is_exact ? in(joined({thing, " gives another result for equal inputs", called}),
                           joined({thing, " 在输入相同时给出不同的结果", called}))
                      : in(joined({thing, " differs by more than its inputs explain", called}),
                           joined({thing, " 的偏差超出其输入所能解释的范围", called}));
    }
    if (kind == FindingKind::kArgument)
      return in(joined({thing, " has another value", called}), joined({thing, " 的值不同", called}));
    return said();
  }

 private:
  std::string in(std::string english, std::string chinese) const {
    return is_chinese_ ? std::move(chinese) : std::move(english);
  }

  std::string said() const {
    return finding_.because.empty() ? finding_.name : compare::text_of(finding_.because, language_);
  }

  std::string inside(const std::string& thing, std::string_view module) const {
    return module.empty() ? thing : in(joined({thing, " in ", module}), joined({module, " 中的 ", thing}));
  }

  // A module by its path, a function by its name and the module around it; else the name as it is.
  std::string thing() const {
    const auto [record, item] = split(finding_.name);
    const trace::RecordName name(record);
    std::string thing;
    if (name.kind() == trace::NameKind::kModule) {
      thing = name.path();
      if (joined({".", name.path()}).ends_with(joined({".", engines::kCompiled})))
        thing = in(joined({"the compiled model (", name.type(), "), of which no call inside is recorded,"}),
                   joined({"编译后的模型(", name.type(), ",其内部的调用未被记录)"}));
      const bool is_inside = joined({thing, "."}).starts_with(joined({finding_.module, "."}));
      const bool is_lone =
          finding_.kind == FindingKind::kMissingCall || finding_.kind == FindingKind::kExtraCall;
      const int number = number_of_call();
      if (number > 0 && !is_lone)
        thing = in(joined({"the ", ordinal(number), " call of ", thing}),
                   joined({thing, " 的第 ", std::to_string(number + 1), " 次调用"}));
      if (is_lone && !is_inside)
        thing = inside(thing, finding_.module);  // one module may stand at several places
    } else if (name.kind() == trace::NameKind::kCall) {
      std::string_view function = name.callee();
      function.remove_prefix(function.find('.') + 1);
      while (function.starts_with('_')) function.remove_prefix(1);
      while (function.ends_with('_')) function.remove_suffix(1);
      thing = inside(std::string(function), finding_.module);
    } else {
      return finding_.name;
    }
    if (name.is_backward()) thing = in(joined({"the backward of ", thing}), joined({thing, " 的反向"}));
    if (item.empty()) return thing;
    std::string part(item);
    if (const std::size_t dot = part.find('.'); dot != part.npos) part[dot] = ' ';
    return in(joined({part, " of ", thing}), joined({thing, " 的 ", part}));
  }

  // Of a module, in its step, from 0.
  int number_of_call() const {
    const trace::RecordName name(split(finding_.name).first);
    int number = 0;
    if (name.kind() == trace::NameKind::kModule)
      std::from_chars(name.count().data(), name.count().data() + name.count().size(), number);
    return number;
  }

  static std::string ordinal(int number) {
    constexpr std::array<std::string_view, 9> kWords = {"first", "second",  "third",  "fourth", "fifth",
                                                        "sixth", "seventh", "eighth", "ninth"};
    const auto index = static_cast<std::size_t>(number);
    return index < kWords.size() ? std::string(kWords[index]) : std::to_string(number + 1) + "th";
  }

  const Finding& finding_;
  std::string_view at_;
  bool is_chinese_;
  Language language_;
};

}  // namespace
}  // namespace msprobe::verdict

namespace msprobe::compare {

std::string plain_text(const Finding& finding, std::string_view at, Language language) {
  return verdict::Words(finding, at, language).sentence();
}

}  // namespace msprobe::compare
