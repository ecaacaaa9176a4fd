// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "python_values.h"

#include <pybind11/numpy.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python_text.h"

namespace py = pybind11;

namespace {

using msprobe::dump::Files;
using msprobe::dump::ValueWriter;
using msprobe::trace::ElementWriter;

std::string_view type_name(PyObject* value) { return Py_TYPE(value)->tp_name; }

// The type's module and name as the format shows numpy's: "float32" of "numpy.float32".
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::optional<std::int64_t> as_integer(PyObject* value) {
  if (value == Py_None) return std::nullopt;
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  if (number) {
    const long long result = PyLong_AsLongLong(number.ptr());
    if (result != -1 || PyErr_Occurred() == nullptr) return result;
  }
  PyErr_Clear();
  return std::nullopt;
}

// A text that a function was given under a key (or none), without what may be a credential in it. Words that
// choose something are shorter than one that nothing but its looks tells.
void put_text(PyObject* value, std::string_view key, ElementWriter& out) {
  constexpr Py_ssize_t kShortest = 12;
  if (key.empty() && PyUnicode_GET_LENGTH(value) < kShortest) return out.text(utf8(value));
  static const py::handle conceal =
      py::object(py::module_::import("msprobe.files.credentials").attr("concealed_argument")).release();
  const py::object shown = conceal(py::str(key.data(), key.size()), py::handle(value));
  out.text(utf8(shown.ptr()));
}

// False: it is no number, text or other value that Python has words for.
bool put_plain(PyObject* value, std::string_view key, ElementWriter& out) {
  if (PyBool_Check(value)) {
    out.boolean(value == Py_True);
  } else if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) {
      out.integer(number);
    } else {
      out.big_integer(text_of(value));
    }
  } else if (PyFloat_CheckExact(value)) {
    out.real(PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_CheckExact(value)) {
    put_text(value, key, out);
  } else if (PyComplex_CheckExact(value)) {
    const Py_complex number = PyComplex_AsCComplex(value);
    out.complex(number.real, number.imag);
  } else if (value == Py_Ellipsis) {
    out.typed_text("ellipsis", "...");
  } else if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    out.slice({as_integer(slice->start), as_integer(slice->stop), as_integer(slice->step)});
  } else {
    return false;
  }
  return true;
}

bool put_numpy_scalar(PyObject* value, std::string_view name, ElementWriter& out) {
  if (PyFloat_Check(value)) {
    out.typed_real(last_part(name), PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_Check(value)) {
    out.typed_text(last_part(name), utf8(value));
  } else if (name == "numpy.bool_" || name == "numpy.bool") {
    out.typed_boolean("bool_", PyObject_IsTrue(value) == 1);
  } else if (const auto integer = as_integer(value)) {
    out.typed_integer(last_part(name), *integer);
  } else if (PyNumber_Check(value) != 0 && PyComplex_Check(value) == 0 &&
             name.find("complex") == std::string_view::npos) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Float(value));
    if (!number) {
      PyErr_Clear();
      return false;
    }
    out.typed_real(last_part(name), PyFloat_AS_DOUBLE(number.ptr()));
  } else if (PyNumber_Check(value) != 0) {
    const Py_complex number = PyComplex_AsCComplex(value);
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
    out.complex(number.real, number.imag);
  } else {
    return false;
  }
  return true;
}

// numpy's statistics are those of the array's own precision; the same measure as for tensors serves.
msprobe::trace::Statistics statistics_of(const py::array& array, msprobe::DType dtype) {
  std::vector<std::int64_t> shape(array.shape(), array.shape() + array.ndim());
  std::vector<std::int64_t> strides;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    if (array.strides(i) % array.itemsize() != 0) return {};
    strides.push_back(array.strides(i) / array.itemsize());
  }
  msprobe::trace::Statistics result = msprobe::trace::measure({array.data(), dtype, shape, strides}, {});
  result.checksum.reset();
  return result;
}

msprobe::dump::StoredTensor copy_of(const py::array& array, msprobe::DType dtype) {
  const auto contiguous = py::array::ensure(array, py::array::c_style);
  if (!contiguous) throw py::error_already_set();
  const auto bytes = static_cast<std::size_t>(contiguous.nbytes());
  auto owner = std::make_shared<std::vector<std::byte>>(bytes);
  if (bytes > 0) std::memcpy(owner->data(), contiguous.data(), bytes);
  msprobe::dump::StoredTensor stored;
  stored.data = owner->data();
  stored.owner = std::move(owner);
  stored.dtype = dtype;
  stored.shape.assign(array.shape(), array.shape() + array.ndim());
  return stored;
}

}  // namespace

std::string text_of(PyObject* value) {
  const auto text = py::reinterpret_steal<py::object>(PyObject_Str(value));
  if (!text) throw py::error_already_set();
  return text.cast<std::string>();
}

