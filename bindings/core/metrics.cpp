// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/metrics.h"

#include <optional>
#include <string>

#include "buffer.h"
#include "core.h"
#include "msprobe/error.h"
#include "msprobe/trace_compare.h"

namespace {

namespace metrics = msprobe::metrics;

void add_side(py::dict& result, const std::string& name, const metrics::Side& side) {
  const auto put = [&](const char* field, const auto& value) {
    result[py::str(name + "_" + field)] = py::cast(value);
  };
  put("nan_count", side.nan_count);
  put("inf_count", side.inf_count);
  put("sum", side.sum);
  put("sum_imag", side.sum_imag);
  put("squares", side.squares);
  put("min", side.min);
  put("max", side.max);
}

py::dict to_dict(const metrics::PairMetrics& found) {
  py::dict result;
  result["count"] = found.count;
  result["finite_pairs"] = found.finite_pairs;
  result["both_non_finite"] = found.both_non_finite;
  result["different_kind"] = found.different_kind;
  result["one_sided"] = found.one_sided;
  result["equal_bits"] = found.equal_bits;
  result["below_thousandth"] = found.below_thousandth;
  result["below_five_thousandths"] = found.below_five_thousandths;
  result["relative_nan"] = found.relative_nan;
  add_side(result, "target", found.target);
  add_side(result, "reference", found.reference);
  result["dot"] = found.dot;
  result["squared_distance"] = found.squared_distance;
  result["max_absolute"] = found.max_absolute;
  result["max_relative"] = found.max_relative;
  result["first_difference"] = found.first_difference;
  result["max_absolute_index"] = found.max_absolute_index;
  result["max_relative_index"] = found.max_relative_index;
  return result;
}

py::dict compare_tensors(const py::buffer& target, const py::buffer& reference,
                         const std::optional<std::string>& target_dtype,
                         const std::optional<std::string>& reference_dtype, const metrics::Options& options,
                         unsigned threads) {
  const BufferTensor l(target, "compare_tensors", dtype_named("compare_tensors", target_dtype));
  const BufferTensor r(reference, "compare_tensors", dtype_named("compare_tensors", reference_dtype));
  metrics::PairMetrics found;
  {
    const py::gil_scoped_release no_gil;
    msprobe::ThreadPool pool(threads);
    found = metrics::compare(l.view(), r.view(), options, &pool);
  }
  return to_dict(found);
}

// The pairs that are not close: how many, and the first of them as index, target, reference.
py::tuple differing_elements(const py::buffer& target, const py::buffer& reference,
                             const std::optional<std::string>& target_dtype,
                             const std::optional<std::string>& reference_dtype, double relative,
                             double absolute, std::size_t most) {
  const std::string caller = "differing_elements";
  const BufferTensor l(target, caller, dtype_named(caller, target_dtype));
  const BufferTensor r(reference, caller, dtype_named(caller, reference_dtype));
  metrics::Outliers found;
  {
    const py::gil_scoped_release no_gil;
    found = metrics::outliers(l.view(), r.view(), relative, absolute, most);
  }
  py::list first;
  for (const metrics::ElementPair& pair : found.first) {
    first.append(py::make_tuple(pair.index, pair.target, pair.reference));
  }
  return py::make_tuple(found.count, first);
}

std::vector<double> tensor_values(const py::buffer& array, const std::optional<std::string>& dtype,
                                  std::int64_t first, std::size_t count) {
  const BufferTensor tensor(array, "tensor_values", dtype_named("tensor_values", dtype));
  const py::gil_scoped_release no_gil;
  return metrics::values(tensor.view(), first, count);
}

}  // namespace

void register_metrics(py::module_& m) {
  m.def(
      "unit_roundoff",
      [](std::string_view dtype) { return msprobe::metrics::unit_roundoff(msprobe::trace::dtype_of(dtype)); },
      py::arg("dtype"));
  m.def(
      "compare_tensors",
      [](const py::buffer& target, const py::buffer& reference,
         const std::optional<std::string>& target_dtype, const std::optional<std::string>& reference_dtype,
         bool float16_arithmetic, bool real_part_only, unsigned threads) {
        return compare_tensors(target, reference, target_dtype, reference_dtype,
                               {float16_arithmetic, real_part_only}, threads);
      },
      py::arg("target"), py::arg("reference"), py::kw_only(), py::arg("target_dtype") = py::none(),
      py::arg("reference_dtype") = py::none(), py::arg("float16_arithmetic") = false,
      py::arg("real_part_only") = false, py::arg("threads") = 1U);
  m.def("differing_elements", &differing_elements, py::arg("target"), py::arg("reference"), py::kw_only(),
        py::arg("target_dtype") = py::none(), py::arg("reference_dtype") = py::none(), py::arg("relative"),
        py::arg("absolute"), py::arg("most"));
  m.def("tensor_values", &tensor_values, py::arg("array"), py::kw_only(), py::arg("dtype") = py::none(),
        py::arg("first") = 0, py::arg("count") = 1);
}
