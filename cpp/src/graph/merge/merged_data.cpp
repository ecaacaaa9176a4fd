// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/merge/merged_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "msprobe/table.h"

namespace msprobe::graph {
namespace {

using trace::Item;
using trace::Scalar;

const Scalar& scalar_of(const Item& item, std::size_t which) {
  switch (which) {
    case 0: return item.max;
    case 1: return item.min;
    case 2: return item.mean;
    default: return item.norm;
  }
}

bool are_close(double left, double right, double tolerance) {
  if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && std::isnan(right);
  if (left == right) return true;
  return std::abs(left - right) <= tolerance * (left == 0 ? 1 : std::abs(left));
}

// Of a shape "[2, 3]"; 0 where it is no list of numbers.
double element_count(const Parameter& parameter) {
  std::string_view shape = parameter.trace->text(parameter.item->shape);
  if (shape.empty()) return 0;
  double count = 1;
  for (;;) {
    const std::size_t begin = shape.find_first_of("0123456789");
    if (begin == std::string_view::npos) return count;
    shape.remove_prefix(begin);
    std::uint64_t size = 0;
    const char* const end = std::from_chars(shape.data(), shape.data() + shape.size(), size).ptr;
    shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
    count *= static_cast<double>(size);
  }
}

// An empty tensor, which has no statistics.
bool is_empty(const Parameter& parameter) {
  return parameter.item->kind == Item::Kind::kTensor &&
         !parameter.trace->text(parameter.item->shape).empty() && element_count(parameter) == 0;
}

template <typename Each>
std::string joined(std::size_t count, std::string_view separator, Each&& each) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += separator;
    text += each(i);
  }
  return text;
}

// One statistic of the whole: its number, and the sentence that tells how it came about.
class Whole {
 public:
  Whole(std::span<Parameter* const> parts, std::span<const Statistics> numbers, std::string_view label)
      : parts_(parts), numbers_(numbers), label_(label) {}

  double extreme(std::size_t which, std::vector<std::string>& notes) const {
    const bool is_max = which == 0;
    std::size_t best = 0;
    for (std::size_t i = 1; i < numbers_.size(); ++i) {
      const double now = numbers_[best][which], other = numbers_[i][which];
      if (!std::isnan(now) && (std::isnan(other) || (is_max ? other > now : other < now))) best = i;
    }
    const char* const function = is_max ? "max(" : "min(";
    add(notes, is_max ? "Max" : "Min", function + list(which, ", ") + ")", text(best, which));
    return numbers_[best][which];
  }

  double mean(std::vector<std::string>& notes) const {
    std::vector<double> counts;
    for (const Parameter* part : parts_) counts.push_back(element_count(*part));
    const bool are_equal =
        std::all_of(counts.begin(), counts.end(), [&](double count) { return count == counts[0]; });
    double sum = 0, total = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const double weight = are_equal ? 1 : counts[i];
      if (weight > 0) sum += are_equal ? numbers_[i][2] : numbers_[i][2] * weight;
      total += weight;
    }
    const double result = sum / total;
    const auto count_text = [](double count) {
      return count < 1e15 ? std::to_string(static_cast<std::uint64_t>(count)) : io::format_double(count);
    };
    const std::string dividend =
        are_equal ? list(2, " + ") : joined(parts_.size(), " + ", [&](std::size_t i) {
          return text(i, 2) + " * " + count_text(counts[i]);
        });
    add(notes, "Mean", "(" + dividend + ") / " + count_text(total), io::format_double(result));
    return result;
  }

  double norm(std::vector<std::string>& notes) const {
    double sum = 0;
    for (const Statistics& part : numbers_) sum += part[3] * part[3];
    const double result = std::sqrt(sum);
    const std::string squares =
        joined(parts_.size(), " + ", [this](std::size_t i) { return text(i, 3) + " ** 2"; });
    add(notes, "Norm", "(" + squares + ") ** 0.5", io::format_double(result));
    return result;
  }

 private:
  // As Python prints it.
  std::string text(std::size_t part, std::size_t which) const {
    const Parameter& parameter = *parts_[part];
    const Scalar& scalar = scalar_of(*parameter.item, which);
    if (!parameter.merged && scalar.kind == Scalar::Kind::kInteger)
      return std::string(parameter.trace->text(scalar));
    return io::format_double(numbers_[part][which]);
  }

  std::string list(std::size_t which, std::string_view separator) const {
    return joined(parts_.size(), separator, [&](std::size_t i) { return text(i, which); });
  }

  void add(std::vector<std::string>& notes, const char* statistic, const std::string& formula,
           const std::string& result) const {
    notes.push_back("The " + std::string(statistic) + " value merging method for " + std::string(label_) +
                    " is: " + formula + " = " + result);
  }

  std::span<Parameter* const> parts_;
  std::span<const Statistics> numbers_;
  std::string_view label_;
};

}  // namespace