void PythonValues::put_member(PyObject* key, PyObject* value, ValueWriter& to) {
  const std::string name = PyUnicode_Check(key) ? std::string(utf8(key)) : text_of(key);
  to.member(name, [&] { put(value, to, name); });
}

void PythonValues::put(PyObject* value, ValueWriter& to, std::string_view key) {
  ElementWriter& out = to.out();
  if (value == Py_None) return out.null();
  if (framework_.put_tensor(value, to)) return;
  const bool nests = PyTuple_Check(value) || PyList_Check(value) || PyDict_Check(value);
  if (wanted_ == Wanted::kTensors && !nests) return out.null();
  if (!key.empty() && framework_.put_keyed(value, key, to)) return;
  if (put_plain(value, key, out)) return;
  if (PyTuple_CheckExact(value)) return put_sequence(value, to);
  if (PyList_Check(value)) {
    // A copy: describing a large tensor may let another thread run, which may change the list.
    const auto items = py::reinterpret_steal<py::object>(PyList_AsTuple(value));
    return put_sequence(items.ptr(), to);
  }
  if (PyDict_Check(value)) return put_dict(value, to);
  if (framework_.put_object(value, to) || put_fields(value, to)) return;
  if (PyTuple_Check(value)) return put_sequence(value, to);
  if (!put_numpy(value, to)) out.null();
}

void PythonValues::put_sequence(PyObject* tuple, ValueWriter& to) {
  to.list(static_cast<std::size_t>(PyTuple_GET_SIZE(tuple)),
          [&](std::size_t i) { put(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)), to); });
}

void PythonValues::put_dict(PyObject* dict, ValueWriter& to) {
  const auto items = py::reinterpret_steal<py::object>(PyDict_Items(dict));  // a copy, as for lists
  to.object([&] {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.ptr()); ++i) {
      PyObject* pair = PyList_GET_ITEM(items.ptr(), i);
      put_member(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), to);
    }
  });
}

bool PythonValues::put_numpy(PyObject* value, ValueWriter& to) {
  const std::string_view name = type_name(value);
  if (!name.starts_with("numpy.")) return false;
  if (!py::isinstance<py::array>(value)) return put_numpy_scalar(value, name, to.out());
  put_array(value, to);
  return true;
}

void PythonValues::put_array(const py::handle& value, ValueWriter& to) {
  const auto array = py::reinterpret_borrow<py::array>(value);
  const std::string dtype = text_of(array.dtype().ptr());
  const std::vector<std::int64_t> shape(array.shape(), array.shape() + array.ndim());
  msprobe::trace::TensorElement element;
  element.dtype = msprobe::dtype_named(dtype);
  element.shape = shape;
  element.numpy_type = dtype;
  std::string data_name;
  if (element.dtype && framework_.measures_arrays()) {
    if (array.size() > 0) element.statistics = statistics_of(array, *element.dtype);
    if (to.takes_files()) {
      data_name = recorder_.data_name(to.record(), to.position());
      recorder_.store(data_name, copy_of(array, *element.dtype));
      element.data_name = data_name;
    }
  }
  to.out().tensor(element);
}

bool PythonValues::has_fields(PyObject* tuple) {
  if (Py_TYPE(tuple) == &PyTuple_Type) return false;
  const auto fields = py::reinterpret_steal<py::object>(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(tuple)), "_fields"));
  if (!fields) PyErr_Clear();
  return fields && PyTuple_Check(fields.ptr()) != 0 &&
         PyTuple_GET_SIZE(fields.ptr()) == PyTuple_GET_SIZE(tuple);
}

// namedtuples and dataclass instances: objects of their fields.
bool PythonValues::put_fields(PyObject* value, ValueWriter& to) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  if (PyTuple_Check(value)) {
    if (!has_fields(value)) return false;
    const auto fields = py::reinterpret_steal<py::object>(PyObject_GetAttrString(type, "_fields"));
    to.object([&] {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
        put_member(PyTuple_GET_ITEM(fields.ptr(), i), PyTuple_GET_ITEM(value, i), to);
      }
    });
    return true;
  }
  const auto fields = py::reinterpret_steal<py::object>(PyObject_GetAttrString(type, "__dataclass_fields__"));
  if (!fields || PyDict_Check(fields.ptr()) == 0) {
    PyErr_Clear();
    return false;
  }
  const auto values = py::reinterpret_steal<py::object>(PyObject_GetAttrString(value, "__dict__"));
  if (!values) PyErr_Clear();
  to.object([&] {
    PyObject* key = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(fields.ptr(), &position, &key, nullptr) != 0) {
      PyObject* field = values ? PyDict_GetItem(values.ptr(), key) : nullptr;
      const auto held = py::reinterpret_borrow<py::object>(field != nullptr ? field : Py_None);
      put_member(key, held.ptr(), to);
    }
  });
  return true;
}
