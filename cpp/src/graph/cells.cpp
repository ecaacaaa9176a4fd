// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "graph/cell_number.h"
#include "graph/dotted_name.h"
#include "graph/parameter_pairs.h"
#include "msprobe/graph.h"
#include "msprobe/record_name.h"
#include "msprobe/table.h"
#include "trace/item/item_text.h"
#include "trace/item/type_name.h"
#include "trace/json/json_text.h"

namespace msprobe::graph {
namespace {

using trace::Item;
using trace::Metric;
using trace::Scalar;

constexpr std::array<std::string_view, 4> kStatisticNames = {"Max", "Min", "Mean", "Norm"};
constexpr std::array<std::string_view, 4> kDifferenceNames = {"Max diff", "Min diff", "Mean diff",
                                                              "L2norm diff"};
constexpr std::array<std::string_view, 4> kRelativeNames = {"MaxRelativeErr", "MinRelativeErr",
                                                            "MeanRelativeErr", "NormRelativeErr"};

// "136.905575123%" becomes "136.905575%".
bool has_many_decimals(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  const std::size_t dot = text.find('.');
  return dot != std::string_view::npos && is_number(text.substr(0, dot)) && is_number(text.substr(dot + 1)) &&
         text.size() - dot > 7;
}

std::string six_decimals(std::string_view text) {
  const bool is_percentage = text.ends_with('%');
  if (is_percentage) text.remove_suffix(1);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  std::array<char, 400> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, 6);
  return std::string(digits.data(), end.ptr) + (is_percentage ? "%" : "");
}

// A text as the cells show it.
std::string cell_text(std::string_view text) {
  if (text == " ") return "null";
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'') continue;
    if (text.substr(i, 4) == "None") {
      result += "null";
      i += 3;
    } else {
      result += text[i];
    }
  }
  return has_many_decimals(result) ? six_decimals(result) : result;
}

struct CellContext {
  const Graph& graph;
  bool shows_md5 = false;
  const Comparison* comparison = nullptr;
};

// One parameter: {field: text}.
class Cell {
 public:
  explicit Cell(std::string& out) : out_(out) { out_ += '{'; }
  void end() { out_ += '}'; }

  void add_text(std::string_view key, std::string_view text) {
    begin(key);
    const bool is_plain =
        text.find_first_of("'N ") == std::string_view::npos && !is_number(text.substr(0, 1));
    trace::append_json_string(out_, is_plain ? text : std::string_view(cell_text(text)));
  }
  // A text that needs no escapes and no rounding.
  void add_plain(std::string_view key, std::string_view text) {
    begin(key);
    out_ += '"';
    out_ += text;
    out_ += '"';
  }
  void add_number(std::string_view key, double value) {
    begin(key);
    out_ += '"';
    append_cell_number(out_, value);
    out_ += '"';
  }
  void add_flag(std::string_view key, std::optional<bool> flag) {
    add_plain(key, !flag ? "null" : *flag ? "True" : "False");
  }
  void add_scalar(std::string_view key, const trace::Trace& trace, const Scalar& scalar) {
    const Scalar::Kind kind = scalar.kind;  // a field of four bits, of which not all are used
    switch (kind) {
      case Scalar::Kind::kAbsent:
      case Scalar::Kind::kNull: return add_plain(key, "null");
      case Scalar::Kind::kBool:
      case Scalar::Kind::kInteger: return add_plain(key, trace.text(scalar));
      case Scalar::Kind::kFloat: {
        return add_number(key, trace.number(scalar).value_or(0));
      }
      case Scalar::Kind::kText: return add_text(key, trace.text(scalar));
      case Scalar::Kind::kComposite: {
        begin(key);
        return trace::append_json_string(out_, trace.text(scalar));
      }
    }
  }
  void add_metric(std::string_view key, const Metric& metric) {
    switch (metric.state) {
      case Metric::State::kNumber: return add_result(key, metric.value);
      case Metric::State::kNan: return add_plain(key, "Nan");
      case Metric::State::kUnsupported: return add_plain(key, "unsupported");
      case Metric::State::kNotApplicable: return add_plain(key, "N/A");
      case Metric::State::kShapeUnmatched: return add_plain(key, "shape unmatched");
    }
  }
  void add_difference(std::string_view key, const Metric& difference, bool is_whole) {
    if (!difference.number() || !is_whole) return add_metric(key, difference);
    begin(key);
    std::array<char, 400> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), difference.value,
                                   std::chars_format::fixed, 0);
    out_ += '"';
    out_.append(digits.data(), end.ptr);
    out_ += '"';
  }
  void add_relative(std::string_view key, const trace::StatisticDifference& difference) {
    if (difference.difference.state == Metric::State::kNan) return add_plain(key, "Nan");
    if (!difference.relative) return add_plain(key, "N/A");
    const double percent = *difference.relative * 100;
    if (percent == 0) return add_plain(key, "0.0%");
    if (!std::isfinite(percent)) return add_plain(key, std::isnan(percent) ? "nan%" : "inf%");
    text_.clear();
    io::append_double(text_, percent);
    text_ += '%';
    add_plain(key, has_many_decimals(text_) ? six_decimals(text_) : text_);
  }

 private:
  void begin(std::string_view key) {
    out_ += is_first_ ? "\"" : ", \"";
    is_first_ = false;
    out_ += key;
    out_ += "\": ";
  }
  void add_result(std::string_view key, double value) {
    if (std::isfinite(value)) return add_number(key, value);
    add_plain(key, std::isnan(value) ? "nan\\t" : value > 0 ? "inf\\t" : "-inf\\t");
  }

  std::string& out_;
  std::string text_;
  bool is_first_ = true;
};

