// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/config.h"

#include "core.h"
#include "value.h"

namespace {

namespace config = msprobe::config;
using msprobe::io::Value;

py::dict section_dict(const config::Values& values) { return to_python({values.all()}).cast<py::dict>(); }

config::Config load(const std::filesystem::path& path, const py::object& task, const py::object& dump_path,
                    const py::object& level, const py::object& step) {
  const auto given = [](const py::object& value, const char* name) {
    return from_python(value, std::string("PrecisionDebugger(): \"") + name + "\"");
  };
  return config::load(
      path, {given(task, "task"), given(dump_path, "dump_path"), given(level, "level"), given(step, "step")});
}

std::string_view origin_name(config::Origin origin) {
  switch (origin) {
    case config::Origin::kShared: return "shared";
    case config::Origin::kOwn: return "own";
    case config::Origin::kIgnored: return "ignored";
  }
  return "";
}

py::dict key_dict(const config::Key& key) {
  py::list words;
  for (const config::Word& word : words_of(key)) words.append(py::make_tuple(word.name, word.meaning));
  py::dict row;
  row["tasks"] = py::str(key.tasks).attr("split")();
  row["name"] = key.name;
  row["type"] = config::type_name(key.type);
  row["default"] = to_python(msprobe::io::parse_json_document(key.fallback, std::string(key.name)));
  row["words"] = words;
  row["least"] =
      key.least == std::numeric_limits<std::int64_t>::min() ? py::none() : py::object(py::int_(key.least));
  row["most"] =
      key.most == std::numeric_limits<std::int64_t>::max() ? py::none() : py::object(py::int_(key.most));
  row["meaning"] = key.meaning;
  row["allowed"] = key.allowed;
  row["origin"] = origin_name(key.origin);
  return row;
}

py::list keys() {
  py::list rows;
  for (const config::Key& key : config::keys()) rows.append(key_dict(key));
  return rows;
}

py::list tasks() {
  py::list rows;
  for (const config::Task& task : config::tasks()) {
    rows.append(py::make_tuple(task.name, task.meaning, task.is_available));
  }
  return rows;
}

}  // namespace

void register_config(py::module_& m) {
  using py::arg;
  m.def(
      "read_json", [](const std::filesystem::path& path) { return to_python(msprobe::io::read_json(path)); },
      arg("path"));
  m.def(
      "read_yaml", [](const std::filesystem::path& path) { return to_python(msprobe::io::read_yaml(path)); },
      arg("path"));
  m.def(
      "read_config_file",
      [](const std::filesystem::path& path) { return to_python(config::read_file(path)); }, arg("path"));
  py::class_<config::Config>(m, "Config", py::is_final())
      .def_readonly("task", &config::Config::task)
      .def_property_readonly("dump_path",
                             [](const config::Config& self) { return to_python({self.dump_path}); })
      .def_property_readonly("ranks",
                             [](const config::Config& self) { return py::tuple(py::cast(self.ranks)); })
      .def_property_readonly("steps",
                             [](const config::Config& self) { return py::tuple(py::cast(self.steps)); })
      .def_readonly("level", &config::Config::level)
      .def_readonly("enable_dataloader", &config::Config::enable_dataloader)
      .def_readonly("async_dump", &config::Config::async_dump)
      .def_property_readonly("section",
                             [](const config::Config& self) { return section_dict(self.section); });
  m.def("load_config", &load, arg("path"), arg("task") = py::none(), arg("dump_path") = py::none(),
        arg("level") = py::none(), arg("step") = py::none());
  m.def(
      "load_config_section",
      [](const std::filesystem::path& path, const std::string& task) {
        return section_dict(config::load_section(path, task));
      },
      arg("path"), arg("task"));
  m.def(
      "load_own_config",
      [](const std::filesystem::path& path, const std::string& task) {
        return section_dict(config::load_own_file(path, task));
      },
      arg("path"), arg("task"));
  m.def(
      "check_config_section",
      [](const std::string& place, const std::string& task, const py::dict& keys) {
        return section_dict(config::check_section(place, task, from_python(keys, place)));
      },
      arg("place"), arg("task"), arg("keys"));
  m.def("config_keys", &keys);
  m.def("config_tasks", &tasks);
  m.def(
      "closest_word",
      [](const std::string& word, const std::vector<std::string>& known, double share) {
        return config::closest_word(word, known, share);
      },
      arg("word"), arg("known"), arg("share") = 0.3);
}
