// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/stats.h"

#include "../summary.h"
#include "core.h"

namespace {

namespace stats = msprobe::stats;
using msprobe::DType;

// The dtype of a buffer by its struct format; native byte order only.
DType dtype_of(const py::buffer_info& info) {
  std::string format = info.format;
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.erase(0, 1);
  const bool wide = info.itemsize == 8;
  if (format == "d") return DType::kFloat64;
  if (format == "f") return DType::kFloat32;
  if (format == "e") return DType::kFloat16;
  if (format == "q" || (format == "l" && wide)) return DType::kInt64;
  if (format == "i" || (format == "l" && !wide)) return DType::kInt32;
  if (format == "h") return DType::kInt16;
  if (format == "b") return DType::kInt8;
  if (format == "Q" || (format == "L" && wide)) return DType::kUInt64;
  if (format == "I" || (format == "L" && !wide)) return DType::kUInt32;
  if (format == "H") return DType::kUInt16;
  if (format == "B") return DType::kUInt8;
  if (format == "?") return DType::kBool;
  if (format == "Zf") return DType::kComplex64;
  if (format == "Zd") return DType::kComplex128;
  throw msprobe::UnsupportedError(
      "summarize: expected a buffer of numbers in native byte order, found the format \"" + info.format +
      '"');
}

py::dict summarize(const py::buffer& array, const std::string& checksum, std::vector<float> bounds,
                   bool signs, unsigned threads) {
  const py::buffer_info info = array.request();
  std::vector<std::int64_t> shape(info.shape.begin(), info.shape.end());
  std::vector<std::int64_t> strides;
  for (const py::ssize_t bytes : info.strides) {
    if (bytes % info.itemsize != 0) {
      throw msprobe::UnsupportedError(
          "summarize: the strides of the buffer are not multiples of its item size");
    }
    strides.push_back(bytes / info.itemsize);
  }
  const msprobe::TensorView view{info.ptr, dtype_of(info), shape, strides};
  const SummaryArguments arguments(checksum, std::move(bounds), signs, info.size);
  stats::Summary summary;
  {
    const py::gil_scoped_release no_gil;
    msprobe::ThreadPool pool(threads);
    summary = stats::summarize(view, arguments.options(), &pool);
  }
  return arguments.to_dict(summary);
}

std::vector<std::pair<std::string, std::string>> summary_fields() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const stats::Field& field : stats::fields()) rows.emplace_back(field.name, field.meaning);
  return rows;
}

}  // namespace

void register_stats(py::module_& m) {
  m.def("instruction_set", &stats::instruction_set);
  m.def("summary_fields", &summary_fields);
  m.def("summarize", &summarize, py::arg("array"), py::kw_only(), py::arg("checksum") = "none",
        py::arg("bounds") = std::vector<float>(), py::arg("signs") = false, py::arg("threads") = 1U);
}
