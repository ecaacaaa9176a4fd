// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/rl.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "buffer.h"
#include "core.h"
#include "msprobe/error.h"
#include "progress.h"

namespace {

namespace rl = msprobe::rl;
using msprobe::DType;

using Tensors = std::vector<std::tuple<std::string, py::buffer, std::optional<std::string>>>;

void save(const rl::Writer& self, const std::string& key, std::int64_t step, int rank,
          std::optional<std::int64_t> micro_step, const std::string& form, const Tensors& tensors) {
  static const std::map<std::string, rl::Value::Form> forms{{"tensor", rl::Value::Form::kTensor},
                                                            {"list", rl::Value::Form::kList},
                                                            {"dict", rl::Value::Form::kDict}};
  const auto found = forms.find(form);
  if (found == forms.end() || (form == "tensor" && tensors.size() != 1)) {
    throw msprobe::InvalidArgument("save: expected one tensor, a list or a dict, found " + form);
  }
  std::vector<BufferTensor> buffers;
  buffers.reserve(tensors.size());
  std::vector<rl::NamedTensor> named;
  for (const auto& [name, buffer, dtype] : tensors) {
    buffers.emplace_back(buffer, "save", dtype_named("save", dtype));
    named.push_back({name, buffers.back().view()});
  }
  const py::gil_scoped_release no_gil;
  self.save({key, step, rank, micro_step, found->second, named});
}

// ---- comparing

py::tuple place_of(const rl::Place& place) {
  return py::make_tuple(place.step, place.rank, place.micro_step, place.entry);
}

std::vector<py::tuple> places_of(const std::vector<rl::Place>& places) {
  std::vector<py::tuple> result;
  for (const rl::Place& place : places) result.push_back(place_of(place));
  return result;
}

py::object token_of(const std::optional<rl::TokenDifference>& token) {
  if (!token) return py::none();
  py::dict result;
  result["place"] = place_of(token->place);
  result["sample"] = token->sample;
  result["token"] = token->token;
  result["reference"] = token->reference;
  result["target"] = token->target;
  return result;
}

py::dict dict_of(const rl::LogProbComparison& found) {
  py::dict result;
  result["tokens"] = found.tokens;
  result["beyond"] = found.beyond;
  result["not_finite"] = found.not_finite;
  result["masked"] = found.masked;
  result["sum_absolute"] = found.sum_absolute;
  result["max_absolute"] = found.max_absolute;
  result["sum_k1"] = found.sum_k1;
  result["sum_k3"] = found.sum_k3;
  result["sum_ratio"] = found.sum_ratio;
  result["sum_squared_ratio"] = found.sum_squared_ratio;
  result["sum_probability_difference"] = found.sum_probability_difference;
  result["max_probability_difference"] = found.max_probability_difference;
  result["sum_reference"] = found.sum_reference;
  result["sum_target"] = found.sum_target;
  result["sum_reference_squared"] = found.sum_reference_squared;
  result["sum_target_squared"] = found.sum_target_squared;
  result["sum_reference_target"] = found.sum_reference_target;
  result["ratio_counts"] = found.ratio_counts;
  result["first"] = token_of(found.first);
  result["worst"] = token_of(found.worst);
  result["arrays"] = found.arrays;
  result["reference_only"] = found.reference_only;
  result["target_only"] = found.target_only;
  result["problems"] = found.problems;
  return result;
}

void register_row(py::module_& m) {
  using Row = rl::Row;
  const auto of = [](auto rl::Difference::* field) {
    return [field](const Row& self) { return self.difference.*field; };
  };
  const auto dtype = [](DType Row::* field) {
    return [field](const Row& self) { return std::string(msprobe::dtype_name(self.*field)); };
  };
  py::class_<Row>(m, "RlRow", py::is_final())
      .def_property_readonly("place", [](const Row& self) { return place_of(self.place); })
      .def_readonly("reference_shape", &Row::reference_shape)
      .def_readonly("target_shape", &Row::target_shape)
      .def_readonly("compared", &Row::compared)
      .def_property_readonly("reference_dtype", dtype(&Row::reference_dtype))
      .def_property_readonly("target_dtype", dtype(&Row::target_dtype))
      .def_property_readonly("count", of(&rl::Difference::count))
      .def_property_readonly("same", of(&rl::Difference::same))
      .def_property_readonly("within_thousandth", of(&rl::Difference::within_thousandth))
      .def_property_readonly("within_hundredth", of(&rl::Difference::within_hundredth))
      .def_property_readonly("within_tolerance", of(&rl::Difference::within_tolerance))
      .def_property_readonly("max_absolute", of(&rl::Difference::max_absolute))
      .def_property_readonly("max_relative", of(&rl::Difference::max_relative))
      .def_property_readonly("first_mismatch", of(&rl::Difference::first_mismatch))
      .def_property_readonly("first_beyond", of(&rl::Difference::first_beyond))
      .def_readonly("reference_value", &Row::reference_value)
      .def_readonly("target_value", &Row::target_value)
      .def_readonly("problem", &Row::problem);
}

}  // namespace

