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

// (word, what it is about) of each clause.
py::list clauses(const compare::Because& because) {
  py::list result;
  for (const compare::Clause& clause : because) {
    result.append(py::make_tuple(compare::reason_word(clause.reason), clause.about));
  }
  return result;
}

compare::Reason reason_named(const std::string& word) {
  for (int i = 0; i <= static_cast<int>(compare::Reason::kMoreNotes); ++i) {
    if (compare::reason_word(static_cast<compare::Reason>(i)) == word) return static_cast<compare::Reason>(i);
  }
  throw msprobe::InvalidArgument("a finding of an unknown reason");
}

compare::Because because_of(const py::handle& from) {
  compare::Because because;
  for (const py::handle one : from) {
    const auto pair = one.cast<py::sequence>();
    because.push_back({reason_named(pair[0].cast<std::string>()), pair[1].cast<std::vector<std::string>>()});
  }
  return because;
}

// ---- as Python shows them

compare::Language language_of(const std::string& word) {
  return word == "zh" ? compare::Language::kChinese : compare::Language::kEnglish;
}

std::string said(const compare::Because& because, const std::string& language) {
  return compare::text_of(because, language_of(language));
}

py::dict shown(const compare::Explanation& sum) {
  py::list sources;
  for (const auto& one : sum.sources) {
    py::dict source;
    source["name"] = one.name;
    source["error"] = one.error;
    source["gain"] = one.gain;
    sources.append(source);
  }
  py::dict result;
  result["rule"] = sum.rule;
  result["operator"] = sum.operator_name;
  result["sources"] = sources;
  result["own"] = sum.own;
  result["tolerance"] = sum.tolerance;
  result["tolerance_of_bias"] = sum.tolerance_of_bias;
  result["tolerance_of_element"] = sum.tolerance_of_element;
  result["limit"] = sum.limit;
  return result;
}

compare::Explanation explanation_of(const py::dict& from) {
  compare::Explanation sum;
  sum.rule = from["rule"].cast<std::string>();
  sum.operator_name = from["operator"].cast<std::string>();
  for (const py::handle one : from["sources"]) {
    const auto source = one.cast<py::dict>();
    sum.sources.push_back(
        {source["name"].cast<std::string>(), source["error"].cast<double>(), source["gain"].cast<double>()});
  }
  sum.own = from["own"].cast<double>();
  sum.tolerance = from["tolerance"].cast<double>();
  sum.tolerance_of_bias = from["tolerance_of_bias"].cast<double>();
  sum.tolerance_of_element = from["tolerance_of_element"].cast<double>();
  sum.limit = from["limit"].cast<double>();
  return sum;
}

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
  result["because"] = clauses(one.because);
  result["explanation"] = shown(one.explanation);
  result["target_value"] = one.target_value;
  result["reference_value"] = one.reference_value;
  result["record"] = one.record;
  result["is_of_reference"] = one.is_of_reference;
  const compare::Distance& apart = one.distance;
  result["distance"] = py::make_tuple(apart.value, apart.low, apart.high, apart.expected, apart.bias,
                                      apart.peak, apart.norm, apart.equal);
  result["explained"] = one.explained;
  result["strength"] = one.strength;
  result["effect"] = one.effect;
  result["exact_before"] = one.exact_before;
  result["is_hidden"] = one.is_hidden;
  result["counts_later"] = one.counts_later;
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
  one.because = because_of(from["because"]);
  one.explanation = explanation_of(from["explanation"].cast<py::dict>());
  one.target_value = from["target_value"].cast<std::string>();
  one.reference_value = from["reference_value"].cast<std::string>();
  one.record = from["record"].cast<std::string>();
  one.is_of_reference = from["is_of_reference"].cast<bool>();
  const auto apart = from["distance"].cast<py::sequence>();
  one.distance = {.value = apart[0].cast<double>(),
                  .low = apart[1].cast<double>(),
                  .high = apart[2].cast<double>(),
                  .expected = apart[3].cast<double>(),
                  .bias = apart[4].cast<double>(),
                  .peak = apart[5].cast<double>(),
                  .norm = apart[6].cast<double>(),
                  .equal = apart[7].cast<bool>()};
  one.explained = from["explained"].cast<double>();
  one.strength = from["strength"].cast<double>();
  one.effect = from["effect"].cast<double>();
  one.exact_before = from["exact_before"].cast<bool>();
  one.is_hidden = from["is_hidden"].cast<bool>();
  one.counts_later = from["counts_later"].cast<bool>();
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
  result["arriving"] = walk.arriving;
  result["losses_agree"] = walk.losses_agree;
  result["divided_otherwise"] = walk.divided_otherwise;
  result["other_names"] = walk.other_names;
  result["stranger"] = clauses(walk.stranger);
  result["unit"] = walk.unit;
  result["given"] = walk.given;
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
  walk.arriving = from["arriving"].cast<double>();
  walk.losses_agree = from["losses_agree"].cast<bool>();
  walk.divided_otherwise = from["divided_otherwise"].cast<bool>();
  walk.other_names = from["other_names"].cast<std::map<std::string, std::string>>();
  walk.stranger = because_of(from["stranger"]);
  walk.unit = from["unit"].cast<double>();
  walk.given = from["given"].cast<std::map<std::string, double>>();
  walk.last_agreeing = from["last_agreeing"].cast<std::string>();
  walk.first_differing = from["first_differing"].cast<std::string>();
  return walk;
}

