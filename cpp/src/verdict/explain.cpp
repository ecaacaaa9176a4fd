// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/explain.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace msprobe::verdict {
namespace {

struct RuleText {
  Rule rule;
  std::string_view name, english, chinese;
};
constexpr std::array kRuleTexts{
    RuleText{Rule::kSameValue, "same_value",
             "It is the value of another place: as far off as that, and no farther.",
             "它就是另一处的值:偏差不应超过那一处。"},
    RuleText{Rule::kOperator, "operator",
             "One call made it: each source counts with the gain of the operator.",
             "由一次调用得出:每个来源按该算子的增益计入。"},
    RuleText{Rule::kChain, "chain",
             "Calls of one run made it: off by what the catalogue expects of them, one after another.",
             "由仅一次运行中的调用得出:逐个调用按算子目录推算偏差。"},
    RuleText{Rule::kOpaque, "opaque", "Several calls made it, of which only the ends are seen.",
             "由多次调用得出,只看得到两端。"},
    RuleText{Rule::kOrigin, "origin", "Nothing computed it: it is read, and rounded once.",
             "并非计算得出:读入并舍入一次。"},
    RuleText{Rule::kUpdate, "update", "An optimizer moved it by a step.", "优化器更新了它。"},
    RuleText{Rule::kUnknown, "unknown", "What it is made of cannot be compared.", "其来源无法比较。"}};

/// A rule, as people read of it.
struct RuleRow {
  std::string_view id;
  std::string_view place;      // what it is for
  std::string_view tolerance;  // what such a place may be off by
};

constexpr std::array kRuleRows{
    RuleRow{"R1 same value",
            "a tensor that is another place, by its value: an argument that an earlier call returned, a "
            "gradient as the backward pass left it, a parameter as the optimizer left it",
            "as much as that place; one rounding more where it was scaled or cast on the way"},
    RuleRow{
        "R2 operator", "a result of one call of the catalogue of operators",
        "sum over sources of gain x distance, and (`own` + `sum` x sqrt(terms)) x u x cancellation. "
        "What goes into a normalisation y(x) is "
        "off by a part of all of x, and its gradient is divided by the size of each channel: where small "
        "ones have most of it, it is off by (dx / dy) (x / y) times more, in norms. So with a quotient n / d "
        "whose small divisors have most of it, or its largest element: (n / d) d / n, in norms or in "
        "largest elements; with 1 / x: x over its least element; and with a product a b: the typical size of "
        "a times that of b over that of the product"},
    RuleRow{"R2 chain", "what calls of one run made: nothing can be measured between them",
            "two times what R2 expects, call by call, from the last places that both runs have: half of "
            "what it allows each of them"},
    RuleRow{
        "R3 opaque",
        "what several calls made of which only the ends are seen: a module whose inside is not "
        "recorded, a whole backward pass (twice), the gradients of a call that an earlier pass was computed "
        "with",
        "`opaque` x (the largest distance of what goes in + `own` x u); of a sum, as a bias gets it, so many "
        "times more as it is smaller than its terms"},
    RuleRow{
        "R4 origin", "data, and weights before the first step",
        "`own` x u: they are read, and rounded once. Data of 32 bits, which are normalised and augmented, by "
        "R3; of later steps, which may be made with the model, of its weights by R3"},
    RuleRow{"R5 discrete", "integers, flags, and elements beyond a jump of a derivative",
            "sqrt(e): an error e takes a share e of the elements to the other side, and a whole one where "
            "any is expected to go (`few_moves`)"},
    RuleRow{"R6 update", "what an optimizer moved, and its states that hold steps and no gradients",
            "two steps of each element at most: elements whose gradient is 0 but "
            "for rounding move in any direction. How long a step is, is known from the reference; of equal "
            "weights, gradients, states and settings it is the same"},
    RuleRow{"R7 negligible", "gradients, states and buffers",
            "measured against `negligible` of the typical one of all parameters at least"},
    RuleRow{
        "R8 no distance", "a setting, an argument, a call of one run, another shape",
        "suspect when the first place behind it that has a distance is. Of another number, word or flag that "
        "goes in with tensors that are equal to the bit, every difference is its own, and it is a cause "
        "where no other call makes another result of equal tensors. What calls of one run make of a value "
        "that the other run hands on as it is, is measured in that run"}};

std::string_view name_of_rule(Rule rule) {
  for (const RuleText& one : kRuleTexts) {
    if (one.rule == rule) return one.name;
  }
  return {};
}

}  // namespace

