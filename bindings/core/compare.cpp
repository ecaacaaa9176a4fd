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
#include "msprobe/compare_walk.h"
#include "msprobe/error.h"
#include "progress.h"

namespace {

namespace compare = msprobe::compare;

using Names = std::map<std::string, std::string>;

const char* kind_name(compare::EventKind kind) {
  switch (kind) {
    case compare::EventKind::kOutput: return "output";
    case compare::EventKind::kArgument: return "argument";
    case compare::EventKind::kInput: return "input";
    case compare::EventKind::kExtra: return "extra";
    case compare::EventKind::kMissing: return "missing";
    case compare::EventKind::kGradient: return "gradient";
  }
  throw msprobe::InternalError("an event of unknown kind");
}

std::unique_ptr<ComparedPair> open_pair(const std::filesystem::path& left, const std::filesystem::path& right,
                                        bool fuzzy, const Names& data_mapping,
                                        const std::optional<std::filesystem::path>& stack_path,
                                        unsigned threads) {
  compare::PairOptions options;
  options.fuzzy = fuzzy;
  options.data_mapping.insert(data_mapping.begin(), data_mapping.end());
  options.stack_path = stack_path.value_or(std::filesystem::path());
  options.threads = threads;
  const py::gil_scoped_release no_gil;
  return std::make_unique<ComparedPair>(ComparedPair{compare::open_pair(left, right, options), {}, {}});
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
  using compare::Event;
  using compare::TableSummary;
  using compare::Walk;

  py::class_<Event>(m, "CompareEvent", py::is_final())
      .def_property_readonly("kind", [](const Event& event) { return kind_name(event.kind); })
      .def_readonly("is_backward", &Event::is_backward)
      .def_readonly("order", &Event::order)
      .def_readonly("name", &Event::name)
      .def_readonly("item", &Event::item)
      .def_readonly("module", &Event::module)
      .def_readonly("parameter", &Event::parameter)
      .def_readonly("left_text", &Event::left_text)
      .def_readonly("right_text", &Event::right_text)
      .def_readonly("ulps_in", &Event::in)
      .def_readonly("ulps_out", &Event::out)
      .def_readonly("in_is_equal", &Event::in_is_equal)
      .def_readonly("equal_before", &Event::equal_before)
      .def_readonly("reduction", &Event::reduction)
      .def_readonly("effect", &Event::effect);

  py::class_<Walk>(m, "CompareWalk", py::is_final())
      .def_readonly("events", &Walk::events)
      .def_readonly("compared", &Walk::compared)
      .def_readonly("equal", &Walk::equal)
      .def_readonly("median", &Walk::median)
      .def_readonly("largest", &Walk::largest)
      .def_property_readonly("updated",
                             [](const Walk& walk) {
                               std::vector<std::tuple<double, double, double>> updated;
                               for (const compare::UpdatedTensor& one : walk.updated) {
                                 updated.emplace_back(one.min, one.max, one.ulps);
                               }
                               return updated;
                             })
      .def_property_readonly("modules", [](const Walk& walk) {
        std::vector<std::pair<std::string, double>> modules;
        for (const compare::ModuleDifference& one : walk.modules) modules.emplace_back(one.name, one.out);
        return modules;
      });

  py::class_<TableSummary>(m, "TableSummary", py::is_final())
      .def_readonly("rows", &TableSummary::rows)
      .def_readonly("matched", &TableSummary::matched)
      .def_readonly("aligned", &TableSummary::aligned)
      .def_readonly("failing", &TableSummary::failing)
      .def_readonly("red", &TableSummary::red)
      .def_readonly("yellow", &TableSummary::yellow)
      .def_readonly("right_only", &TableSummary::right_only)
      .def_readonly("first_failing", &TableSummary::first_failing)
      .def_readonly("first_failing_name", &TableSummary::first_failing_name)
      .def_property_readonly("advice", &compare::advice);

  py::class_<ComparedPair>(m, "DumpPair", py::is_final())
      .def_property_readonly("mode", [](const ComparedPair& self) { return mode_name(self.pair.mode); })
      .def_property_readonly("row_count",
                             [](const ComparedPair& self) { return self.pair.matches.pairs.size(); })
      .def_property_readonly("right_only_count",
                             [](const ComparedPair& self) { return self.pair.matches.right_only.size(); })
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
          [](ComparedPair& self, unsigned threads) {
            self.distances = compare::distances(self.pair, self.metrics, threads);
            return compare::walk(self.pair, self.metrics, self.distances);
          },
          py::kw_only(), py::arg("threads") = 0, released)
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
  m.def("open_dump_pair", &open_pair, py::arg("left"), py::arg("right"), py::kw_only(),
        py::arg("fuzzy") = false, py::arg("data_mapping") = Names(), py::arg("stack_path") = py::none(),
        py::arg("threads") = 0);
}
