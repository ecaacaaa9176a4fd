// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/operators.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core.h"

namespace {

namespace operators = msprobe::operators;

double term_count(const operators::Row& row, const std::vector<std::vector<std::int64_t>>& shapes,
                  double result, std::optional<std::int64_t> number, std::vector<std::int64_t> numbers) {
  return operators::term_count(row, {shapes, result, number, std::move(numbers)});
}

}  // namespace

void register_operators(py::module_& m) {
  py::class_<operators::Row>(m, "Operator")
      .def_readonly("name", &operators::Row::name)
      .def_property_readonly("is_known", &operators::Row::is_known)
      .def_property_readonly("gain", [](const operators::Row& row) { return operators::gain_name(row.gain); })
      .def_property_readonly(
          "condition", [](const operators::Row& row) { return operators::condition_name(row.condition); })
      .def_readonly("has_kink", &operators::Row::has_kink)
      .def_readonly("sums_products", &operators::Row::sums_products)
      .def_readonly("rounds_between", &operators::Row::rounds_between)
      .def_readonly("adds_first", &operators::Row::adds_first)
      .def_readonly("is_transformed", &operators::Row::is_transformed)
      .def_readonly("fills", &operators::Row::fills)
      .def_readonly("overwrites", &operators::Row::overwrites)
      .def_readonly("writes", &operators::Row::writes)
      .def_readonly("updates", &operators::Row::updates)
      .def_readonly("is_uninitialised", &operators::Row::is_uninitialised)
      .def_readonly("is_nondeterministic", &operators::Row::is_nondeterministic)
      .def_readonly("is_in_place", &operators::Row::is_in_place)
      .def_readonly("inplace_position", &operators::Row::inplace_position)
      .def_readonly("terms_argument", &operators::Row::terms_argument)
      .def_readonly("terms_position", &operators::Row::terms_position)
      .def("term_count", &term_count, py::arg("shapes"), py::arg("result"), py::arg("number") = py::none(),
           py::arg("numbers") = std::vector<std::int64_t>());
  m.def("find_operator", &operators::find, py::arg("function"));
  m.def("operator_names", [] {
    const auto names = operators::names();
    return std::vector<std::string_view>(names.begin(), names.end());
  });
  m.def("operator_problems", &operators::problems);
}
