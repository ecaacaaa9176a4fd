// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/result_error.h"

#include <optional>
#include <string>

#include "buffer.h"
#include "core.h"
#include "msprobe/error.h"

namespace {

namespace metrics = msprobe::metrics;
using metrics::ResultError;
using metrics::ResultOptions;

ResultError measure_result(const py::buffer& result, const py::buffer& reference,
                           const ResultOptions& options, const std::optional<py::buffer>& terms,
                           const std::optional<std::string>& result_dtype,
                           const std::optional<std::string>& reference_dtype, unsigned threads) {
  const BufferTensor d(result, "measure_result", dtype_named("measure_result", result_dtype));
  const BufferTensor b(reference, "measure_result", dtype_named("measure_result", reference_dtype));
  std::optional<BufferTensor> t;
  if (terms) t.emplace(*terms, "measure_result");
  const py::gil_scoped_release no_gil;
  msprobe::ThreadPool pool(threads);
  if (!t) return metrics::measure_result(d.view(), b.view(), options, nullptr, &pool);
  const msprobe::TensorView view = t->view();
  return metrics::measure_result(d.view(), b.view(), options, &view, &pool);
}

void register_options(py::module_& m) {
  py::class_<ResultOptions>(m, "ResultOptions", py::is_final())
      .def(py::init<>())
      .def_readwrite("epsilon", &ResultOptions::epsilon)
      .def_readwrite("small_value", &ResultOptions::small_value)
      .def_readwrite("small_error", &ResultOptions::small_error)
      .def_readwrite("relative_error", &ResultOptions::relative_error)
      .def_readwrite("ulp_limit", &ResultOptions::ulp_limit)
      .def_readwrite("ulp_min_exponent", &ResultOptions::ulp_min_exponent)
      .def_readwrite("ulp_mantissa_bits", &ResultOptions::ulp_mantissa_bits)
      .def_readwrite("ulp_zero_exponent", &ResultOptions::ulp_zero_exponent)
      .def_readwrite("bound_constant", &ResultOptions::bound_constant)
      .def_readwrite("bound_value", &ResultOptions::bound_value)
      .def_readwrite("bound_terms", &ResultOptions::bound_terms);
}

void register_result(py::module_& m) {
  py::class_<ResultError> c(m, "ResultError", py::is_final());
  const auto add = [&](const char* name, auto field) { c.def_readonly(name, field); };
  add("count", &ResultError::count);
  add("finite_pairs", &ResultError::finite_pairs);
  add("result_nan", &ResultError::result_nan);
  add("result_infinite", &ResultError::result_infinite);
  add("reference_nan", &ResultError::reference_nan);
  add("reference_infinite", &ResultError::reference_infinite);
  add("non_finite_errors", &ResultError::non_finite_errors);
  add("unequal", &ResultError::unequal);
  add("result_zeros", &ResultError::result_zeros);
  add("reference_zeros", &ResultError::reference_zeros);
  add("greater", &ResultError::greater);
  add("less", &ResultError::less);
  add("small", &ResultError::small);
  add("small_errors", &ResultError::small_errors);
  add("normal", &ResultError::normal);
  add("normal_errors", &ResultError::normal_errors);
  add("below_hundredth", &ResultError::below_hundredth);
  add("below_thousandth", &ResultError::below_thousandth);
  add("below_ten_thousandth", &ResultError::below_ten_thousandth);
  add("dot", &ResultError::dot);
  add("result_squares", &ResultError::result_squares);
  add("reference_squares", &ResultError::reference_squares);
  add("max_result", &ResultError::max_result);
  add("max_reference", &ResultError::max_reference);
  add("max_absolute", &ResultError::max_absolute);
  add("max_absolute_index", &ResultError::max_absolute_index);
  add("squared_error", &ResultError::squared_error);
  add("normal_squared_error", &ResultError::normal_squared_error);
  add("max_relative", &ResultError::max_relative);
  add("sum_relative", &ResultError::sum_relative);
  add("max_ulp", &ResultError::max_ulp);
  add("sum_ulp", &ResultError::sum_ulp);
  add("ulp_percentile_99", &ResultError::ulp_percentile_99);
  add("ulp_errors", &ResultError::ulp_errors);
  add("max_excess", &ResultError::max_excess);
  add("max_excess_index", &ResultError::max_excess_index);
  add("max_bound", &ResultError::max_bound);
}

}  // namespace

void register_result_error(py::module_& m) {
  register_options(m);
  register_result(m);
  m.def("measure_result", &measure_result, py::arg("result"), py::arg("reference"), py::arg("options"),
        py::kw_only(), py::arg("terms") = py::none(), py::arg("result_dtype") = py::none(),
        py::arg("reference_dtype") = py::none(), py::arg("threads") = 1U);
}
