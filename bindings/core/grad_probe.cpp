// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/grad_probe.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../grad_probe_options.h"
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

// Parameters of which only one side has signs in the common steps: those of the first, those of the second.
std::pair<std::vector<std::string>, std::vector<std::string>> names_alone(const Comparison& comparison) {
  std::pair<std::vector<std::string>, std::vector<std::string>> alone;
  for (std::size_t name = 0; name < comparison.names.size(); ++name) {
    bool in_first = false;
    bool in_second = false;
    for (std::size_t step = 0; step < comparison.steps.size(); ++step) {
      in_first |= comparison.at(name, step).in_first;
      in_second |= comparison.at(name, step).in_second;
    }
    if (in_first != in_second) (in_first ? alone.first : alone.second).push_back(comparison.names[name]);
  }
  return alone;
}

// What comparisons of other ranks found.
struct GradAgreements {
  std::shared_ptr<grad_probe::Agreements> agreements = grad_probe::make_agreements();
};

Comparison compare_ranks(const std::filesystem::path& rank_dir1, const std::filesystem::path& rank_dir2,
                         unsigned threads, std::int64_t offset, const GradAgreements* known,
                         const std::optional<py::function>& progress) {
  return run_with_progress(progress, [&](const Report& report) {
    return grad_probe::compare(rank_dir1, rank_dir2,
                               {.threads = threads,
                                .offset = offset,
                                .agreements = known == nullptr ? nullptr : known->agreements,
                                .progress = report});
  });
}

std::size_t convert_gradients(const std::filesystem::path& rank_dir, std::filesystem::path dump_path,
                              int rank, const std::string& layout, bool tells) {
  grad_probe::Options options;
  options.dump_path = std::move(dump_path);
  options.rank = rank;
  options.layout = grad_layout(layout);
  const py::gil_scoped_release no_gil;
  return grad_probe::convert(rank_dir, options, tells);
}

}  // namespace

void register_grad_probe(py::module_& m) {
  const auto released = py::call_guard<py::gil_scoped_release>();

  m.def(
      "direction_file_name", [](const std::string& name) { return grad_probe::direction_file_name(name); },
      py::arg("name"));
  m.def("matched_ranks", &grad_probe::matched_ranks, py::arg("path1"), py::arg("path2"), released);
  m.def("is_empty_record", &grad_probe::is_empty_record, py::arg("rank_dir"), released);

  py::class_<grad_probe::Finding>(m, "GradFinding", py::is_final())
      .def_property_readonly("kind", [](const grad_probe::Finding& f) { return kind_name(f.kind); })
      .def_readonly("name", &grad_probe::Finding::name)
      .def_readonly("step", &grad_probe::Finding::step)
      .def_readonly("similarity", &grad_probe::Finding::similarity)
      .def_readonly("previous", &grad_probe::Finding::previous)
      .def_property_readonly("reason", [](const grad_probe::Finding& f) { return readable_text(f.reason); });

  py::class_<Comparison>(m, "Comparison", py::is_final())
      .def_readonly("steps", &Comparison::steps)
      .def_readonly("steps_of_first", &Comparison::steps_of_first)
      .def_readonly("steps_of_second", &Comparison::steps_of_second)
      .def_readonly("names", &Comparison::names)
      .def_property_readonly("values", &similarity_values)
      .def_property_readonly("counts", &counts)
      .def_property_readonly("summary", &summary)
      .def_property_readonly("problems", &problems)
      .def_property_readonly("names_alone", &names_alone)
      .def(
          "judge",
          [](const Comparison& comparison, double first_step_least, double largest_drop) {
            return grad_probe::judge(comparison, {first_step_least, largest_drop});
          },
          py::arg("first_step_least") = grad_probe::Rule{}.first_step_least,
          py::arg("largest_drop") = grad_probe::Rule{}.largest_drop)
      .def("write_similarities", &grad_probe::write_similarities, py::arg("path"), released);

  py::class_<GradAgreements>(m, "GradAgreements", py::is_final()).def(py::init<>());

  m.def("compare", &compare_ranks, py::arg("rank_dir1"), py::arg("rank_dir2"), py::kw_only(),
        py::arg("threads") = 0, py::arg("offset") = 0, py::arg("known") = py::none(),
        py::arg("progress") = py::none());
  m.def("has_gradients", &grad_probe::has_gradients, py::arg("rank_dir"), released);
  m.def("convert_gradients", &convert_gradients, py::arg("rank_dir"), py::arg("dump_path"), py::arg("rank"),
        py::arg("layout"), py::kw_only(), py::arg("tells") = true);
}
