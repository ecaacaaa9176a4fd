// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "python_elements.h"

#include <pybind11/numpy.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <cmath>
#include <optional>

#include "msprobe/error.h"
#include "python_text.h"

namespace py = pybind11;

namespace {

constexpr int kDeepest = 50;  // of nested values, as the format says

std::string_view type_name(PyObject* value) { return Py_TYPE(value)->tp_name; }

// The type's module and name as the format shows numpy's: "float32" of "numpy.float32".
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::string text_of(PyObject* value) {
  const auto text = py::reinterpret_steal<py::object>(PyObject_Str(value));
  if (!text) throw py::error_already_set();
  return text.cast<std::string>();
}

// Whether a class of this name is loaded: never imports anything.
bool is_instance_of_loaded(PyObject* value, const char* module, const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* loaded = PyDict_GetItemString(modules, module);
  if (loaded == nullptr) return false;
  PyObject* type = PyDict_GetItemString(PyModule_GetDict(loaded), name);
  return type != nullptr && PyType_Check(type) &&
         PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(type)) != 0;
}

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

constexpr const char* kDistributed = "torch.distributed.distributed_c10d";

py::list ranks_of(const py::object& process_group) {
  return py::list(py::module_::import(kDistributed).attr("get_process_group_ranks")(process_group));
}

// CRC-32 of the text that Python prints for a list of ranks, in 8 hexadecimal digits: the format's group id.
std::string group_id_of(const py::list& ranks) {
  const py::object text = py::str(ranks).attr("encode")();
  const auto crc = py::module_::import("zlib").attr("crc32")(text).cast<std::uint32_t>();
  return py::str("{:08x}").format(crc).cast<std::string>();
}

// numpy's statistics are those of the array's own precision; the same measure as for tensors serves.
msprobe::trace::Statistics statistics_of(const py::array& array, std::optional<msprobe::DType> dtype) {
  if (!dtype || array.size() == 0) return {};
  std::vector<std::int64_t> shape(array.shape(), array.shape() + array.ndim());
  std::vector<std::int64_t> strides;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    if (array.strides(i) % array.itemsize() != 0) return {};
    strides.push_back(array.strides(i) / array.itemsize());
  }
  msprobe::trace::Statistics result = msprobe::trace::measure({array.data(), *dtype, shape, strides}, false);
  result.checksum.reset();
  return result;
}

}  // namespace

void ElementWalker::begin(std::string_view record, std::string_view category, bool keeps_positions) {
  record_ = record;
  keeps_positions_ = keeps_positions;
  position_.assign(category);
}

std::size_t ElementWalker::push(std::string_view part) {
  const std::size_t size = position_.size();
  if (keeps_positions_) {
    if (!position_.empty()) position_ += '.';
    position_ += part;
  }
  return size;
}

void ElementWalker::item(PyObject* value, Py_ssize_t index) {
  const std::size_t size = keeps_positions_ ? push(std::to_string(index)) : 0;
  walk(value, {}, 0);
  pop(size);
}

void ElementWalker::keyed(PyObject* key, PyObject* value, std::string_view placement) {
  const std::string name = PyUnicode_Check(key) ? std::string(utf8(key)) : text_of(key);
  out_.key(name);
  const std::size_t size = push(name);
  placement_ = placement;
  walk(value, name, 0);
  placement_ = {};
  pop(size);
}

void ElementWalker::whole(PyObject* value) { walk(value, {}, 0); }

void ElementWalker::tensor(const at::Tensor& tensor) {
  if (tensors_ != nullptr) tensors_->push_back(tensor);
  if (slots_) {
    slots_(tensor, position_);
  } else {
    describer_.describe(out_, tensor, record_, position_, placement_);
  }
}

void ElementWalker::walk(PyObject* value, std::string_view key, int depth) {
  if (depth > kDeepest) throw msprobe::UnsupportedError("values are nested more than 50 deep");
  if (value == Py_None) return out_.null();
  if (THPVariable_Check(value)) return tensor(THPVariable_Unpack(value));
  const bool nests = PyTuple_Check(value) || PyList_Check(value) || PyDict_Check(value);
  if (slots_ && !nests) return out_.null();
  if (key == "dtype") return walk_dtype_or_device(value, false);
  if (key == "device") return walk_dtype_or_device(value, true);
  if (walk_number(value)) return;
  if (THPSize_Check(value)) {
    std::vector<std::int64_t> extents;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      extents.push_back(as_integer(PyTuple_GET_ITEM(value, i)).value_or(-1));
    }
    return out_.size(extents);
  }
  if (PyTuple_Check(value)) {
    if (walk_fields(value, depth)) return;
    return walk_sequence(&PyTuple_GET_ITEM(value, 0), PyTuple_GET_SIZE(value), depth);
  }
  if (PyList_Check(value)) {
    // A copy: describing a large tensor may let another thread run, which may change the list.
    const auto items = py::reinterpret_steal<py::object>(PyList_AsTuple(value));
    return walk_sequence(&PyTuple_GET_ITEM(items.ptr(), 0), PyTuple_GET_SIZE(items.ptr()), depth);
  }
  if (PyDict_Check(value)) return walk_dict(value, depth);
  if (walk_torch(value) || walk_numpy(value) || walk_fields(value, depth) || walk_distributed(value)) return;
  out_.null();
}