compare::Explanation explanation(const Model& model, const Place& place, const Tolerance& allowed,
                                 const std::function<std::string(std::uint32_t)>& name_of) {
  compare::Explanation sum;
  sum.rule = name_of_rule(place.rule);
  sum.operator_name = place.by.name;
  for (std::size_t i = 0; i < allowed.of_sources.size() && i < place.sources.size(); ++i) {
    const Source& source = place.sources[i];
    sum.sources.push_back({source.row == kNoPlace ? std::string() : name_of(source.row),
                           allowed.of_sources[i].error, allowed.of_sources[i].gain});
  }
  if (place.inside) sum.sources.push_back({"(inside)", place.inside->error(), model.opaque});
  sum.own = allowed.own;
  sum.tolerance = allowed.magnitude;
  sum.tolerance_of_bias = allowed.bias;
  sum.tolerance_of_element = allowed.element;
  sum.limit = model.suspect * allowed.magnitude;
  return sum;
}

}  // namespace msprobe::verdict

namespace msprobe::compare {
namespace {

std::string number(double value) {
  if (std::isinf(value)) return "?";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2g", value);
  return text.data();
}

}  // namespace

std::vector<std::array<std::string_view, 3>> verdict_rules() {
  std::vector<std::array<std::string_view, 3>> result;
  result.reserve(std::size(verdict::kRuleRows));
  for (const verdict::RuleRow& one : verdict::kRuleRows) result.push_back({one.id, one.place, one.tolerance});
  return result;
}

std::string sum_text(const Explanation& sum, const Distance& found, Language language) {
  if (sum.rule.empty()) return {};
  const bool english = language == Language::kEnglish;
  std::string text;
  for (const verdict::RuleText& one : verdict::kRuleTexts) {
    if (one.name == sum.rule) text += english ? one.english : one.chinese;
  }
  const auto line = [&](std::string_view in_english, std::string_view in_chinese, const std::string& rest) {
    text += '\n';
    text += english ? in_english : in_chinese;
    text += rest;
  };
  for (const Explanation::Share& one : sum.sources) {
    if (one.error == 0) continue;
    const std::string name = one.name == "(inside)"
                                 ? (english ? "or what is computed inside" : "或其内部的计算")
                             : !one.name.empty() ? one.name
                             : english           ? "everything before"
                                                 : "之前的全部";
    line("  ", "  ",
         name + (english ? ": off by " : ":偏差 ") + number(one.error) + " x " + number(one.gain) + " = " +
             number(one.error * one.gain));
  }
  if (sum.own > 0) line("  rounding of its own: ", "  自身的舍入:", number(sum.own));
  line("allowed: ", "允许:",
       number(sum.tolerance) + (english ? "; suspect beyond " : ";超过即可疑:") + number(sum.limit));
  line("found: ", "实际:", number(found.value) + (english ? ", at least " : ",至少 ") + number(found.low));
  if (found.bias > 0) {
    line("norm and mean: ", "范数与均值:",
         number(found.bias) + (english ? ", allowed " : ",允许 ") + number(sum.tolerance_of_bias));
  }
  if (sum.tolerance_of_element > 0 && found.peak > 0) {
    line("one element: allowed ", "单个元素:允许 ", number(sum.tolerance_of_element));
  }
  return text;
}

}  // namespace msprobe::compare
