// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/checkpoint.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core.h"
#include "host_tensor.h"
#include "msprobe/error.h"
#include "progress.h"

namespace {

namespace checkpoint = msprobe::checkpoint;

using checkpoint::Checkpoint;
using Renamings = std::vector<std::tuple<std::string, std::string, std::string>>;
using Merges = std::vector<std::pair<std::vector<std::string>, std::string>>;
using MappingRules = std::vector<std::tuple<std::string, std::vector<std::string>, std::string, bool, int>>;

template <typename T>
T named(const std::map<std::string, T>& values, const std::string& name, const std::string& what) {
  const auto found = values.find(name);
  if (found != values.end()) return found->second;
  std::string known;
  for (const auto& [one, _] : values) known += (known.empty() ? "" : ", ") + one;
  throw msprobe::InvalidArgument(what + ": expected one of " + known + ", found \"" + name + '"');
}

checkpoint::Rules rules_of(const Renamings& renamings, const Merges& merges,
                           const std::vector<std::string>& vocabulary,
                           const std::vector<std::string>& ignored) {
  using How = checkpoint::MergeRule::How;
  static const std::map<std::string, How> ways{{"rows", How::kRows},   {"columns", How::kColumns},
                                               {"gated", How::kGated}, {"sections", How::kSections},
                                               {"same", How::kSame},   {"unknown", How::kUnknown}};
  checkpoint::Rules rules;
  for (const auto& [from, to, unless_present] : renamings)
    rules.renamings.push_back({from, to, unless_present});
  for (const auto& [patterns, how] : merges)
    rules.merges.push_back({patterns, named(ways, how, "merge rule")});
  rules.vocabulary = vocabulary;
  rules.ignored = ignored;
  return rules;
}

const char* kind_name(checkpoint::Kind kind) {
  switch (kind) {
    case checkpoint::Kind::kFile: return "file";
    case checkpoint::Kind::kMegatron: return "megatron";
    case checkpoint::Kind::kDistributed: return "distributed";
    case checkpoint::Kind::kSafetensors: return "safetensors";
    case checkpoint::Kind::kBinFiles: return "bin_files";
    case checkpoint::Kind::kMindSpore: return "mindspore";
  }
  throw msprobe::InternalError("a checkpoint of unknown kind");
}

py::list parameter_list(const Checkpoint& self) {
  py::list result;
  for (const checkpoint::Parameter& one : self.parameters()) {
    result.append(py::make_tuple(one.name, std::string(msprobe::dtype_name(one.dtype)), one.shape));
  }
  return result;
}

// A parameter as one tensor; it keeps what it lies in alive.
HostTensor tensor(const std::shared_ptr<Checkpoint>& self, const std::string& name) {
  const py::gil_scoped_release no_gil;
  for (const checkpoint::Parameter& parameter : self->parameters()) {
    if (parameter.name != name) continue;
    struct Owner {
      std::shared_ptr<Checkpoint> checkpoint;
      checkpoint::Elements elements;
    };
    auto owner = std::make_shared<Owner>(Owner{self, checkpoint::elements_of(parameter)});
    const void* const data = owner->elements.data;
    return {std::move(owner), data, parameter.dtype, parameter.shape, {}};
  }
  throw msprobe::InvalidArgument(self->layout().folder.string() + ": there is no parameter " + name);
}

std::size_t apply_mapping(Checkpoint& self, const MappingRules& rules, const Checkpoint* other) {
  using Join = checkpoint::MappingRule::Join;
  static const std::map<std::string, Join> joins{
      {"rows", Join::kRows}, {"columns", Join::kColumns}, {"qkv", Join::kQkv}};
  std::vector<checkpoint::MappingRule> all;
  for (const auto& [to, from, join, transpose, parts] : rules) {
    all.push_back({to, from, named(joins, join, "mapping: join"), transpose, parts});
  }
  return checkpoint::apply_mapping(self, all,
                                   other == nullptr ? checkpoint::AttentionSizes() : other->attention());
}

template <typename T>
std::vector<std::string> names_of(const T& indices, const Checkpoint& side) {
  std::vector<std::string> names;
  for (const std::size_t i : indices) names.push_back(side.parameters()[i].name);
  return names;
}

py::dict side_of(const checkpoint::Side& side) {
  py::dict result;
  result["sum"] = side.sum;
  result["squares"] = side.squares;
  result["nan_count"] = side.nan_count;
  result["inf_count"] = side.inf_count;
  return result;
}

py::dict row_of(const checkpoint::Row& row, const Checkpoint& reference, const Checkpoint& target) {
  const checkpoint::Parameter& l = reference.parameters()[row.reference];
  const checkpoint::Parameter& r = target.parameters()[row.target];
  const checkpoint::Difference& found = row.difference;
  py::dict result;
  result["name"] = row.name;
  result["reference_name"] = l.name;
  result["target_name"] = r.name;
  result["shapes"] = py::make_tuple(l.shape, r.shape);
  result["dtypes"] =
      py::make_tuple(std::string(msprobe::dtype_name(l.dtype)), std::string(msprobe::dtype_name(r.dtype)));
  result["comparable"] = row.comparable;
  result["rows"] = row.rows;
  result["count"] = found.count;
  result["finite_pairs"] = found.finite_pairs;
  result["both_non_finite"] = found.both_non_finite;
  result["one_sided"] = found.one_sided;
  result["equal_bits"] = found.equal_bits;
  result["dot"] = found.dot;
  result["squared_distance"] = found.squared_distance;
  result["max_absolute"] = found.max_absolute;
  result["max_relative"] = found.max_relative;
  result["reference"] = side_of(found.reference);
  result["target"] = side_of(found.target);
  const auto text = [](const std::string& hash) { return hash.empty() ? std::nullopt : std::optional(hash); };
  result["hashes"] = py::make_tuple(text(row.reference_hash), text(row.target_hash));
  return result;
}

py::dict compare_checkpoints(const Checkpoint& reference, const Checkpoint& target,
                             const checkpoint::Rules& rules, unsigned threads, bool hash,
                             std::pair<unsigned, unsigned> share,
                             const std::optional<py::function>& progress) {
  checkpoint::Pairing pairing;
  std::vector<std::size_t> own;
  run_with_progress(progress, [&](const Report& report) {
    pairing = checkpoint::pair(reference, target, rules);
    own = checkpoint::measure(reference, target, pairing,
                              {threads, hash, share.first, share.second, progress_of(report)});
    return 0;
  });
  py::list rows;
  for (const std::size_t i : own) rows.append(row_of(pairing.rows[i], reference, target));
  std::vector<std::string> names;
  for (const checkpoint::Row& row : pairing.rows) names.push_back(row.name);
  py::dict result;
  result["rows"] = rows;
  result["names"] = names;
  result["reference_only"] = names_of(pairing.reference_only, reference);
  result["target_only"] = names_of(pairing.target_only, target);
  result["notes"] = pairing.notes;
  return result;
}

std::vector<std::string> hash_parameters(const Checkpoint& self, unsigned threads,
                                         const std::optional<py::function>& progress) {
  return run_with_progress(progress, [&](const Report& report) {
    return checkpoint::hash_parameters(self, {.threads = threads, .progress = progress_of(report)});
  });
}

}  // namespace

