// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "attention_calls.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>

namespace py = pybind11;

namespace {

using msprobe::torch_adapter::attention_rows;
using Rows = std::optional<msprobe::torch_adapter::AttentionRows>;

py::object argument(const CallArguments& arguments, Py_ssize_t place, const char* name) {
  py::object found;
  if (place < arguments.positional) found = py::reinterpret_borrow<py::object>(arguments.values[place]);
  arguments.for_each_keyword([&](PyObject* key, PyObject* value) {
    if (PyUnicode_CompareWithASCIIString(key, name) == 0) found = py::reinterpret_borrow<py::object>(value);
  });
  return found;
}

at::Tensor tensor_argument(const CallArguments& arguments, Py_ssize_t place, const char* name) {
  const py::object found = argument(arguments, place, name);
  if (!found || !THPVariable_Check(found.ptr())) return {};
  return THPVariable_Unpack(found.ptr());
}

// Whether a dimension is the last one of so many.
bool is_last(const py::object& dimension, std::int64_t count) {
  if (!dimension || !PyLong_Check(dimension.ptr())) return false;
  const auto place = dimension.cast<std::int64_t>();
  return place == -1 || place == count - 1;
}

Rows rows_of_attention(const CallArguments& arguments, std::int64_t queries) {
  const at::Tensor query = tensor_argument(arguments, 0, "query");
  const at::Tensor key = tensor_argument(arguments, 1, "key");
  if (!query.defined() || !key.defined()) return std::nullopt;
  const py::object causal = argument(arguments, 5, "is_causal");
  const py::object scale = argument(arguments, 6, "scale");
  return attention_rows(
      query, key, tensor_argument(arguments, 3, "attn_mask"), causal && PyObject_IsTrue(causal.ptr()) == 1,
      scale && !scale.is_none() ? std::optional(scale.cast<double>()) : std::nullopt, queries);
}

// Scores of attention have a batch, heads, queries and keys, the first two of them as one in torch's own
// module, and lie in a module that is called so.
Rows rows_of_softmax(const CallArguments& arguments, const std::string& module, std::int64_t queries) {
  const at::Tensor scores = tensor_argument(arguments, 0, "input");
  if (!scores.defined() || scores.dim() < 3 || scores.dim() > 4) return std::nullopt;
  if (!is_last(argument(arguments, 1, "dim"), scores.dim())) return std::nullopt;
  if (module.find("att") == std::string::npos) return std::nullopt;
  return attention_rows(scores, queries);
}

}  // namespace

void AttentionCalls::find() {
  const py::module_ torch = py::module_::import("torch");
  const py::object functional = py::module_::import("torch.nn.functional");
  functions_.emplace(functional.attr("scaled_dot_product_attention").ptr(), &attention_);
  functions_.emplace(torch.attr("softmax").ptr(), &softmax_);
  functions_.emplace(torch.attr("Tensor").attr("softmax").ptr(), &softmax_);
}

Api* AttentionCalls::api_of(PyObject* function) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? nullptr : found->second;
}

Rows AttentionCalls::rows_of(const Api& api, const CallArguments& arguments, const std::string& module,
                             std::int64_t queries) const {
  return &api == &attention_ ? rows_of_attention(arguments, queries)
                             : rows_of_softmax(arguments, module, queries);
}
