// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "core.h"
#include "msprobe/config.h"
#include "msprobe/error.h"
#include "msprobe/grad_probe.h"

namespace {

// The Python classes live as long as the process.
struct Classes {
  PyObject* error;
  PyObject* invalid_argument;
  PyObject* format_error;
  PyObject* io_error;
  PyObject* unsupported_error;
  PyObject* internal_error;
  PyObject* nothing_to_compare;
  PyObject* malformed_config;
};
Classes classes;

PyObject* add_class(py::module_& m, const char* name, const char* doc, const py::tuple& bases) {
  // A public class says where users find it: in the package.
  const std::string qualified = std::string("msprobe.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  m.attr(name) = py::handle(type);
  return type;
}

void set_error(PyObject* type, const msprobe::Error& e) { PyErr_SetString(type, e.what()); }

// errno and filename as every OSError has them; the text stays ours.
void set_io_error(const msprobe::IoError& e) {
  const py::object error = py::handle(classes.io_error)(e.what());
  error.attr("errno") = e.error_number();
  error.attr("filename") = e.path();
  PyErr_SetObject(classes.io_error, error.ptr());
}

// An OSError with errno and filename would show its strerror, which is not our text.
py::object io_error_text(const py::object& error) {
  const py::tuple arguments = error.attr("args");
  if (arguments.size() == 1) return py::str(arguments[0]);
  return py::reinterpret_steal<py::object>(
      reinterpret_cast<PyTypeObject*>(PyExc_OSError)->tp_str(error.ptr()));
}

// One line per C++ class, the most derived first.
void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const msprobe::grad_probe::NothingToCompare& e) {
    set_error(classes.nothing_to_compare, e);
  } catch (const msprobe::config::MalformedConfig& e) {
    set_error(classes.malformed_config, e);
  } catch (const msprobe::InvalidArgument& e) {
    set_error(classes.invalid_argument, e);
  } catch (const msprobe::FormatError& e) {
    set_error(classes.format_error, e);
  } catch (const msprobe::IoError& e) {
    set_io_error(e);
  } catch (const msprobe::UnsupportedError& e) {
    set_error(classes.unsupported_error, e);
  } catch (const msprobe::InternalError& e) {
    set_error(classes.internal_error, e);
  } catch (const msprobe::Error& e) {
    set_error(classes.error, e);
  }
}

}  // namespace

void register_errors(py::module_& m) {
  const auto bases = [](PyObject* first, PyObject* second) {
    return py::make_tuple(py::handle(first), py::handle(second));
  };
  classes.error =
      add_class(m, "Error", "Root of all errors of msprobe.", py::make_tuple(py::handle(PyExc_Exception)));
  classes.invalid_argument = add_class(m, "InvalidArgument", "The caller or the configuration is wrong.",
                                       bases(classes.error, PyExc_ValueError));
  classes.format_error =
      add_class(m, "FormatError", "A file is damaged, hostile or not what it claims to be.",
                bases(classes.error, PyExc_ValueError));
  classes.io_error =
      add_class(m, "IoError", "The operating system refused.", bases(classes.error, PyExc_OSError));
  const py::handle io_error(classes.io_error);
  io_error.attr("__str__") = py::cpp_function(&io_error_text, py::name("__str__"), py::is_method(io_error));
  classes.unsupported_error = add_class(m, "UnsupportedError", "Valid input that msprobe cannot handle.",
                                        bases(classes.error, PyExc_NotImplementedError));
  classes.internal_error = add_class(m, "InternalError", "A bug of msprobe; please report it.",
                                     bases(classes.error, PyExc_RuntimeError));
  classes.nothing_to_compare =
      add_class(m, "NothingToCompare", "The two sides have no rank, step or parameter in common.",
                bases(classes.invalid_argument, PyExc_RuntimeError));
  classes.malformed_config = add_class(m, "MalformedConfig", "A configuration file is no JSON or YAML.",
                                       bases(classes.invalid_argument, PyExc_RuntimeError));
  py::register_exception_translator(translate);  // for all modules: _torch throws the same classes
}
