// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/legend.h"

#include <array>
#include <utility>

#include "trace/json/json_text.h"

namespace msprobe::graph {
namespace {

constexpr std::array<Colour, 5> kStatisticsColours = {{{"#FFFCF3", 0, 0.2},
                                                       {"#FFEDBE", 0.2, 0.4},
                                                       {"#FFDC7F", 0.4, 0.6},
                                                       {"#FFC62E", 0.6, 0.8},
                                                       {"#FF704D", 0.8, 1}}};
constexpr std::array<Colour, 5> kRealDataColours = {{{"#FFFCF3", 0, 0.05},
                                                     {"#FFEDBE", 0.05, 0.1},
                                                     {"#FFDC7F", 0.1, 0.15},
                                                     {"#FFC62E", 0.15, 0.2},
                                                     {"#FF704D", 0.2, 1}}};
constexpr std::array<Colour, 2> kMd5Colours = {{{"#FFFCF3", 1, 1}, {"#FF704D", 0, 0}}};

constexpr std::string_view kUnmatched = "没有匹配的节点 (no match in the other run)";

// Languages: viewers of both kinds of users show these texts as they are.
std::string_view description_of(Mode mode, std::size_t colour) {
  switch (mode) {
    case Mode::kStatistics:
      return "输出统计量相对误差的最大值: |(调试值 - 标杆值) / 标杆值| "
             "(largest relative error of the statistics of the outputs)";
    case Mode::kRealData:
      return "从输入到输出，误差小于千分之一的元素占比的下降 "
             "(how much the share of elements within 0.1 % falls from the inputs to the outputs)";
    case Mode::kMd5:
      return colour == 0 ? "所有输入输出的 md5 一致 (all checksums agree)"
                         : "有输入或输出的 md5 不一致 (a checksum differs)";
    case Mode::kStructure: break;
  }
  return "";
}

using Text = std::pair<std::string_view, std::string_view>;

constexpr std::array<Text, 4> kStatisticsTexts = {
    {{"Max diff", "最大值之差: 调试侧 - 标杆侧 (difference of the maxima)"},
     {"Min diff", "最小值之差: 调试侧 - 标杆侧 (difference of the minima)"},
     {"Mean diff", "平均值之差: 调试侧 - 标杆侧 (difference of the means)"},
     {"L2norm diff", "L2 范数之差: 调试侧 - 标杆侧 (difference of the L2 norms)"}}};
constexpr std::array<Text, 1> kMd5Texts = {{{"md5", "数据的 CRC-32 校验值 (CRC-32 of the data)"}}};
constexpr std::array<Text, 5> kRealDataTexts = {
    {{"One Thousandth Err Ratio", "相对误差小于千分之一的元素占比 (share of elements within 0.1 %)"},
     {"Five Thousandths Err Ratio", "相对误差小于千分之五的元素占比 (share of elements within 0.5 %)"},
     {"Cosine", "余弦相似度，越接近 1 越好 (cosine similarity, 1 is best)"},
     {"MaxAbsErr", "最大绝对误差，越接近 0 越好 (largest absolute error)"},
     {"MaxRelativeErr", "最大相对误差，越接近 0 越好 (largest relative error)"}}};

std::span<const Text> texts_of(Mode mode) {
  switch (mode) {
    case Mode::kStatistics: return kStatisticsTexts;
    case Mode::kMd5: return kMd5Texts;
    case Mode::kRealData:
    case Mode::kStructure: break;
  }
  return kRealDataTexts;
}

void append_number(std::string& out, double value) {
  std::string text;
  trace::append_json_real(text, value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  out += text;
}

void append_colour(std::string& out, std::string_view code, std::string_view interval,
                   std::string_view text) {
  if (out.size() > 1) out += ", ";
  trace::append_json_string(out, code);
  out += ": {\"value\": [";
  out += interval;
  out += "], \"description\": ";
  trace::append_json_string(out, text);
  out += '}';
}

}  // namespace

std::span<const Colour> colours_of(Mode mode) {
  switch (mode) {
    case Mode::kStatistics: return kStatisticsColours;
    case Mode::kMd5: return kMd5Colours;
    case Mode::kRealData: return kRealDataColours;
    case Mode::kStructure: break;
  }
  return {};
}

std::string_view task_name(Mode mode) {
  switch (mode) {
    case Mode::kStatistics: return "summary";
    case Mode::kMd5: return "md5";
    case Mode::kRealData: return "all";
    case Mode::kStructure: break;
  }
  return "structure";
}

std::string colours_json(Mode mode) {
  std::string json = "{";
  const auto colours = colours_of(mode);
  for (std::size_t i = 0; i < colours.size(); ++i) {
    std::string interval;
    append_number(interval, colours[i].low);
    interval += ", ";
    append_number(interval, colours[i].high);
    append_colour(json, colours[i].code, interval, description_of(mode, i));
  }
  append_colour(json, "#C7C7C7", "", kUnmatched);
  return json + "}";
}

std::string metrics_json(Mode mode) {
  std::string json = "{";
  for (const auto& [metric, text] : texts_of(mode)) {
    if (json.size() > 1) json += ", ";
    trace::append_json_string(json, metric);
    json += ": ";
    trace::append_json_string(json, text);
  }
  return json + "}";
}

}  // namespace msprobe::graph