Verdict judge(const std::vector<const StepWalk*>& walks,
              const std::vector<std::vector<const StepWalk*>>& noise,
              const std::map<std::string, double>& amplification, const compare::ModelChanges& model) {
  KnownNoise seen;
  for (const auto& run : noise) seen.add(run);
  for (const auto& [record, factor] : amplification) seen.add_amplification(record, factor);
  const bool is_known = !noise.empty() || !amplification.empty();
  return compare::judge(walks, is_known ? &seen : nullptr, model);
}

}  // namespace

py::dict judged(const compare::Judged& one) {
  py::dict result;
  result["name"] = one.name;
  result["distance"] = one.distance.value;
  result["at_least"] = one.distance.low;
  result["bias"] = one.distance.bias;
  result["excess"] = one.excess;
  result["sum"] = shown(one.explanation);
  result["text"] = compare::sum_text(one.explanation, one.distance);
  return result;
}

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
      .def_property_readonly("reason", [](const Finding& one) { return said(one.because, "en"); })
      .def(
          "said", [](const Finding& one, const std::string& language) { return said(one.because, language); },
          py::arg("language"))
      .def(
          "plain",
          [](const Finding& one, const std::string& at, const std::string& language) {
            return compare::plain_text(one, at, language_of(language));
          },
          py::arg("at") = "", py::arg("language") = "en")
      .def_property_readonly("because", [](const Finding& one) { return clauses(one.because); })
      .def_property_readonly("sum", [](const Finding& one) { return shown(one.explanation); })
      .def(
          "sum_text",
          [](const Finding& one, const std::string& language) {
            return compare::sum_text(one.explanation, one.distance, language_of(language));
          },
          py::arg("language") = "en")
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
      .def("forget_state", &StepWalk::forget_state)
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
      .def_readonly("other_names", &StepWalk::other_names)
      .def_readonly("unit", &StepWalk::unit)
      .def("plain", [](const StepWalk& walk) { return plain(walk); })
      .def_static("of_plain", &walk_of, py::arg("plain"));

  py::class_<Verdict>(m, "Verdict", py::is_final())
      .def_property_readonly("status",
                             [](const Verdict& verdict) { return compare::status_name(verdict.status); })
      .def_readonly("culprits", &Verdict::culprits)
      .def_property_readonly("notes",
                             [](const Verdict& verdict) {
                               std::vector<std::string> notes;
                               for (const compare::Because& one : verdict.notes)
                                 notes.push_back(said(one, "en"));
                               return notes;
                             })
      .def_readonly("last_agreeing", &Verdict::last_agreeing)
      .def_readonly("first_differing", &Verdict::first_differing)
      .def_readonly("has_noise", &Verdict::has_noise);

  m.def("verdict_numbers", [] {
    py::list result;
    for (const auto& one : compare::verdict_numbers())
      result.append(py::make_tuple(one.name, one.value, one.source));
    return result;
  });
  m.def("verdict_rules", &compare::verdict_rules);
  m.def("verdict_switches", &compare::verdict_switches);
  m.def("opaque_limit", [](double entered) { return compare::opaque_limit(entered); }, py::arg("entered"));
  m.def(
      "suspects_of_nodes",
      [](const std::vector<
          std::tuple<std::int64_t, std::int64_t, std::int64_t, double, double, double, double>>& rows) {
        std::vector<compare::NodeDistances> nodes;
        for (const auto& [place, first, parent, inputs, weights, gradients, outputs] : rows) {
          nodes.push_back({place, first, parent, inputs, weights, gradients, outputs});
        }
        py::list result;
        for (const compare::SuspectNode& one : compare::suspects_of_nodes(nodes)) {
          result.append(py::make_tuple(one.place, one.kind, one.value, one.before));
        }
        return result;
      },
      py::arg("nodes"));
  m.def("judge", &judge, py::arg("walks"), py::kw_only(),
        py::arg("noise") = std::vector<std::vector<const StepWalk*>>(),
        py::arg("amplification") = std::map<std::string, double>(),
        py::arg("model") = compare::ModelChanges(),
        py::call_guard<py::gil_scoped_release>());  // who waits for it is told so, by another thread
}