bool ElementWalker::walk_number(PyObject* value) {
  if (PyBool_Check(value)) {
    out_.boolean(value == Py_True);
  } else if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) {
      out_.integer(number);
    } else {
      out_.big_integer(text_of(value));
    }
  } else if (PyFloat_CheckExact(value)) {
    out_.real(PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_CheckExact(value)) {
    out_.text(utf8(value));
  } else if (PyComplex_CheckExact(value)) {
    const Py_complex number = PyComplex_AsCComplex(value);
    out_.complex(number.real, number.imag);
  } else if (value == Py_Ellipsis) {
    out_.typed_text("ellipsis", "...");
  } else if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    out_.slice({as_integer(slice->start), as_integer(slice->stop), as_integer(slice->step)});
  } else {
    return false;
  }
  return true;
}

void ElementWalker::walk_sequence(PyObject* const* items, Py_ssize_t count, int depth) {
  out_.begin_list();
  for (Py_ssize_t i = 0; i < count; ++i) {
    const std::size_t size = keeps_positions_ ? push(std::to_string(i)) : 0;
    walk(items[i], {}, depth + 1);
    pop(size);
  }
  out_.end();
}

void ElementWalker::walk_dict(PyObject* dict, int depth) {
  const auto items = py::reinterpret_steal<py::object>(PyDict_Items(dict));  // a copy, as for lists
  out_.begin_object();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.ptr()); ++i) {
    PyObject* pair = PyList_GET_ITEM(items.ptr(), i);
    PyObject* key = PyTuple_GET_ITEM(pair, 0);
    const std::string name = PyUnicode_Check(key) ? std::string(utf8(key)) : text_of(key);
    out_.key(name);
    const std::size_t size = push(name);
    walk(PyTuple_GET_ITEM(pair, 1), name, depth + 1);
    pop(size);
  }
  out_.end();
}

bool ElementWalker::walk_torch(PyObject* value) {
  if (THPMemoryFormat_Check(value)) {
    const std::string name = text_of(value);
    out_.typed_text("torch.memory_format", last_part(name));
    return true;
  }
  // Elsewhere than under their own keyword the format keeps nothing of these two but an empty object.
  if (THPDtype_Check(value) || THPDevice_Check(value)) {
    out_.begin_object();
    out_.end();
    return true;
  }
  return false;
}

void ElementWalker::walk_dtype_or_device(PyObject* value, bool device) {
  if (!device) return out_.typed_text("torch.dtype", text_of(value));
  if (!THPDevice_Check(value)) return out_.typed_text("torch.device", text_of(value));
  const at::Device& place = reinterpret_cast<THPDevice*>(value)->device;
  out_.typed_text("torch.device", c10::DeviceTypeName(place.type(), /*lower_case=*/true) + ":" +
                                      (place.has_index() ? std::to_string(place.index()) : "None"));
}

// An array is stored as the equal tensor; torch has none of some dtypes and layouts.
std::string ElementWalker::stored_array(const py::object& array) {
  if (!keeps_positions_) return {};
  const auto tensor = py::reinterpret_steal<py::object>(
      PyObject_CallMethod(py::module_::import("torch").ptr(), "from_numpy", "O", array.ptr()));
  if (!tensor) {
    PyErr_Clear();
    return {};
  }
  return describer_.store(THPVariable_Unpack(tensor.ptr()), record_, position_);
}

bool ElementWalker::walk_numpy(PyObject* value) {
  const std::string_view name = type_name(value);
  if (!name.starts_with("numpy.")) return false;
  if (py::isinstance<py::array>(value)) {
    const auto array = py::reinterpret_borrow<py::array>(value);
    const std::string dtype = text_of(array.dtype().ptr());
    const auto known = msprobe::dtype_named(dtype);
    const std::vector<std::int64_t> shape(array.shape(), array.shape() + array.ndim());
    msprobe::trace::TensorElement element;
    element.dtype = known;
    element.shape = shape;
    element.numpy_type = dtype;
    element.statistics = statistics_of(array, known);
    const std::string data_name = stored_array(array);
    element.data_name = data_name;
    out_.tensor(element);
    return true;
  }
  if (PyFloat_Check(value)) {
    out_.typed_real(last_part(name), PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_Check(value)) {
    out_.typed_text(last_part(name), utf8(value));
  } else if (name == "numpy.bool_" || name == "numpy.bool") {
    out_.typed_boolean("bool_", PyObject_IsTrue(value) == 1);
  } else if (const auto integer = as_integer(value)) {
    out_.typed_integer(last_part(name), *integer);
  } else if (PyNumber_Check(value) != 0 && PyComplex_Check(value) == 0 &&
             name.find("complex") == std::string_view::npos) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Float(value));
    if (!number) {
      PyErr_Clear();
      return false;
    }
    out_.typed_real(last_part(name), PyFloat_AS_DOUBLE(number.ptr()));
  } else if (PyNumber_Check(value) != 0) {
    const Py_complex number = PyComplex_AsCComplex(value);
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
    out_.complex(number.real, number.imag);
  } else {
    return false;
  }
  return true;
}

