// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "../summary.h"
#include "buffer.h"
#include "core.h"
#include "msprobe/sketch_text.h"

namespace {

namespace stats = msprobe::stats;

py::dict summarize(const py::buffer& array, const std::optional<std::string>& dtype,
                   const std::string& checksum, std::vector<float> bounds, bool signs, bool sketch,
                   bool powers, double small, SummaryArguments::Shard shard, unsigned threads) {
  const BufferTensor tensor(array, "summarize", dtype_named("summarize", dtype));
  const SummaryArguments arguments(checksum, std::move(bounds), signs, sketch, powers, small,
                                   std::move(shard), tensor.count());
  stats::Summary summary;
  {
    const py::gil_scoped_release no_gil;
    msprobe::ThreadPool pool(threads);
    summary = stats::summarize(tensor.view(), arguments.options(), &pool);
  }
  return arguments.to_dict(summary);
}

std::vector<std::pair<std::string, std::string>> summary_fields() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const stats::Field& field : stats::fields()) rows.emplace_back(field.name, field.meaning);
  return rows;
}

// ---- what files say of tensors (docs/formats/diagnose.md): the keys of an entry

constexpr std::array kCounts{std::pair{"nan_count", &stats::Summary::nan_count},
                             std::pair{"pos_inf_count", &stats::Summary::pos_inf_count},
                             std::pair{"neg_inf_count", &stats::Summary::neg_inf_count}};

std::optional<double> number(const py::dict& entry, const char* key) {
  if (!entry.contains(key)) return std::nullopt;
  const py::object value = entry[key];
  if (!py::isinstance<py::float_>(value) && !py::isinstance<py::int_>(value)) return std::nullopt;
  return value.cast<double>();
}

std::optional<msprobe::trace::SketchText> sketch_in(const py::dict& entry) {
  if (!entry.contains("sketch") || !py::isinstance<py::str>(entry["sketch"])) return std::nullopt;
  const auto found = msprobe::trace::read_sketch(entry["sketch"].cast<std::string>());
  return found && found->has_digest ? found : std::nullopt;
}

// Nothing: mean and norm are not known.
std::optional<stats::Summary> summary_of(const py::dict& entry, std::int64_t count) {
  stats::Summary summary;
  summary.count = count;
  if (count == 0) return summary;
  const auto norm = number(entry, "norm");
  summary.mean = number(entry, "mean");
  if (!norm || !summary.mean) return std::nullopt;
  summary.norm = *norm;
  summary.min = number(entry, "min");
  summary.max = number(entry, "max");
  for (const auto& [key, member] : kCounts) {
    if (const auto found = number(entry, key); found && *found > 0 && *found <= static_cast<double>(count))
      summary.*member = static_cast<std::int64_t>(*found);
  }
  if (const auto text = sketch_in(entry)) {
    summary.sketch = text->sketch;
    if (!text->has_extremes) {
      summary.sketch->min = summary.min.value_or(0);
      summary.sketch->max = summary.max.value_or(0);
    }
  }
  return summary;
}

py::dict numbers_of(const stats::Summary& summary, bool has_extremes) {
  py::dict entry;
  if (has_extremes) {
    entry["min"] = summary.min;
    entry["max"] = summary.max;
  }
  entry["mean"] = summary.mean;
  entry["norm"] = summary.norm;
  for (const auto& [key, member] : kCounts) {
    if (summary.*member != 0) entry[key] = summary.*member;
  }
  if (summary.sketch) {
    entry["sketch"] = msprobe::trace::sketch_text(
        *summary.sketch, {summary.nan_count, summary.pos_inf_count, summary.neg_inf_count},
        std::ranges::any_of(summary.sketch->sums,
                            [](double sum) { return std::abs(sum) > std::numeric_limits<float>::max(); }));
  }
  return entry;
}

std::optional<py::dict> joined(const std::vector<std::pair<py::dict, std::int64_t>>& parts,
                               std::int64_t count, std::int64_t padding, bool integers, bool is_placed) {
  std::vector<stats::Summary> summaries;
  for (const auto& [entry, elements] : parts) {
    auto summary = summary_of(entry, elements);
    if (!summary) return std::nullopt;
    if (!is_placed) summary->sketch.reset();
    summaries.push_back(*std::move(summary));
  }
  const auto whole = stats::joined(summaries, count, padding, integers);
  return whole ? std::optional(numbers_of(*whole, /*has_extremes=*/true)) : std::nullopt;
}

std::optional<py::dict> added_up(const std::vector<std::pair<py::dict, std::int64_t>>& summands) {
  std::vector<stats::Summary> summaries;
  for (const auto& [entry, elements] : summands) {
    auto summary = summary_of(entry, elements);
    if (!summary) return std::nullopt;
    summaries.push_back(*std::move(summary));
  }
  const auto sum = stats::added_up(summaries);
  return sum ? std::optional(numbers_of(*sum, /*has_extremes=*/false)) : std::nullopt;
}

std::optional<py::dict> read_sketch(const std::string& text) {
  const auto found = msprobe::trace::read_sketch(text);
  if (!found || !found->has_digest) return std::nullopt;
  py::dict result;
  result["digest"] = found->sketch.digest;
  result["mean"] = found->sketch.mean;
  result["norm"] = found->sketch.norm;
  result["sums"] = found->sketch.sums;
  result["is_finite"] = !found->non_finite.any();
  return result;
}

}  // namespace

void register_stats(py::module_& m) {
  m.def("instruction_set", &stats::instruction_set);
  m.def("summary_fields", &summary_fields);
  m.def("summarize", &summarize, py::arg("array"), py::kw_only(), py::arg("dtype") = py::none(),
        py::arg("checksum") = "none", py::arg("bounds") = std::vector<float>(), py::arg("signs") = false,
        py::arg("sketch") = false, py::arg("powers") = false, py::arg("small") = 0.0,
        py::arg("shard") = py::none(), py::arg("threads") = 1U);
  m.def("joined", &joined, py::arg("parts"), py::arg("count"), py::kw_only(), py::arg("padding"),
        py::arg("integers"), py::arg("is_placed"));
  m.def("added_up", &added_up, py::arg("summands"));
  m.def("read_sketch", &read_sketch, py::arg("text"));
}
