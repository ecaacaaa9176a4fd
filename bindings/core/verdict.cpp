// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/verdict.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compared_pair.h"
#include "core.h"
#include "msprobe/error.h"
#include "msprobe/step_walk.h"

namespace {

namespace compare = msprobe::compare;
using compare::Finding;
using compare::KnownNoise;
using compare::StepWalk;
using compare::Verdict;

constexpr int kKinds = static_cast<int>(compare::FindingKind::kRandomness) + 1;
constexpr int kPhases = static_cast<int>(compare::Phase::kUpdate) + 1;

std::optional<double> known(double value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

template <typename Enum>
Enum checked(int value, int count) {
  if (value < 0 || value >= count) throw msprobe::InvalidArgument("a finding of unknown kind or phase");
  return static_cast<Enum>(value);
}

// ---- Walks as plain values, which another process can be sent

py::dict plain(const Finding& one) {
  py::dict result;
  result["kind"] = static_cast<int>(one.kind);
  result["phase"] = static_cast<int>(one.phase);
  result["order"] = one.order;
  result["step"] = one.step;
  result["rank"] = one.rank;
  result["name"] = one.name;
  result["module"] = one.module;
  result["operator_name"] = one.operator_name;
  result["reason"] = one.reason;
  result["target_value"] = one.target_value;
  result["reference_value"] = one.reference_value;
  result["record"] = one.record;
  result["is_of_reference"] = one.is_of_reference;
  const compare::Distance& apart = one.distance;
  result["distance"] =
      py::make_tuple(apart.value, apart.low, apart.high, apart.bias, apart.norm, apart.equal);
  result["explained"] = one.explained;
  result["strength"] = one.strength;
  result["effect"] = one.effect;
  result["exact_before"] = one.exact_before;
  result["is_hidden"] = one.is_hidden;
  result["other_kernel_excluded"] = one.other_kernel_excluded;
  return result;
}

Finding finding_of(const py::dict& from) {
  Finding one;
  one.kind = checked<compare::FindingKind>(from["kind"].cast<int>(), kKinds);
  one.phase = checked<compare::Phase>(from["phase"].cast<int>(), kPhases);
  one.order = from["order"].cast<double>();
  one.step = from["step"].cast<int>();
  one.rank = from["rank"].cast<int>();
  one.name = from["name"].cast<std::string>();
  one.module = from["module"].cast<std::string>();
  one.operator_name = from["operator_name"].cast<std::string>();
  one.reason = from["reason"].cast<std::string>();
  one.target_value = from["target_value"].cast<std::string>();
  one.reference_value = from["reference_value"].cast<std::string>();
  one.record = from["record"].cast<std::string>();
  one.is_of_reference = from["is_of_reference"].cast<bool>();
  const auto apart = from["distance"].cast<py::sequence>();
  one.distance = {.value = apart[0].cast<double>(),
                  .low = apart[1].cast<double>(),
                  .high = apart[2].cast<double>(),
                  .bias = apart[3].cast<double>(),
                  .norm = apart[4].cast<double>(),
                  .equal = apart[5].cast<bool>()};
  one.explained = from["explained"].cast<double>();
  one.strength = from["strength"].cast<double>();
  one.effect = from["effect"].cast<double>();
  one.exact_before = from["exact_before"].cast<bool>();
  one.is_hidden = from["is_hidden"].cast<bool>();
  one.other_kernel_excluded = from["other_kernel_excluded"].cast<bool>();
  return one;
}

// Of what the verdict needs; what only the next step needs is left out.
py::dict plain(const StepWalk& walk) {
  py::list findings;
  for (const Finding& one : walk.findings) findings.append(plain(one));
  py::dict result;
  result["step"] = walk.step;
  result["rank"] = walk.rank;
  result["findings"] = findings;
  result["compared"] = walk.compared;
  result["equal"] = walk.equal;
  result["differing"] = walk.differing;
  result["unseen"] = walk.unseen;
  result["largest"] = py::make_tuple(walk.largest.value, walk.largest.name);
  result["largest_gradient"] = py::make_tuple(walk.largest_gradient.value, walk.largest_gradient.name);
  result["closest"] = py::make_tuple(walk.closest.value, walk.closest.name);
  result["has_state"] = walk.has_state;
  result["gradients_agree"] = walk.gradients_agree;
  result["divided_otherwise"] = walk.divided_otherwise;
  result["stranger"] = walk.stranger;
  result["unit"] = walk.unit;
  result["last_agreeing"] = walk.last_agreeing;
  result["first_differing"] = walk.first_differing;
  return result;
}

compare::Largest largest_of(const py::object& from) {
  const auto pair = from.cast<py::sequence>();
  return {pair[0].cast<double>(), pair[1].cast<std::string>()};
}

StepWalk walk_of(const py::dict& from) {
  StepWalk walk;
  walk.step = from["step"].cast<int>();
  walk.rank = from["rank"].cast<int>();
  for (const py::handle one : from["findings"]) walk.findings.push_back(finding_of(one.cast<py::dict>()));
  walk.compared = from["compared"].cast<std::uint64_t>();
  walk.equal = from["equal"].cast<std::uint64_t>();
  walk.differing = from["differing"].cast<std::uint64_t>();
  walk.unseen = from["unseen"].cast<std::uint64_t>();
  walk.largest = largest_of(from["largest"]);
  walk.largest_gradient = largest_of(from["largest_gradient"]);
  walk.closest = largest_of(from["closest"]);
  walk.has_state = from["has_state"].cast<bool>();
  walk.gradients_agree = from["gradients_agree"].cast<bool>();
  walk.divided_otherwise = from["divided_otherwise"].cast<bool>();
  walk.stranger = from["stranger"].cast<std::string>();
  walk.unit = from["unit"].cast<double>();
  walk.last_agreeing = from["last_agreeing"].cast<std::string>();
  walk.first_differing = from["first_differing"].cast<std::string>();
  return walk;
}

Verdict judge(const std::vector<const StepWalk*>& walks,
              const std::vector<std::vector<const StepWalk*>>& noise,
              const std::map<std::string, double>& amplification) {
  const auto copies = [](const std::vector<const StepWalk*>& some) {
    std::vector<StepWalk> result;
    for (const StepWalk* one : some) result.push_back(*one);
    return result;
  };
  KnownNoise seen;
  for (const auto& run : noise) seen.add(copies(run));
  for (const auto& [record, factor] : amplification) seen.add_amplification(record, factor);
  const bool is_known = !noise.empty() || !amplification.empty();
  return compare::judge(copies(walks), is_known ? &seen : nullptr);
}

}  // namespace

void register_verdict(py::module_& m) {
  const auto pair_of = [](const compare::Largest& one) { return std::pair(one.value, one.name); };
  py::class_<Finding>(m, "Finding", py::is_final())
      .def_property_readonly("kind", [](const Finding& one) { return compare::kind_name(one.kind); })
      .def_readonly("order", &Finding::order)
      .def_readonly("step", &Finding::step)
      .def_readonly("rank", &Finding::rank)
      .def_readonly("name", &Finding::name)
      .def_readonly("module", &Finding::module)
      .def_readonly("operator", &Finding::operator_name)
      .def_readonly("reason", &Finding::reason)
      .def_readonly("target_value", &Finding::target_value)
      .def_readonly("reference_value", &Finding::reference_value)
      .def_readonly("record", &Finding::record)
      .def_readonly("is_of_reference", &Finding::is_of_reference)
      .def_property_readonly("distance", [](const Finding& one) { return one.distance.value; })
      .def_property_readonly("bias", [](const Finding& one) { return one.distance.bias; })
      .def_readonly("explained", &Finding::explained)
      .def_readonly("strength", &Finding::strength)
      .def_property_readonly("effect", [](const Finding& one) { return known(one.effect); })
      .def_readonly("exact_before", &Finding::exact_before)
      .def_readonly("is_hidden", &Finding::is_hidden)
      .def(
          "confidence", [](const Finding& one, std::size_t place) { return compare::confidence(one, place); },
          py::arg("place"));

  py::class_<StepWalk>(m, "StepWalk", py::is_final())
      .def_readonly("step", &StepWalk::step)
      .def_readonly("rank", &StepWalk::rank)
      .def_readonly("findings", &StepWalk::findings)
      .def_readonly("compared", &StepWalk::compared)
      .def_readonly("equal", &StepWalk::equal)
      .def_readonly("differing", &StepWalk::differing)
      .def_readonly("unseen", &StepWalk::unseen)
      .def_property_readonly("largest", [pair_of](const StepWalk& walk) { return pair_of(walk.largest); })
      .def_property_readonly("largest_gradient",
                             [pair_of](const StepWalk& walk) { return pair_of(walk.largest_gradient); })
      .def_property_readonly("closest", [pair_of](const StepWalk& walk) { return pair_of(walk.closest); })
      .def_readonly("has_state", &StepWalk::has_state)
      .def_readonly("unit", &StepWalk::unit)
      .def_property_readonly("all_equal", &StepWalk::all_equal)
      .def("plain", [](const StepWalk& walk) { return plain(walk); })
      .def_static("of_plain", &walk_of, py::arg("plain"));

  py::class_<Verdict>(m, "Verdict", py::is_final())
      .def_property_readonly("status",
                             [](const Verdict& verdict) { return compare::status_name(verdict.status); })
      .def_readonly("culprits", &Verdict::culprits)
      .def_readonly("notes", &Verdict::notes)
      .def_readonly("last_agreeing", &Verdict::last_agreeing)
      .def_readonly("first_differing", &Verdict::first_differing)
      .def_readonly("has_noise", &Verdict::has_noise);

  m.def("judge", &judge, py::arg("walks"), py::kw_only(),
        py::arg("noise") = std::vector<std::vector<const StepWalk*>>(),
        py::arg("amplification") = std::map<std::string, double>());
  m.def(
      "limit_of_rounding", [](double entered) { return compare::limit_of_rounding(entered); },
      py::arg("entered"));
}