bool ElementWalker::has_fields(PyObject* tuple) {
  if (Py_TYPE(tuple) == &PyTuple_Type) return false;
  const auto fields = py::reinterpret_steal<py::object>(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(tuple)), "_fields"));
  if (!fields) PyErr_Clear();
  return fields && PyTuple_Check(fields.ptr()) != 0 &&
         PyTuple_GET_SIZE(fields.ptr()) == PyTuple_GET_SIZE(tuple);
}

// namedtuples and dataclass instances: objects of their fields.
bool ElementWalker::walk_fields(PyObject* value, int depth) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  if (PyTuple_Check(value)) {
    if (!has_fields(value)) return false;
    const auto fields = py::reinterpret_steal<py::object>(PyObject_GetAttrString(type, "_fields"));
    out_.begin_object();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      const std::string name = text_of(PyTuple_GET_ITEM(fields.ptr(), i));
      out_.key(name);
      const std::size_t size = push(name);
      walk(PyTuple_GET_ITEM(value, i), name, depth + 1);
      pop(size);
    }
    out_.end();
    return true;
  }
  const auto fields = py::reinterpret_steal<py::object>(PyObject_GetAttrString(type, "__dataclass_fields__"));
  if (!fields || PyDict_Check(fields.ptr()) == 0) {
    PyErr_Clear();
    return false;
  }
  const auto values = py::reinterpret_steal<py::object>(PyObject_GetAttrString(value, "__dict__"));
  if (!values) PyErr_Clear();
  out_.begin_object();
  PyObject* key = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(fields.ptr(), &position, &key, nullptr) != 0) {
    PyObject* field = values ? PyDict_GetItem(values.ptr(), key) : nullptr;
    const std::string name(utf8(key));
    out_.key(name);
    const std::size_t size = push(name);
    if (field != nullptr) {
      const auto held = py::reinterpret_borrow<py::object>(field);
      walk(held.ptr(), name, depth + 1);
    } else {
      out_.null();
    }
    pop(size);
  }
  out_.end();
  return true;
}

bool ElementWalker::walk_distributed(PyObject* value) {
  if (is_instance_of_loaded(value, kDistributed, "ProcessGroup")) {
    out_.begin_object();
    out_.key("type");
    out_.plain_text("torch.ProcessGroup");
    const py::list ranks = ranks_of(py::reinterpret_borrow<py::object>(value));
    out_.key("group_ranks");
    out_.begin_list();
    for (const auto& rank : ranks) out_.plain_integer(rank.cast<std::int64_t>());
    out_.end();
    out_.key("group_id");
    out_.plain_text(group_id_of(ranks));
    out_.end();
    return true;
  }
  if (is_instance_of_loaded(value, kDistributed, "ReduceOp") || last_part(type_name(value)) == "RedOpType") {
    out_.typed_text("torch.distributed.ReduceOp", text_of(value));
    return true;
  }
  if (is_instance_of_loaded(value, kDistributed, "P2POp")) {
    const auto op = py::reinterpret_borrow<py::object>(value);
    out_.begin_object();
    out_.key("class_type");
    out_.plain_text("torch.distributed.P2POp");
    out_.key("tensor");
    const std::size_t size = push("tensor");
    tensor(THPVariable_Unpack(op.attr("tensor").ptr()));
    pop(size);
    out_.key("op");
    out_.plain_text(op.attr("op").attr("__name__").cast<std::string>());
    out_.key("peer");
    out_.plain_integer(op.attr("peer").cast<std::int64_t>());
    out_.key("tag");
    out_.plain_integer(op.attr("tag").cast<std::int64_t>());
    const py::object group = op.attr("group");
    out_.key("group_id");
    if (group.is_none()) {
      out_.null();
    } else {
      out_.plain_text(group_id_of(ranks_of(group)));
    }
    out_.end();
    return true;
  }
  return false;
}

void collect_tensors(PyObject* value, std::vector<at::Tensor>& out, int depth) {
  if (depth > kDeepest || value == Py_None) return;
  if (THPVariable_Check(value)) {
    out.push_back(THPVariable_Unpack(value));
  } else if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      collect_tensors(PyTuple_GET_ITEM(value, i), out, depth + 1);
  } else if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
      collect_tensors(PyList_GET_ITEM(value, i), out, depth + 1);
  } else if (PyDict_Check(value)) {
    PyObject* item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, nullptr, &item) != 0) collect_tensors(item, out, depth + 1);
  }
}