void register_rl(py::module_& m) {
  const auto released = py::call_guard<py::gil_scoped_release>();

  py::class_<rl::Writer, std::unique_ptr<rl::Writer>>(m, "RlWriter", py::is_final())
      .def(py::init<std::filesystem::path>(), py::arg("dump_path"))
      .def("save", &save, py::arg("key"), py::arg("step"), py::arg("rank"), py::arg("micro_step"),
           py::arg("form"), py::arg("tensors"));

  register_row(m);
  py::class_<rl::KeyComparison>(m, "RlKeyComparison", py::is_final())
      .def_property_readonly(
          "rows",
          [](const py::object& self) {
            py::list rows;
            for (const rl::Row& row : self.cast<const rl::KeyComparison&>().rows) {
              rows.append(py::cast(row, py::return_value_policy::reference_internal, self));
            }
            return rows;
          })
      .def_property_readonly("reference_only",
                             [](const rl::KeyComparison& self) { return places_of(self.reference_only); })
      .def_property_readonly("target_only",
                             [](const rl::KeyComparison& self) { return places_of(self.target_only); })
      .def(
          "write_table",
          [](const rl::KeyComparison& self, const std::filesystem::path& path) {
            rl::write_table(path, self);
          },
          py::arg("path"), released);

  m.attr("RL_RATIO_BOUNDS") = py::tuple(py::cast(rl::kRatioBounds));
  m.def("rl_keys", &rl::keys, py::arg("record"), released);
  m.def(
      "rl_arrays",
      [](const std::filesystem::path& record, const std::string& key) {
        std::vector<rl::SavedArray> found;
        {
          const py::gil_scoped_release no_gil;
          found = rl::arrays(record, key);
        }
        py::list result;
        for (const rl::SavedArray& one : found) result.append(py::make_tuple(place_of(one.place), one.file));
        return result;
      },
      py::arg("record"), py::arg("key"));
  m.def(
      "compare_rl_key",
      [](const std::filesystem::path& reference, const std::filesystem::path& target, const std::string& key,
         double relative_tolerance, double absolute_tolerance, unsigned threads,
         const std::optional<py::function>& progress) {
        return run_with_progress(progress, [&](const Report& report) {
          return rl::compare_key(reference, target, key,
                                 {{relative_tolerance, absolute_tolerance}, threads, progress_of(report)});
        });
      },
      py::arg("reference"), py::arg("target"), py::arg("key"), py::kw_only(),
      py::arg("relative_tolerance") = rl::Tolerance().relative,
      py::arg("absolute_tolerance") = rl::Tolerance().absolute, py::arg("threads") = 0U,
      py::arg("progress") = py::none());
  m.def(
      "compare_log_probs",
      [](const std::filesystem::path& reference, const std::filesystem::path& target,
         const std::string& reference_key, const std::string& target_key, double tolerance,
         const std::string& mask_key, unsigned threads, const std::optional<py::function>& progress) {
        const rl::LogProbComparison found = run_with_progress(progress, [&](const Report& report) {
          return rl::compare_log_probs(reference, target, reference_key, target_key,
                                       {tolerance, mask_key, threads, progress_of(report)});
        });
        return dict_of(found);
      },
      py::arg("reference"), py::arg("target"), py::arg("reference_key"), py::arg("target_key"), py::kw_only(),
      py::arg("tolerance") = 0.1, py::arg("mask_key") = "", py::arg("threads") = 0U,
      py::arg("progress") = py::none());
}