class CellWriter {
 public:
  CellWriter(const CellContext& context, NodeId node, bool has_match, const NodeMetrics* metrics)
      : context_(context), node_(node), has_match_(has_match), metrics_(metrics) {}

  void write(const std::vector<Parameter>& parameters, const std::vector<Parameter>& others,
             std::string& out) {
    const auto pairs = pair_parameters(parameters, others);
    constexpr std::size_t kUsual = 300;  // bytes of a tensor, and as many of its results
    out.reserve(parameters.size() * (has_match_ ? 2 * kUsual : kUsual) + 2);
    out += '{';
    for (std::size_t i = 0; i < parameters.size(); ++i, ++row_) {
      if (i > 0) out += ", ";
      name_.clear();
      append_parameter_name(name_, context_.graph, node_, parameters[i]);
      trace::append_json_string(out, name_);
      out += ": ";
      const std::size_t begin = out.size();
      if (!add_parameter(parameters[i], has_match_ ? pairs[i] : nullptr, out)) {
        out.resize(begin);
        out += R"({"value": "null"})";
      }
    }
    out += '}';
  }

 private:
  // False: it has no statistics, and then nothing of it is cell_text.
  bool add_parameter(const Parameter& parameter, const Parameter* other, std::string& out) {
    const Item& item = *parameter.item;
    if (item.kind == Item::Kind::kNull) return false;
    Cell cell(out);
    const bool is_group = trace::is_process_group_type(parameter.trace->text(item.type));
    if (is_group) {
      add_group(cell, parameter);
    } else {
      const auto statistics = statistics_of(parameter, other);
      if (!has_statistics(parameter, statistics)) return false;
      item.kind == Item::Kind::kTensor ? add_tensor(cell, parameter, statistics)
                                       : add_value(cell, parameter, statistics);
      if (other != nullptr) add_results(cell, parameter, *other, statistics);
    }
    cell.end();
    return true;
  }

  static bool has_statistics(const Parameter& parameter, const trace::StatisticsPair& statistics) {
    if (parameter.merged) return true;
    const Scalar& max = statistics.target[0];
    const bool is_none = max.kind == Scalar::Kind::kText && parameter.trace->text(max) == "None";
    return max.kind != Scalar::Kind::kAbsent && max.kind != Scalar::Kind::kNull && !is_none;
  }

  bool is_batch_of_peers() const {
    return trace::RecordName(context_.graph[node_].name).function() == "batch_isend_irecv";
  }

  static void add_group(Cell& cell, const Parameter& parameter) {
    const trace::Trace& trace = *parameter.trace;
    cell.add_text("type", trace.text(parameter.item->type));
    cell.add_scalar("group_ranks", trace, parameter.item->value);
    cell.add_text("group_id", trace.group_id(*parameter.item));
    cell.add_plain("data_name", "-1");
  }

  void add_tensor(Cell& cell, const Parameter& parameter, const trace::StatisticsPair& statistics) {
    const trace::Trace& trace = *parameter.trace;
    const Item& item = *parameter.item;
    cell.add_text("type", trace.text(item.type));
    cell.add_text("dtype", trace.text(item.dtype));
    cell.add_plain("shape", trace.text(item.shape));
    add_statistics(cell, parameter, statistics);
    cell.add_flag("requires_grad", item.requires_grad);
    if (trace.text(item.path).ends_with(".tensor") && is_batch_of_peers()) {
      cell.add_text("class_type", std::string(trace.package()) + ".distributed.P2POp");
    }
    if (item.data_name.length > 0) cell.add_text("data_name", trace.text(item.data_name));
    if (context_.shows_md5) cell.add_text("md5", trace::md5_text(trace, item));
    if (item.data_name.length == 0) cell.add_plain("data_name", "-1");
  }

