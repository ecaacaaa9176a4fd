// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "repetition.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <string_view>

#include "../python_text.h"
#include "last_part.h"
#include "msprobe/operators.h"
#include "msprobe/record_name.h"
#include "native_type.h"
#include "unseen.h"

namespace py = pybind11;

namespace {

bool is_true(PyObject* value) { return value == Py_True; }

PyObject* keyword(const CallArguments& arguments, std::string_view name) {
  PyObject* found = nullptr;
  arguments.for_each_keyword([&](PyObject* key, PyObject* value) {
    if (utf8(key) == name) found = value;
  });
  return found;
}

bool asks_in_place(std::string_view function, const CallArguments& arguments) {
  if (PyObject* asked = keyword(arguments, "inplace"); asked != nullptr) return is_true(asked);
  const int position = msprobe::operators::find(function).inplace_position;
  return position >= 0 && arguments.positional > position && is_true(arguments.values[position]);
}

std::optional<std::uint32_t> version_of(const at::Tensor& tensor) {
  if (tensor.is_inference()) return std::nullopt;
  return static_cast<std::uint32_t>(tensor._version());
}

// Keys of transforms that a second call must not run through.
constexpr c10::DispatchKeySet kTransforms({c10::DispatchKey::FuncTorchBatched,
                                           c10::DispatchKey::FuncTorchGradWrapper,
                                           c10::DispatchKey::Functionalize, c10::DispatchKey::Python,
                                           c10::DispatchKey::VmapMode, c10::DispatchKey::FuncTorchVmapMode});

}  // namespace

Repetition::Repetition(const Call& call)
    : arguments_(call.arguments()), callable_(py::reinterpret_borrow<py::object>(call.callable())) {
  find_reason(call);
  if (!why_not_.empty() || has_no_result_) return;
  look_at_tensors();
  if (!why_not_.empty()) return;
  keep_copies(call.api());
}

void Repetition::find_reason(const Call& call) {
  const std::string_view api = call.api();
  const std::string_view name = last_part(api);
  if (msprobe::trace::RecordName(api).has_collective_prefix()) {
    why_not_ = "it is a collective";
  } else if (name.find("empty") != std::string_view::npos || name == "__setitem__" ||
             (name.starts_with("_foreach_") && name.ends_with('_'))) {
    has_no_result_ = true;
  } else if (name.find("fake_quant") != std::string_view::npos) {
    why_not_ = "it keeps statistics of its arguments";
  } else if (torch::jit::tracer::isTracing()) {
    why_not_ = "it is being traced";
  } else if (name == "embedding" || name == "embedding_bag") {
    PyObject* given = keyword(arguments_, "max_norm");
    const Py_ssize_t position = name == "embedding" ? 3 : 4;
    if (given == nullptr && arguments_.positional > position) given = arguments_.values[position];
    if (given != nullptr && given != Py_None && !PyBool_Check(given)) why_not_ = "it rescales its weight";
  }
}

void Repetition::look_at_tensors() {
  std::vector<at::Generator> generators;
  const auto look = [&](PyObject* value) {
    if (!THPVariable_CheckExact(value)) {
      why_not_ = std::string("an argument is a ") + Py_TYPE(value)->tp_name;
      return false;
    }
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (tensor.unsafeGetTensorImpl()->key_set().has_any(kTransforms)) {
      why_not_ = "it is part of a transform";
      return false;
    }
    if (tensor.is_meta()) {
      why_not_ = "an argument is on the meta device";
      return false;
    }
    if (!tensor.is_cpu()) {
      const at::Generator& generator = at::globalContext().defaultGenerator(tensor.device());
      if (std::find(generators.begin(), generators.end(), generator) == generators.end()) {
        generators.push_back(generator);
      }
    }
    tensors_.push_back({value, tensor, version_of(tensor).value_or(0)});
    return true;
  };
  bool fits = true;
  for (Py_ssize_t i = 0; fits && i < arguments_.positional; ++i) {
    fits = for_each_tensor(arguments_.values[i], look);
  }
  arguments_.for_each_keyword([&](PyObject* key, PyObject* value) {
    if (fits) fits = for_each_tensor(value, look);
    if (utf8(key) == "generator" && value != Py_None && THPGenerator_Check(value) == 1) {
      generators.push_back(THPGenerator_Unwrap(value));
    }
  });
  generators_ = std::move(generators);
  random_before_.emplace(generators_);
}

