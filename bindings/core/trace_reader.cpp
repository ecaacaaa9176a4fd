// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/trace_reader.h"

#include "core.h"
#include "msprobe/error.h"
#include "msprobe/record_name.h"
#include "msprobe/trace_match.h"

namespace {

namespace trace = msprobe::trace;
using trace::Item;
using trace::Scalar;
using trace::Text;
using trace::Trace;

// Without the GIL, and then with it for what Python gets.
template <auto Read>
auto reading(const std::filesystem::path& path) {
  const py::gil_scoped_release no_gil;
  return Read(path);
}

py::str text_of(std::string_view text) { return {text.data(), text.size()}; }

py::object optional_text(std::string_view text) {
  return text.empty() ? py::none() : py::object(text_of(text));
}

const char* name_of(Item::Part part) {
  switch (part) {
    case Item::Part::kInputArgs: return "input_args";
    case Item::Part::kInputKwargs: return "input_kwargs";
    case Item::Part::kInput: return "input";
    case Item::Part::kOutput: return "output";
    case Item::Part::kParameters: return "parameters";
    case Item::Part::kGradients: return "parameters_grad";
    case Item::Part::kSaved: return "saved";
  }
  return "";
}

py::object value_of(const Trace& self, const Scalar& scalar) {
  const std::string_view text = self.text(scalar);
  switch (scalar.kind) {
    case Scalar::Kind::kBool: return py::bool_(text == "True");
    case Scalar::Kind::kFloat: return py::float_(*self.number(scalar));
    case Scalar::Kind::kInteger:
      return py::reinterpret_steal<py::object>(PyLong_FromString(std::string(text).c_str(), nullptr, 10));
    case Scalar::Kind::kText:
    case Scalar::Kind::kComposite: return text_of(text);
    default: return py::none();
  }
}

py::dict dict_of(const Trace& self, const Item& item) {
  py::dict result;
  result["part"] = name_of(item.part);
  result["path"] = text_of(self.text(item.path));
  const auto add_text = [&](const char* key, Text text) {
    if (text.length > 0) result[key] = text_of(self.text(text));
  };
  const auto add_scalar = [&](const char* key, const Scalar& scalar) {
    if (scalar.kind != Scalar::Kind::kAbsent) result[key] = value_of(self, scalar);
  };
  add_text("type", item.type);
  add_text("dtype", item.dtype);
  add_text("shape", item.shape);
  if (item.requires_grad) result["requires_grad"] = *item.requires_grad;
  add_scalar("max", item.max);
  add_scalar("min", item.min);
  add_scalar("mean", item.mean);
  add_scalar("norm", item.norm);
  add_scalar("value", item.value);
  add_text("md5", item.md5);
  add_text("data_name", item.data_name);
  return result;
}

py::list records_of(const Trace& self) {
  py::list records;
  for (const trace::Record& record : self.records()) {
    py::list items;
    for (const Item& item : self.items(record)) items.append(dict_of(self, item));
    records.append(py::make_tuple(text_of(self.name(record)), items));
  }
  return records;
}

py::list record_names(const Trace& self) {
  py::list names;
  for (const trace::Record& record : self.records()) names.append(text_of(self.name(record)));
  return names;
}

// Of every item, in the order of the file: the name by which compare pairs it, and that of its record.
std::vector<std::pair<py::str, py::str>> item_names(const Trace& self) {
  std::vector<std::pair<py::str, py::str>> names;
  for (const trace::Record& record : self.records()) {
    for (const Item& item : self.items(record)) {
      std::string name;
      trace::append_item_name(name, self, record, item);
      names.emplace_back(text_of(name), text_of(self.name(record)));
    }
  }
  return names;
}

py::str record_of(const Trace& self, std::string_view name) {
  const std::optional<std::size_t> index = self.find(name);
  if (!index) {
    throw msprobe::InvalidArgument(self.path().string() + ": there is no record \"" + std::string(name) +
                                   '"');
  }
  return text_of(trace::read_record(self, self.records()[*index]));
}

py::dict read_construct(const std::filesystem::path& path) {
  py::dict result;
  const trace::Construct construct = reading<trace::read_construct>(path);
  for (const auto& entry : construct.entries()) result[text_of(entry.name)] = optional_text(entry.parent);
  return result;
}

}  // namespace

void register_trace_reader(py::module_& m) {
  py::class_<Trace>(m, "Trace", py::is_final())
      .def_property_readonly("path", &Trace::path)
      .def_property_readonly("task", [](const Trace& self) { return text_of(self.task()); })
      .def_property_readonly("level", [](const Trace& self) { return text_of(self.level()); })
      .def_property_readonly("framework", [](const Trace& self) { return text_of(self.framework()); })
      .def_property_readonly("dump_data_dir",
                             [](const Trace& self) { return optional_text(self.dump_data_dir()); })
      .def_property_readonly("has_md5", &Trace::has_md5)
      .def("names", &record_names)
      .def("record", &record_of, py::arg("name"))
      .def("item_names", &item_names)
      .def("records", &records_of);
  py::class_<trace::Stacks>(m, "Stacks", py::is_final())
      .def(
          "frames",
          [](const trace::Stacks& self, std::string_view record) {
            const auto frames = self.frames(record);
            return std::vector<std::string>(frames.begin(), frames.end());
          },
          py::arg("record"));
  m.def(
      "call_of", [](std::string_view record) { return text_of(trace::RecordName(record).call()); },
      py::arg("record"));
  m.def("read_trace", &reading<trace::read_trace>, py::arg("path"));
  m.def("read_stacks", &reading<trace::read_stacks>, py::arg("path"));
  m.def("read_construct", &read_construct, py::arg("path"));
}
