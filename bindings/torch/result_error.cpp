// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "result_error.h"

#include <torch/csrc/utils/pybind.h>

#include <optional>

#include "measured_tensors.h"
#include "msprobe/result_error.h"
#include "msprobe/torch.h"

namespace py = pybind11;

namespace {

namespace metrics = msprobe::metrics;

constexpr std::int64_t kElementsForThreads = 1 << 17;  // fewer are done before threads would have begun

metrics::ResultError measure_result(const at::Tensor& result, const at::Tensor& reference,
                                    const metrics::ResultOptions& options,
                                    const std::optional<at::Tensor>& terms, unsigned threads) {
  const msprobe::TensorView d = msprobe::torch_adapter::view_of(result);
  const msprobe::TensorView b = msprobe::torch_adapter::view_of(reference);
  std::optional<msprobe::TensorView> t;
  if (terms) t = msprobe::torch_adapter::view_of(*terms);
  const msprobe::TensorView* const of_terms = t ? &*t : nullptr;
  if (result.numel() < kElementsWithoutGil) return metrics::measure_result(d, b, options, of_terms);
  const py::gil_scoped_release no_gil;
  msprobe::ThreadPool pool(result.numel() < kElementsForThreads ? 1 : threads);
  return metrics::measure_result(d, b, options, of_terms, &pool);
}

}  // namespace

void register_result_error(py::module_& m) {
  m.def("measure_result", &measure_result, py::arg("result"), py::arg("reference"), py::arg("options"),
        py::kw_only(), py::arg("terms") = py::none(), py::arg("threads") = 1U);
}
