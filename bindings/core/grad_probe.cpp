// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/grad_probe.h"

#include <algorithm>
#include <optional>

#include "core.h"
#include "decoded.h"
#include "progress.h"

namespace {

namespace grad_probe = msprobe::grad_probe;
using grad_probe::Comparison;
using grad_probe::Similarity;

const char* kind_name(grad_probe::Finding::Kind kind) {
  switch (kind) {
    case grad_probe::Finding::Kind::kLowAtFirstStep: return "low_at_first_step";
    case grad_probe::Finding::Kind::kDrop: return "drop";
    case grad_probe::Finding::Kind::kMissing: return "missing";
  }
  throw msprobe::InternalError("a finding of unknown kind");
}

// One list per parameter, NaN where nothing was compared.
std::vector<std::vector<double>> similarity_values(const Comparison& comparison) {
  std::vector<std::vector<double>> result(comparison.names.size());
  for (std::size_t name = 0; name < result.size(); ++name) {
    for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
      result[name].push_back(comparison.at(name, step).value());
    }
  }
  return result;
}

// Elements of each parameter; 0 for one that was never compared.
std::vector<std::int64_t> counts(const Comparison& comparison) {
  std::vector<std::int64_t> result(comparison.names.size(), 0);
  for (std::size_t name = 0; name < result.size(); ++name) {
    for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
      result[name] = std::max(result[name], comparison.at(name, step).count);
    }
  }
  return result;
}

std::vector<double> summary(const Comparison& comparison) {
  std::vector<double> result;
  for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
    result.push_back(comparison.summary(step).value());
  }
  return result;
}

py::list problems(const Comparison& comparison) {
  py::list result;
  for (std::size_t name = 0; name < comparison.names.size(); ++name) {
    for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
      const Similarity& cell = comparison.at(name, step);
      if (cell.state != Similarity::State::kMissing) continue;
      result.append(
          py::make_tuple(comparison.names[name], comparison.steps[step], readable_text(cell.problem)));
    }
  }
  return result;
}

Comparison compare_ranks(const std::filesystem::path& rank_dir1, const std::filesystem::path& rank_dir2,
                         unsigned threads, std::int64_t offset, const std::optional<py::function>& progress) {
  return run_with_progress(progress, [&](const Report& report) {
    return grad_probe::compare(rank_dir1, rank_dir2,
                               {.threads = threads, .offset = offset, .progress = report});
  });
}

}  // namespace

void register_grad_probe(py::module_& m) {
  const auto released = py::call_guard<py::gil_scoped_release>();

  m.def(
      "direction_file_name", [](const std::string& name) { return grad_probe::direction_file_name(name); },
      py::arg("name"));
  m.def("matched_ranks", &grad_probe::matched_ranks, py::arg("path1"), py::arg("path2"), released);

  py::class_<grad_probe::Finding>(m, "GradFinding", py::is_final())
      .def_property_readonly("kind", [](const grad_probe::Finding& f) { return kind_name(f.kind); })
      .def_readonly("name", &grad_probe::Finding::name)
      .def_readonly("step", &grad_probe::Finding::step)
      .def_readonly("similarity", &grad_probe::Finding::similarity)
      .def_readonly("previous", &grad_probe::Finding::previous)
      .def_property_readonly("reason", [](const grad_probe::Finding& f) { return readable_text(f.reason); });

  py::class_<Comparison>(m, "Comparison", py::is_final())
      .def_readonly("steps", &Comparison::steps)
      .def_readonly("names", &Comparison::names)
      .def_property_readonly("values", &similarity_values)
      .def_property_readonly("counts", &counts)
      .def_property_readonly("summary", &summary)
      .def_property_readonly("problems", &problems)
      .def(
          "judge",
          [](const Comparison& comparison, double first_step_least, double largest_drop) {
            return grad_probe::judge(comparison, {first_step_least, largest_drop});
          },
          py::arg("first_step_least") = grad_probe::Rule{}.first_step_least,
          py::arg("largest_drop") = grad_probe::Rule{}.largest_drop)
      .def("write_similarities", &grad_probe::write_similarities, py::arg("path"), released);

  m.def("compare", &compare_ranks, py::arg("rank_dir1"), py::arg("rank_dir2"), py::kw_only(),
        py::arg("threads") = 0, py::arg("offset") = 0, py::arg("progress") = py::none());
}
