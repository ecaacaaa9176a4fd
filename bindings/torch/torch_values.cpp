// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch_values.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>

#include "last_part.h"

namespace py = pybind11;

namespace {

using msprobe::dump::ValueWriter;
using msprobe::trace::ElementWriter;

constexpr const char* kDistributed = "torch.distributed.distributed_c10d";

// Whether a class of this name is loaded: never imports anything.
bool is_instance_of_loaded(PyObject* value, const char* module, const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* loaded = PyDict_GetItemString(modules, module);
  if (loaded == nullptr) return false;
  PyObject* type = PyDict_GetItemString(PyModule_GetDict(loaded), name);
  return type != nullptr && PyType_Check(type) &&
         PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(type)) != 0;
}

py::list ranks_of(const py::handle& process_group) {
  return py::list(py::module_::import(kDistributed).attr("get_process_group_ranks")(process_group));
}

// CRC-32 of the text that Python prints for a list of ranks, in 8 hexadecimal digits: the format's group id.
std::string group_id_of(const py::list& ranks) {
  const py::object text = py::str(ranks).attr("encode")();
  const auto crc = py::module_::import("zlib").attr("crc32")(text).cast<std::uint32_t>();
  return py::str("{:08x}").format(crc).cast<std::string>();
}

void put_process_group(const py::handle& group, ElementWriter& out) {
  out.begin_object();
  out.key("type");
  out.plain_text("torch.ProcessGroup");
  const py::list ranks = ranks_of(group);
  out.key("group_ranks");
  out.begin_list();
  for (const auto& rank : ranks) out.plain_integer(rank.cast<std::int64_t>());
  out.end();
  out.key("group_id");
  out.plain_text(group_id_of(ranks));
  out.end();
}

void put_size(PyObject* size, ElementWriter& out) {
  std::vector<std::int64_t> extents;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size); ++i) {
    const long long extent = PyLong_AsLongLong(PyTuple_GET_ITEM(size, i));
    if (extent == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();  // none that is known
    extents.push_back(extent);
  }
  out.size(extents);
}

}  // namespace

bool TorchValues::put_tensor(PyObject* value, ValueWriter& to) {
  if (!THPVariable_Check(value)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(value);
  if (tensors_ != nullptr) tensors_->push_back(tensor);
  if (memory_ == nullptr || memory_->takes(tensor)) {
    describer_.describe(to, tensor, placement_);
  } else {
    describer_.describe_unmeasured(to, tensor);
  }
  return true;
}

bool TorchValues::put_keyed(PyObject* value, std::string_view key, ValueWriter& to) {
  if (key == "dtype") {
    to.out().typed_text("torch.dtype", text_of(value));
  } else if (key == "device") {
    if (!THPDevice_Check(value)) {
      to.out().typed_text("torch.device", text_of(value));
      return true;
    }
    const at::Device& place = reinterpret_cast<THPDevice*>(value)->device;
    to.out().typed_text("torch.device", c10::DeviceTypeName(place.type(), /*lower_case=*/true) + ":" +
                                            (place.has_index() ? std::to_string(place.index()) : "None"));
  } else {
    return false;
  }
  return true;
}

bool TorchValues::put_object(PyObject* value, ValueWriter& to) {
  ElementWriter& out = to.out();
  if (THPSize_Check(value)) {
    put_size(value, out);
  } else if (THPMemoryFormat_Check(value)) {
    const std::string name = text_of(value);
    out.typed_text("torch.memory_format", last_part(name));
  } else if (THPDtype_Check(value) || THPDevice_Check(value)) {
    // Elsewhere than under their own keyword the format keeps nothing of these two but an empty object.
    out.begin_object();
    out.end();
  } else if (is_instance_of_loaded(value, kDistributed, "ProcessGroup")) {
    put_process_group(value, out);
  } else if (is_instance_of_loaded(value, kDistributed, "ReduceOp") ||
             last_part(Py_TYPE(value)->tp_name) == "RedOpType") {
    out.typed_text("torch.distributed.ReduceOp", text_of(value));
  } else if (is_instance_of_loaded(value, kDistributed, "P2POp")) {
    put_peer_operation(value, to);
  } else {
    return false;
  }
  return true;
}

void TorchValues::put_peer_operation(py::handle operation, ValueWriter& to) {
  ElementWriter& out = to.out();
  to.object([&] {
    out.key("class_type");
    out.plain_text("torch.distributed.P2POp");
    const py::object tensor = operation.attr("tensor");
    // What is received is only written.
    if (memory_ != nullptr)
      memory_->at_peer(operation.attr("op").attr("__name__").cast<std::string>() == "irecv");
    to.member("tensor", [&] {
      if (!put_tensor(tensor.ptr(), to)) out.null();
    });
    out.key("op");
    out.plain_text(operation.attr("op").attr("__name__").cast<std::string>());
    out.key("peer");
    out.plain_integer(operation.attr("peer").cast<std::int64_t>());
    out.key("tag");
    out.plain_integer(operation.attr("tag").cast<std::int64_t>());
    const py::object group = operation.attr("group");
    out.key("group_id");
    if (group.is_none()) {
      out.null();
    } else {
      out.plain_text(group_id_of(ranks_of(group)));
    }
  });
}

void collect_tensors(PyObject* value, Tensors& out, int depth) {
  if (depth > ValueWriter::kDeepest || value == Py_None) return;
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