void Repetition::keep_copy(PyObject* value) {
  for_each_tensor(value, [&](PyObject* tensor) {
    if (copies_.find(tensor) == copies_.end()) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      copies_.emplace(tensor, THPVariable_Unpack(tensor).detach().clone());
    }
    return true;
  });
}

void Repetition::keep_copies(std::string_view function) {
  const msprobe::operators::Row row = msprobe::operators::find(function);
  if (row.is_in_place || asks_in_place(function, arguments_)) {
    PyObject* first = arguments_.positional > 0 ? arguments_.values[0] : keyword(arguments_, "input");
    if (first != nullptr) keep_copy(first);
  }
  if (PyObject* out = keyword(arguments_, "out"); out != nullptr) keep_copy(out);
  // What keeps a memory of its own in an argument, without telling autograd: vectors with an entry for each
  // channel.
  if (row.updates.find("running_") != std::string_view::npos) {
    for (const Seen& seen : tensors_) {
      if (seen.tensor.dim() == 1 && !seen.tensor.requires_grad()) keep_copy(seen.object);
    }
  }
}

Repetition::Verdict Repetition::check(PyObject* result) {
  if (has_no_result_) return Verdict::kNoResult;
  if (!why_not_.empty()) return Verdict::kCannot;
  random_after_.emplace(generators_);
  if (has_changed_arguments()) {
    why_not_ = "it changes an argument in place";
    return Verdict::kCannot;
  }
  const bool none = for_each_tensor(
      result, [](PyObject* value) { return !at::isFloatingType(THPVariable_Unpack(value).scalar_type()); });
  return none ? Verdict::kNoResult : Verdict::kCan;
}

at::Tensor Repetition::before(PyObject* tensor) const {
  const auto copy = copies_.find(tensor);
  return copy != copies_.end() ? copy->second : THPVariable_Unpack(tensor);
}

bool Repetition::is_memory_of_arguments(const at::Tensor& tensor) const {
  const auto is_it = [&](const Seen& seen) {
    return !is_changed(seen.object) && seen.tensor.has_storage() && tensor.has_storage() &&
           seen.tensor.storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl();
  };
  return std::any_of(tensors_.begin(), tensors_.end(), is_it);
}

std::vector<PyObject*> Repetition::tensors() const {
  std::vector<PyObject*> tensors;
  for (const Seen& seen : tensors_) tensors.push_back(seen.object);
  return tensors;
}

py::object Repetition::again(const Way& way) {
  const Unseen unseen;
  const c10::AutoGradMode gradients(way.graph);
  const c10::AutoFwGradMode no_forward_gradients(false);
  std::optional<c10::impl::ExcludeDispatchKeyGuard> no_autocast;
  if (!way.autocast) no_autocast.emplace(c10::autocast_dispatch_keyset);

  const OwnedArguments arguments(this->arguments(), [&](PyObject* value) -> py::object {
    if (way.replace) {
      if (py::object other = way.replace(value)) return other;
    }
    const auto copy = THPVariable_Check(value) ? copies_.find(value) : copies_.end();
    if (copy == copies_.end()) return {};
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(copy->second.clone()));
  });

  const bool is_random = random_after_ && !(*random_after_ == *random_before_);
  const RandomState now(generators_);
  if (is_random) random_before_->restore();
  py::object result = py::reinterpret_steal<py::object>(arguments.view().call(callable_.ptr()));
  if (is_random || !(RandomState(generators_) == now)) {
    const KeepPythonError no_error_of_ours;
    now.restore();
  }
  return result;
}

bool Repetition::has_changed_arguments() const {
  return std::any_of(tensors_.begin(), tensors_.end(), [&](const Seen& seen) {
    return copies_.find(seen.object) == copies_.end() &&
           version_of(seen.tensor).value_or(seen.version) != seen.version;
  });
}

void Repetition::keep() {
  kept_.emplace(arguments_, [](PyObject*) { return py::object(); });
}

void Repetition::release() {
  kept_.reset();
  tensors_.clear();
  copies_.clear();
  callable_ = py::object();
}
