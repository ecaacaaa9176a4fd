// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "value.h"

#include "decoded.h"
#include "msprobe/error.h"

namespace {

using msprobe::io::Value;

constexpr int kDeepest = 64;

struct ToPython {
  py::object operator()(std::nullptr_t) const { return py::none(); }
  py::object operator()(bool flag) const { return py::bool_(flag); }
  py::object operator()(std::int64_t number) const { return py::int_(number); }
  py::object operator()(double number) const { return py::float_(number); }
  py::object operator()(const std::string& text) const { return decoded(text, "surrogateescape"); }
  py::object operator()(const Value::List& list) const {
    py::list result(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) result[i] = to_python(list[i]);
    return result;
  }
  py::object operator()(const Value::Object& object) const {
    py::dict result;
    for (const auto& [key, value] : object) result[(*this)(key)] = to_python(value);
    return result;
  }
};

class FromPython {
 public:
  explicit FromPython(const std::string& name) : name_(name) {}

  Value convert(py::handle object, int depth) const {
    if (depth > kDeepest) refuse(object);
    if (object.is_none()) return {};
    if (PyBool_Check(object.ptr())) return {object.cast<bool>()};
    if (PyFloat_Check(object.ptr())) return {object.cast<double>()};
    if (PyUnicode_Check(object.ptr())) return {text(object)};
    if (PyIndex_Check(object.ptr()) != 0) return number(object);
    if (py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object)) {
      Value::List list;
      for (const py::handle item : object) list.push_back(convert(item, depth + 1));
      return {std::move(list)};
    }
    if (py::isinstance<py::dict>(object)) {
      Value::Object members;
      for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(object)) {
        if (!PyUnicode_Check(key.ptr())) refuse(key);
        members.emplace_back(text(key), convert(value, depth + 1));
      }
      return {std::move(members)};
    }
    if (py::hasattr(object, "__fspath__")) {
      const py::object path = object.attr("__fspath__")();
      if (PyUnicode_Check(path.ptr())) return {text(path)};
    }
    refuse(object);
  }

 private:
  [[noreturn]] void refuse(py::handle object) const {
    std::string shown = py::repr(object).cast<std::string>();
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    throw msprobe::InvalidArgument(name_ + ": expected what a configuration can hold, found " + shown);
  }

  std::string text(py::handle object) const {
    const auto bytes =
        py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogateescape"));
    if (!bytes) {
      PyErr_Clear();
      throw msprobe::InvalidArgument(name_ + ": expected text, found lone surrogates");
    }
    return bytes;
  }

  // Also the numbers of NumPy.
  Value number(py::handle object) const {
    const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
    if (!index) throw py::error_already_set();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow == 0) return {static_cast<std::int64_t>(value)};
    const double approximate = PyLong_AsDouble(index.ptr());
    if (PyErr_Occurred() == nullptr) return {approximate};
    PyErr_Clear();
    refuse(object);
  }

  const std::string& name_;
};

}  // namespace

py::object to_python(const Value& value) { return std::visit(ToPython{}, value.is); }

Value from_python(py::handle object, const std::string& name) { return FromPython(name).convert(object, 0); }
