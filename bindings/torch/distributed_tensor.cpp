// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed_tensor.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "../python_text.h"
#include "msprobe/torch_tensors.h"
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
      py::object(py::module_::import("msprobe.training.placement").attr("placement_of")).release();
  const py::object shard = tensor.attr("_local_tensor");
  if (!THPVariable_Check(shard.ptr())) return std::nullopt;
  Local local{THPVariable_Unpack(shard.ptr()), placement_element(placement_of(tensor.attr("_spec")))};
  if (auto result = local_of(shard)) local.tensor = std::move(result->tensor);
  return local;
}

// Whether a placement is of this kind, as its method `question` says.
bool is_placement(py::handle placement, const char* question) {
  return placement.attr(question)().cast<bool>();
}

std::optional<HeldPart> held_part_of(const py::object& tensor) {
  const auto local = local_of(tensor);
  if (!local || class_name(tensor.ptr()) != "DTensor") return std::nullopt;
  HeldPart part{local->tensor, false, false};
  const py::object coordinate = tensor.attr("device_mesh").attr("get_coordinate")();
  std::size_t dimension = 0;
  for (const py::handle placement : tensor.attr("placements")) {
    part.is_partial = part.is_partial || is_placement(placement, "is_partial");
    const bool elsewhere = !coordinate.is_none() && coordinate[py::int_(dimension)].cast<std::int64_t>() != 0;
    part.is_repeated = part.is_repeated || (elsewhere && is_placement(placement, "is_replicate"));
    ++dimension;
  }
  return part;
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

std::optional<HeldPart> find_held_part(const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  const KeepPythonError no_error_of_ours;
  const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  if (!object) throw py::error_already_set();
  return held_part_of(object);
}
