// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/reasons.h"

#include <array>
#include <charconv>
#include <cstddef>

namespace msprobe::verdict {
namespace {

constexpr std::array kReasons{
    ReasonRow{Reason::kInputDiffers, "input_differs", "input {0} differs before anything was computed",
              "输入 {0} 在开始计算之前就有差异"},
    ReasonRow{Reason::kParameterDiffers, "parameter_differs",
              "parameter {0} differs before anything was computed", "参数 {0} 在开始计算之前就有差异"},
    ReasonRow{Reason::kBufferDiffers, "buffer_differs", "buffer {0} differs before anything was computed",
              "缓冲区 {0} 在开始计算之前就有差异"},
    ReasonRow{Reason::kParameterMoved, "parameter_moved",
              "parameter {0} differs by more than the last step of the optimizer left",
              "参数 {0} 的差异大于优化器上一次更新后的差异"},
    ReasonRow{Reason::kBufferMoved, "buffer_moved", "buffer {0} differs by more than the last step left",
              "缓冲区 {0} 的差异大于上一步结束时的差异"},
    ReasonRow{Reason::kParameterOf, "parameter_of", "parameter {0} of {1} differs",
              "参数 {0}(属于 {1})有差异"},
    ReasonRow{Reason::kOnlyTargetHas, "only_target_has", "only the target has the {0} {1}",
              "只有调试侧有{0} {1}"},
    ReasonRow{Reason::kOnlyReferenceHas, "only_reference_has", "only the reference has the {0} {1}",
              "只有标杆侧有{0} {1}"},
    ReasonRow{Reason::kFirstInput, "first_input", "{0}, the first input of the model, differs",
              "进入模型的第一个输入 {0} 有差异"},
    ReasonRow{Reason::kNoCallMadeIt, "no_call_made_it",
              "{0} differs, and no recorded call produced the difference",
              "{0} 有差异,没有记录到产生该差异的调用"},
    ReasonRow{Reason::kWritten, "written",
              "in the reference {0} is still {1}; in the target {2} changed it in between",
              "标杆侧的 {0} 仍是 {1};调试侧在两者之间被 {2} 修改"},
    ReasonRow{Reason::kNotTheSame, "not_the_same",
              "in the reference {0} is still {1}; in the target its values changed, and no recorded call "
              "wrote to it",
              "标杆侧的 {0} 仍是 {1};调试侧的值已改变,且没有记录到写入它的调用"},
    ReasonRow{Reason::kAnotherTensor, "another_tensor", "{0} is {2} (reference: {1})",
              "{0} 为 {2}(标杆侧:{1})"},
    ReasonRow{Reason::kResultOfEqual, "result_of_equal_inputs", "the inputs of {0} agree, {1} does not",
              "{0} 的输入一致,而 {1} 不一致"},
    ReasonRow{Reason::kResult, "result", "{0} differs by more than its inputs explain",
              "{0} 的差异超出其输入所能解释的范围"},
    ReasonRow{Reason::kDtypes, "dtypes", ": dtype {0} (reference: {1})", ":数据类型为 {0}(标杆侧:{1})"},
    ReasonRow{Reason::kRandom, "random", " (a random operator)", "(随机算子)"},
    ReasonRow{Reason::kValues, "values", "{0} = {1} (reference: {2})", "{0} = {1}(标杆侧:{2})"},
    ReasonRow{Reason::kMissingCall, "missing_call", "only the reference calls {0}", "只有标杆侧调用了 {0}"},
    ReasonRow{Reason::kExtraCall, "extra_call", "only the target calls {0}", "只有调试侧调用了 {0}"},
    ReasonRow{Reason::kAndTheNext, "and_the_next", " and another call with it", " 及其相连的另一个调用"},
    ReasonRow{Reason::kAndMore, "and_more", " and {0} calls with it", " 及其相连的 {0} 个调用"},
    ReasonRow{Reason::kGradientOfRecord, "gradient_of_record",
              "{0} differs by more than what it is computed from explains",
              "{0} 的差异超出其来源所能解释的范围"},
    ReasonRow{Reason::kGradient, "gradient",
              "the gradient of {0} differs by more than what it is computed from explains",
              "{0} 的梯度的差异超出其来源所能解释的范围"},
    ReasonRow{Reason::kReducedGradient, "reduced_gradient",
              "the reduced gradient of {0} differs by more than what it is computed from explains",
              "{0} 归约后的梯度的差异超出其来源所能解释的范围"},
    ReasonRow{Reason::kBeforeClipping, "gradient_before_clipping",
              "before clipping, the gradient of {0} differs by more than what it is computed from explains",
              "裁剪前,{0} 的梯度的差异超出其来源所能解释的范围"},
    ReasonRow{Reason::kClippedGradient, "clipped_gradient",
              "the clipped gradient of {0} differs by more than what it is computed from explains",
              "{0} 裁剪后的梯度的差异超出其来源所能解释的范围"},
    ReasonRow{
        Reason::kGradientAtOptimizer, "gradient_at_optimizer",
        "the gradient that the optimizer gets for {0} differs by more than what it is computed from explains",
        "优化器收到的 {0} 的梯度的差异超出其来源所能解释的范围"},
    ReasonRow{Reason::kStateBefore, "state_before",
              "before the step, the optimizer's state of {0} differs by more than what it is computed from "
              "explains",
              "更新前,优化器状态 {0} 的差异超出其来源所能解释的范围"},
    ReasonRow{
        Reason::kStateAfter, "state_after",
        "after the step, the optimizer's state of {0} differs by more than what it is computed from explains",
        "更新后,优化器状态 {0} 的差异超出其来源所能解释的范围"},
    ReasonRow{Reason::kOtherRule, "other_rule",
              "the optimizer does not step by the rule of {0}: the {1} of {2} is off by {3} times what "
              "rounding allows; in the reference it does",
              "优化器的更新不符合 {0} 的规则:其 {1}({2})的偏差为舍入所允许的 {3} 倍;标杆侧的更新符合"},
    ReasonRow{Reason::kOtherRuleOfReference, "other_rule_of_reference",
              "in the reference the optimizer does not step by the rule of {0}: the {1} of {2} is off by {3} "
              "times what rounding allows; in the target it does",
              "标杆侧优化器的更新不符合 {0} 的规则:其 {1}({2})的偏差为舍入所允许的 {3} 倍;调试侧的更新符合"},
    ReasonRow{Reason::kRandomState, "random_state",
              "the random generator {0} has another state when the step begins",
              "该步开始时,随机数生成器 {0} 的状态不同"},
    ReasonRow{Reason::kCounts, "counts", "{0} {1} times (reference: {2})", "{0} {1} 次(标杆侧:{2} 次)"},
    ReasonRow{Reason::kRequiresGrad, "requires_grad", "parameter {0}: requires_grad = {1} (reference: {2})",
              "参数 {0}:requires_grad = {1}(标杆侧:{2})"},
    ReasonRow{Reason::kOtherNames, "other_names",
              "{2} parameters, buffers and modules have other names, {0} (reference: {1}) among them",
              "{2} 个参数、缓冲区和模块改了名称,例如 {0}(标杆侧:{1})"},
    ReasonRow{Reason::kModuleSetting, "module_setting", "module {0}: {1} = {2} (reference: {3})",
              "模块 {0}:{1} = {2}(标杆侧:{3})"},
    ReasonRow{Reason::kClippingSetting, "clipping_setting", "gradient clipping: {0} = {1} (reference: {2})",
              "梯度裁剪:{0} = {1}(标杆侧:{2})"},
    ReasonRow{Reason::kOptimizerSetting, "optimizer_setting", "optimizer: {0} = {1} (reference: {2})",
              "优化器:{0} = {1}(标杆侧:{2})"},
    ReasonRow{Reason::kParameterSetting, "parameter_setting", "optimizer: {0} = {1} (reference: {2}) for {3}",
              "优化器:{0} = {1}(标杆侧:{2}),参数 {3}"},
    ReasonRow{Reason::kOnlyTargetUpdates, "only_target_updates", "optimizer: only the target updates {0}",
              "优化器:只有调试侧更新 {0}"},
    ReasonRow{Reason::kOnlyReferenceUpdates, "only_reference_updates",
              "optimizer: only the reference updates {0}", "优化器:只有标杆侧更新 {0}"},
    ReasonRow{Reason::kAndMoreParameters, "and_more_parameters", " and {0} more parameters",
              " 以及另外 {0} 个参数"},
    ReasonRow{Reason::kNoConsequence, "no_consequence", ", without consequence", ",没有产生影响"},
    ReasonRow{Reason::kByChance, "by_chance",
              ", but by no more than one of {0} differing values is by chance",
              ",未超出 {0} 个有差异的值中偶然出现的范围"},
    ReasonRow{Reason::kOtherShape, "other_shape", "{0} has another shape than in the reference",
              "{0} 的形状与标杆侧不同"},
    ReasonRow{Reason::kOtherDtype, "other_dtype", "{0} has another dtype than in the reference",
              "{0} 的数据类型与标杆侧不同"},
    ReasonRow{Reason::kUnrelated, "unrelated", "the values of {0} have little in common with the reference",
              "{0} 的值与标杆侧几乎没有共同之处"},
    ReasonRow{Reason::kMoreNotes, "more_notes", "and {0} more", "以及另外 {0} 条"}};

// What sentences are about may be a word of ours.
struct Word {
  std::string_view english, chinese;
};
constexpr std::array kWords{Word{"input", "输入"},
                            Word{"parameter", "参数"},
                            Word{"buffer", "缓冲区"},
                            Word{"the model is called", "模型被调用"},
                            Word{"backward() runs", "backward() 执行"},
                            Word{"gradients are clipped", "梯度被裁剪"},
                            Word{"unchanged", "保持不变"},
                            Word{"scaled", "被缩放"},
                            Word{"changed", "被修改"},
                            Word{"the optimizer steps", "优化器更新"},
                            Word{"another shape", "另一种形状"},
                            Word{"another dtype", "另一种数据类型"},
                            Word{"absent", "无"},
                            Word{"(the model)", "(整个模型)"}};

std::string_view in(Language language, std::string_view about) {
  if (language == Language::kEnglish) return about;
  for (const Word& word : kWords) {
    if (word.english == about) return word.chinese;
  }
  return about;
}

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kReasons.size(); ++i) {
    if (static_cast<std::size_t>(kReasons[i].reason) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

const ReasonRow& row_of(Reason reason) noexcept { return kReasons[static_cast<std::size_t>(reason)]; }

std::string text_of(const Clause& clause, Language language) {
  const ReasonRow& row = row_of(clause.reason);
  std::string_view rest = language == Language::kChinese ? row.chinese : row.english;
  std::string text;
  for (std::size_t open = rest.find('{'); open != rest.npos; open = rest.find('{')) {
    text += rest.substr(0, open);
    std::size_t index = 0;
    std::from_chars(rest.data() + open + 1, rest.data() + rest.size(), index);
    if (index < clause.about.size()) text += in(language, clause.about[index]);
    rest.remove_prefix(rest.find('}', open) + 1);
  }
  return text += rest;
}

}  // namespace msprobe::verdict

namespace msprobe::compare {

std::string_view kind_name(FindingKind kind) noexcept {
  switch (kind) {
    case FindingKind::kInputData: return "input_data";
    case FindingKind::kWeight: return "weight";
    case FindingKind::kBuffer: return "buffer";
    case FindingKind::kArgument: return "argument";
    case FindingKind::kModuleAttribute: return "module_attribute";
    case FindingKind::kOperator: return "operator";
    case FindingKind::kInPlace: return "in_place";
    case FindingKind::kMissingCall: return "missing_call";
    case FindingKind::kExtraCall: return "extra_call";
    case FindingKind::kGradient: return "gradient";
    case FindingKind::kReduction: return "reduction";
    case FindingKind::kClipping: return "clipping";
    case FindingKind::kOptimizerSetting: return "optimizer_setting";
    case FindingKind::kOptimizerState: return "optimizer_state";
    case FindingKind::kUpdate: return "update";
    case FindingKind::kRandomness: return "randomness";
  }
  return "";
}

std::string_view status_name(Status status) noexcept {
  return status == Status::kEqual ? "equal" : status == Status::kRounding ? "rounding" : "differ";
}

std::string_view reason_word(Reason reason) noexcept { return verdict::row_of(reason).id; }

std::string text_of(const Because& because, Language language) {
  std::string text;
  for (const Clause& clause : because) text += verdict::text_of(clause, language);
  return text;
}

}  // namespace msprobe::compare
