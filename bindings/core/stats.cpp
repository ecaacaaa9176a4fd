// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/stats.h"

#include "../summary.h"
#include "buffer.h"
#include "core.h"

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

}  // namespace

void register_stats(py::module_& m) {
  m.def("instruction_set", &stats::instruction_set);
  m.def("summary_fields", &summary_fields);
  m.def("summarize", &summarize, py::arg("array"), py::kw_only(), py::arg("dtype") = py::none(),
        py::arg("checksum") = "none", py::arg("bounds") = std::vector<float>(), py::arg("signs") = false,
        py::arg("sketch") = false, py::arg("powers") = false, py::arg("small") = 0.0,
        py::arg("shard") = py::none(), py::arg("threads") = 1U);
}