  void add_value(Cell& cell, const Parameter& parameter, const trace::StatisticsPair& statistics) {
    const trace::Trace& trace = *parameter.trace;
    const Item& item = *parameter.item;
    cell.add_text("type", trace.text(item.type));
    cell.add_scalar("value", trace, item.value);
    cell.add_plain("data_name", "-1");
    cell.add_flag("requires_grad", item.requires_grad);
    add_statistics(cell, parameter, statistics);
    cell.add_text("dtype",
                  is_shown_as_text(parameter) ? trace.text(item.type) : trace::dtype_text(trace, item));
    cell.add_text("shape", trace::shape_text(trace, item));
    if (!context_.shows_md5) return;
    cell.add_text("md5", is_shown_as_text(parameter) ? std::string(trace.text(item.value))
                                                     : trace::md5_text(trace, item));
  }

  static void add_statistics(Cell& cell, const Parameter& parameter,
                             const trace::StatisticsPair& statistics) {
    for (std::size_t i = 0; i < kStatisticNames.size(); ++i) {
      const std::optional<double> number = statistics.target_numbers[i];
      if (parameter.merged) {
        cell.add_number(kStatisticNames[i], (*parameter.merged)[i]);
      } else if (number && statistics.target[i].kind == Scalar::Kind::kFloat) {
        cell.add_number(kStatisticNames[i], *number);
      } else {
        cell.add_scalar(kStatisticNames[i], *parameter.trace, statistics.target[i]);
      }
    }
  }

  void add_results(Cell& cell, const Parameter& parameter, const Parameter& other,
                   const trace::StatisticsPair& statistics) const {
    switch (context_.comparison->mode) {
      case Mode::kStructure: return;
      case Mode::kStatistics: add_differences(cell, parameter, other, statistics); break;
      case Mode::kMd5: {
        const bool same =
            trace::md5_text(*parameter.trace, *parameter.item) == trace::md5_text(*other.trace, *other.item);
        cell.add_plain("Result", same ? "pass" : "Different");
        break;
      }
      case Mode::kRealData: add_metrics(cell, (*metrics_)[row_]); break;
    }
    cell.add_flag("Requires_grad Consistent", parameter.item->requires_grad == other.item->requires_grad);
  }

  static void add_differences(Cell& cell, const Parameter& parameter, const Parameter& other,
                              const trace::StatisticsPair& statistics) {
    const bool are_read = !parameter.merged && !other.merged;
    for (std::size_t i = 0; i < kDifferenceNames.size(); ++i) {
      const bool is_whole = are_read && statistics.target[i].kind == Scalar::Kind::kInteger &&
                            statistics.reference[i].kind == Scalar::Kind::kInteger;
      cell.add_difference(kDifferenceNames[i], statistics.differences[i].difference, is_whole);
    }
    for (std::size_t i = 0; i < kRelativeNames.size(); ++i) {
      cell.add_relative(kRelativeNames[i], statistics.differences[i]);
    }
  }

  static void add_metrics(Cell& cell, const trace::RealMetrics& metrics) {
    cell.add_metric("Cosine", metrics.cosine);
    cell.add_metric("EucDist", metrics.euclidean);
    cell.add_metric("MaxAbsErr", metrics.max_absolute);
    cell.add_metric("MaxRelativeErr", metrics.max_relative);
    cell.add_metric("One Thousandth Err Ratio", metrics.one_thousandth);
    cell.add_metric("Five Thousandths Err Ratio", metrics.five_thousandths);
  }

  const CellContext& context_;
  const NodeId node_;
  const bool has_match_;
  const NodeMetrics* const metrics_;  // of the node; null unless it was measured
  std::size_t row_ = 0;               // in metrics_
  std::string name_;
};

}  // namespace

void append_cell_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  if (std::isinf(value)) {
    out += value > 0 ? "inf" : "-inf";
    return;
  }
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e16)) {
    std::array<char, 40> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.6e", value);
    out.append(text.data(), static_cast<std::size_t>(length));
    return;
  }
  std::array<char, 40> text{};
  char* end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 6).ptr;
  if (size >= 1e9) {  // more digits than a double has: the shortest text of what was rounded
    double rounded = 0;
    std::from_chars(text.data(), end, rounded);
    io::append_double(out, rounded);
    return;
  }
  while (end[-1] == '0' && end[-2] != '.') --end;
  out.append(text.data(), end);
}

void append_cells(const Graph& graph, NodeId node, bool shows_md5, const Comparison* comparison,
                  const Graph* reference, std::string& inputs, std::string& outputs) {
  NodeData ours, theirs;
  graph.read_data(node, ours);
  const NodeId match = comparison == nullptr ? kNoNode : comparison->matches.of_target[node];
  if (match != kNoNode) reference->read_data(match, theirs);
  const bool is_measured = match != kNoNode && comparison->mode == Mode::kRealData;
  const CellContext context{.graph = graph, .shows_md5 = shows_md5, .comparison = comparison};
  CellWriter writer(context, node, match != kNoNode, is_measured ? &comparison->metrics[node] : nullptr);
  writer.write(ours.inputs, theirs.inputs, inputs);
  writer.write(ours.outputs, theirs.outputs, outputs);
}

}  // namespace msprobe::graph