std::optional<Statistics> statistics_of(const Parameter& parameter) {
  if (parameter.merged) return parameter.merged;
  if (parameter.item->kind != Item::Kind::kTensor) return std::nullopt;
  Statistics numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = parameter.trace->number(scalar_of(*parameter.item, i));
    if (!number) return std::nullopt;
    numbers[i] = *number;
  }
  return numbers;
}

bool agree(const Parameter& left, const Parameter* right, double tolerance) {
  const auto ours = statistics_of(left);
  if (!ours) return true;
  const auto theirs = right == nullptr ? std::nullopt : statistics_of(*right);
  if (!theirs) return false;
  return are_close((*ours)[0], (*theirs)[0], 0) && are_close((*ours)[1], (*theirs)[1], 0) &&
         are_close((*ours)[2], (*theirs)[2], tolerance) && are_close((*ours)[3], (*theirs)[3], tolerance);
}

bool agree(std::span<const Parameter> left, std::span<const Parameter> right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!agree(left[i], find_same(right, left[i], i), kRounding)) return false;
  }
  return true;
}

const Parameter* find_same(std::span<const Parameter> others, const Parameter& wanted, std::size_t position) {
  const std::string_view path = wanted.trace->text(wanted.item->path);
  const auto is_same = [&](const Parameter& other) {
    return other.item->part == wanted.item->part && other.trace->text(other.item->path) == path;
  };
  if (position < others.size() && is_same(others[position])) return &others[position];
  const auto found = std::find_if(others.begin(), others.end(), is_same);
  return found == others.end() ? nullptr : &*found;
}

bool merge_parts(std::span<Parameter* const> parts, std::string_view label, std::vector<std::string>& notes) {
  std::vector<Parameter*> full;
  std::vector<Statistics> numbers;
  for (Parameter* part : parts) {
    if (const auto statistics = statistics_of(*part)) {
      full.push_back(part);
      numbers.push_back(*statistics);
    } else if (!is_empty(*part)) {
      return false;
    }
  }
  if (full.empty()) return false;
  const Whole whole(full, numbers, label);
  const double max = whole.extreme(0, notes), min = whole.extreme(1, notes);
  const double mean = whole.mean(notes), norm = whole.norm(notes);
  parts[0]->merged = Statistics{max, min, mean, norm};
  return true;
}

std::string label_of(const Graph& graph, NodeId node, const Parameter& parameter) {
  std::string name;
  append_parameter_name(name, graph, node, parameter);
  const std::string_view own = graph[node].name;
  return name.starts_with(own) && name.size() > own.size() ? name.substr(own.size() + 1) : name;
}

std::string list_of(std::span<const int> ranks) {
  return "[" + joined(ranks.size(), ", ", [&](std::size_t i) { return std::to_string(ranks[i]); }) + "]";
}

std::string merge_note(std::string_view title, std::string_view ranks) {
  return "This data is the merged data after " + std::string(title) + ", and the data is merged from rank " +
         std::string(ranks) + ".";
}

std::string summands_note(std::string_view ranks, std::string_view what) {
  return "The ranks " + std::string(ranks) + " hold different summands of " + std::string(what) +
         ", whose statistics cannot be merged; those of the first are shown.";
}

std::string strange_note(std::string_view ranks, std::string_view what, std::string_view placement) {
  return "The placement " + std::string(placement) + " of " + std::string(what) +
         " is not known, so the statistics of the ranks " + std::string(ranks) +
         " are not merged; those of the first are shown.";
}

}  // namespace msprobe::graph
