// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/compare.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compared_pair.h"
#include "core.h"
#include "mode_name.h"
#include "msprobe/error.h"
#include "msprobe/step_walk.h"
#include "msprobe/verdict.h"
#include "progress.h"

namespace {

namespace compare = msprobe::compare;

using Names = std::map<std::string, std::string>;

std::unique_ptr<ComparedPair> open_pair(const std::filesystem::path& target,
                                        const std::filesystem::path& reference, bool fuzzy,
                                        const Names& data_mapping,
                                        const std::optional<std::filesystem::path>& stack_path,
                                        unsigned threads) {
  compare::PairOptions options;
  options.fuzzy = fuzzy;
  options.data_mapping.insert(data_mapping.begin(), data_mapping.end());
  options.stack_path = stack_path.value_or(std::filesystem::path());
  options.threads = threads;
  const py::gil_scoped_release no_gil;
  return std::make_unique<ComparedPair>(ComparedPair{compare::open_pair(target, reference, options), {}, {}});
}

void measure(ComparedPair& self, unsigned threads, const std::optional<py::function>& progress) {
  constexpr std::size_t kRowsPerReport = 64;
  self.metrics = run_with_progress(progress, [&](const Report& report) {
    return compare::measure_real_data(self.pair, threads, [&](std::size_t done, std::size_t total) {
      return done % kRowsPerReport != 0 || report(done, total);
    });
  });
}

std::vector<std::string> frames(const ComparedPair& self, const std::string& record) {
  if (!self.pair.stacks) return {};
  const auto found = self.pair.stacks->frames(record);
  return {found.begin(), found.end()};
}

}  // namespace

void register_compare(py::module_& m) {
  const auto released = py::call_guard<py::gil_scoped_release>();
  using compare::TableSummary;

  py::class_<TableSummary>(m, "TableSummary", py::is_final())
      .def_readonly("rows", &TableSummary::rows)
      .def_readonly("matched", &TableSummary::matched)
      .def_readonly("aligned", &TableSummary::aligned)
      .def_readonly("failing", &TableSummary::failing)
      .def_readonly("red", &TableSummary::red)
      .def_readonly("yellow", &TableSummary::yellow)
      .def_readonly("reference_only", &TableSummary::reference_only)
      .def_readonly("first_failing", &TableSummary::first_failing)
      .def_readonly("first_failing_name", &TableSummary::first_failing_name)
      .def_property_readonly("advice", &compare::advice);

  py::class_<ComparedPair>(m, "DumpPair", py::is_final())
      .def_property_readonly("mode", [](const ComparedPair& self) { return mode_name(self.pair.mode); })
      .def_property_readonly("row_count",
                             [](const ComparedPair& self) { return self.pair.matches.pairs.size(); })
      .def_property_readonly("reference_only_count",
                             [](const ComparedPair& self) { return self.pair.matches.reference_only.size(); })
      .def_property_readonly("is_debug", [](const ComparedPair& self) { return self.pair.is_debug(); })
      .def("measure", &measure, py::kw_only(), py::arg("threads") = 0, py::arg("progress") = py::none())
      .def(
          "write_table",
          [](const ComparedPair& self, const std::filesystem::path& path, unsigned threads) {
            return compare::write_table(self.pair, self.metrics, {.path = path, .threads = threads});
          },
          py::arg("path"), py::kw_only(), py::arg("threads") = 0, released)
      .def(
          "summarize",
          [](const ComparedPair& self, unsigned threads) {
            return compare::summarize(self.pair, self.metrics, threads);
          },
          py::kw_only(), py::arg("threads") = 0, released)
      .def(
          "walk",
          [](ComparedPair& self, int step, int rank, const compare::StepWalk* before, unsigned threads,
             std::optional<py::list> places, const compare::ModelChanges& model) {
            std::vector<compare::Judged> seen;
            std::function<void(const compare::Judged&)> observer;
            if (places) observer = [&](const compare::Judged& one) { seen.push_back(one); };
            compare::StepWalk walk;
            {
              const py::gil_scoped_release no_gil;
              if (self.distances.empty())
                self.distances = compare::distances(self.pair, self.metrics, threads);
              walk = compare::walk_step(self.pair, self.metrics, self.distances, step, rank, before, observer,
                                        model);
            }
            for (const compare::Judged& one : seen) places->append(judged(one));
            return walk;
          },
          py::kw_only(), py::arg("step"), py::arg("rank"), py::arg("before") = nullptr,
          py::arg("threads") = 0, py::arg("places") = py::none(), py::arg("model") = compare::ModelChanges())
      .def("frames", &frames, py::arg("record"));

  m.def(
      "default_stack_path",
      [](const std::filesystem::path& dump) {
        const std::filesystem::path path = compare::default_stack_path(dump);
        return path.empty() ? std::nullopt : std::optional(path);
      },
      py::arg("dump"));
  m.def(
      "stack_frames",
      [](const std::filesystem::path& stacks, const std::string& record) {
        const auto read = msprobe::trace::read_stacks(stacks);
        const auto found = read.frames(record);
        return std::vector<std::string>(found.begin(), found.end());
      },
      py::arg("stacks"), py::arg("record"), released);
  m.def("open_dump_pair", &open_pair, py::arg("target"), py::arg("reference"), py::kw_only(),
        py::arg("fuzzy") = false, py::arg("data_mapping") = Names(), py::arg("stack_path") = py::none(),
        py::arg("threads") = 0);
}