void register_checkpoint(py::module_& m) {
  const auto released = py::call_guard<py::gil_scoped_release>();
  using checkpoint::Rules;

  py::class_<Rules>(m, "CheckpointRules", py::is_final())
      .def(py::init(&rules_of), py::kw_only(), py::arg("renamings") = Renamings(),
           py::arg("merges") = Merges(), py::arg("vocabulary") = std::vector<std::string>(),
           py::arg("ignored") = std::vector<std::string>());

  py::class_<Checkpoint, std::shared_ptr<Checkpoint>>(m, "Checkpoint", py::is_final())
      .def_property_readonly("kind", [](const Checkpoint& self) { return kind_name(self.layout().kind); })
      .def_property_readonly("folder", [](const Checkpoint& self) { return self.layout().folder.string(); })
      .def_property_readonly("iteration", [](const Checkpoint& self) { return self.layout().iteration; })
      .def_property_readonly("parallel_sizes",
                             [](const Checkpoint& self) {
                               const checkpoint::Layout& layout = self.layout();
                               return py::make_tuple(layout.tensor_parallel, layout.pipeline_parallel,
                                                     layout.expert_parallel, layout.chunks);
                             })
      .def_property_readonly("parameters", &parameter_list)
      .def_property_readonly("left_out",
                             [](const Checkpoint& self) {
                               std::vector<std::pair<std::string, std::string>> result;
                               for (const checkpoint::LeftOut& one : self.left_out()) {
                                 result.emplace_back(one.name, one.reason);
                               }
                               return result;
                             })
      .def_property_readonly("warnings", &Checkpoint::warnings)
      .def_property_readonly("files",
                             [](const Checkpoint& self) {
                               std::vector<std::string> files;
                               for (const auto& file : self.files()) files.push_back(file.string());
                               return files;
                             })
      .def_property_readonly("model_type", &Checkpoint::model_type)
      .def_property_readonly("bytes", &Checkpoint::bytes)
      .def("tensor", &tensor, py::arg("name"))
      .def("apply_mapping", &apply_mapping, py::arg("rules"), py::arg("other") = py::none(), released)
      .def("hashes", &hash_parameters, py::kw_only(), py::arg("threads") = 0,
           py::arg("progress") = py::none());

  m.def(
      "open_checkpoint",
      [](const std::filesystem::path& path, const Rules& rules, bool optimizer) {
        return Checkpoint::open(path, {rules, optimizer});
      },
      py::arg("path"), py::arg("rules"), py::kw_only(), py::arg("optimizer") = false, released);
  m.def("compare_checkpoints", &compare_checkpoints, py::arg("reference"), py::arg("target"),
        py::arg("rules"), py::kw_only(), py::arg("threads") = 0, py::arg("hash") = false,
        py::arg("share") = std::pair(0U, 1U), py::arg("progress") = py::none());
}
