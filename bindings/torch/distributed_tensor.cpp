// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed_tensor.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>
#include <utility>

#include "../python_text.h"
#include "native_type.h"

namespace py = pybind11;

namespace {

using Local = msprobe::torch_adapter::TensorDescriber::Local;
using msprobe::trace::ElementWriter;

std::string_view class_name(PyObject* value) {
  const std::string_view name = Py_TYPE(value)->tp_name;
  return name.substr(name.rfind('.') + 1);
}

void put_value(ElementWriter& out, py::handle value) {
  if (PyDict_Check(value.ptr())) {
    out.begin_object();
    for (const auto& [key, member] : py::reinterpret_borrow<py::dict>(value)) {
      out.key(utf8(key.ptr()));
      put_value(out, member);
    }
    out.end();
  } else if (PyList_Check(value.ptr())) {
    out.begin_list();
    for (const py::handle item : py::reinterpret_borrow<py::list>(value)) put_value(out, item);
    out.end();
  } else if (PyLong_Check(value.ptr())) {
    out.plain_integer(value.cast<std::int64_t>());
  } else {
    out.plain_text(utf8(value.ptr()));
  }
}

std::optional<Local> local_of(const py::object& tensor) {
  const std::string_view name = class_name(tensor.ptr());
  if (name == "AsyncCollectiveTensor") {
    const py::object result = tensor.attr("trigger_wait")();
    if (!THPVariable_Check(result.ptr())) return std::nullopt;
    return Local{THPVariable_Unpack(result.ptr()), {}};
  }
  if (name != "DTensor") return std::nullopt;
  static const py::handle placement_of =
      py::object(py::module_::import("msprobe.dump.placement").attr("placement_of")).release();
  const py::object shard = tensor.attr("_local_tensor");
  if (!THPVariable_Check(shard.ptr())) return std::nullopt;
  Local local{THPVariable_Unpack(shard.ptr()), placement_element(placement_of(tensor.attr("_spec")))};
  if (auto result = local_of(shard)) local.tensor = std::move(result->tensor);
  return local;
}

}  // namespace

std::string placement_element(py::handle placement) {
  ElementWriter out;
  put_value(out, placement);
  return std::string(out.bytes());
}

std::optional<Local> find_local(const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  const KeepPythonError no_error_of_ours;
  const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  if (!object) throw py::error_already_set();
  return local_of(object);
}
