// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "call_memory.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "function_mode.h"
#include "msprobe/operators.h"
#include "native_type.h"

namespace py = pybind11;

namespace {

using State = msprobe::torch_adapter::KnownMemory::State;

// Of an argument that was given as a keyword or at its position; borrowed, null: it was not.
PyObject* keyword_of(const CallArguments& arguments, std::string_view name) {
  PyObject* found = nullptr;
  arguments.for_each_keyword([&](PyObject* key, PyObject* value) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text != nullptr && std::string_view(text, static_cast<std::size_t>(size)) == name) found = value;
  });
  return found;
}

bool is_zero(PyObject* value) {
  if (value == nullptr) return false;
  if (PyFloat_Check(value) != 0) return PyFloat_AS_DOUBLE(value) == 0;
  return PyLong_Check(value) != 0 && PyLong_AsLongLong(value) == 0;
}

const void* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

// Whether an index shows a part of a tensor, and copies nothing.
bool is_basic(PyObject* index) {
  if (PyTuple_Check(index) != 0) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i) {
      if (!is_basic(PyTuple_GET_ITEM(index, i))) return false;
    }
    return true;
  }
  return index == Py_None || index == Py_Ellipsis || PySlice_Check(index) != 0 ||
         (PyLong_Check(index) != 0 && PyBool_Check(index) == 0);
}

}  // namespace

// ---- of a function

template <typename Use>
void MemoryUse::for_each_argument(std::string_view words, Use use) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(','), words.size());
    const std::string_view word = words.substr(0, end);
    Argument argument;
    if (std::from_chars(word.data(), word.data() + word.size(), argument.position).ec != std::errc{})
      argument.name = word;
    use(std::move(argument));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

MemoryUse::MemoryUse(const std::string& record_name, PyObject* function) {
  const msprobe::operators::Row row = msprobe::operators::find(record_name);
  only_moves_ = row.only_moves() && !record_name.starts_with("Distributed.");  // others see what is sent
  gives_undefined_ = row.is_uninitialised;
  writes_places_ = row.writes_places && row.is_in_place;
  if (row.overwrites && row.is_in_place) not_read_.push_back({0, "input"});
  if (row.adds_first) not_read_with_beta_zero_ = {0, "input"};
  not_read_.push_back({-1, "out"});
  for_each_argument(row.writes, [&](Argument argument) { not_read_.push_back(std::move(argument)); });
  for_each_argument(row.source, [&](Argument argument) { source_.push_back(std::move(argument)); });
  add_schema(function);
}

MemoryUse::Read MemoryUse::read_of(Py_ssize_t position, std::string_view name,
                                   const CallArguments& arguments) const {
  const auto is_it = [&](const Argument& one) { return one.is(position, name); };
  if (std::any_of(not_read_.begin(), not_read_.end(), is_it)) return Read::kNotRead;
  if (position == 0 && is_received(arguments)) return Read::kNotRead;
  if (not_read_with_beta_zero_ && is_it(*not_read_with_beta_zero_) && is_zero(keyword_of(arguments, "beta")))
    return Read::kNotRead;
  if (only_moves_ || fills_places(arguments) ||
      std::any_of(perhaps_read_.begin(), perhaps_read_.end(), is_it))
    return Read::kMoved;
  return Read::kComputedWith;
}

bool MemoryUse::fills_places(const CallArguments& arguments) const {
  if (!writes_places_) return false;
  PyObject* accumulate = keyword_of(arguments, "accumulate");
  if (accumulate == nullptr && arguments.positional > 3) accumulate = arguments.values[3];
  return accumulate != Py_True;
}

// Of a broadcast that comes from another process.
bool MemoryUse::is_received(const CallArguments& arguments) const {
  for (const Argument& one : source_) {
    PyObject* given = one.name.empty() ? nullptr : keyword_of(arguments, one.name);
    if (one.position >= 0 && one.position < arguments.positional) given = arguments.values[one.position];
    if (given == nullptr || PyLong_Check(given) == 0) continue;
    return PyLong_AsLong(given) != py::module_::import("torch.distributed").attr("get_rank")().cast<long>();
  }
  return false;
}

// Operators of a library, torch.ops: an argument that is written and has to be named is only written; of
// another one the schema does not say whether it is read before.
void MemoryUse::add_schema(PyObject* function) {
  const py::object schema = py::getattr(function, "_schema", py::none());
  if (schema.is_none()) return;
  Py_ssize_t position = 0;
  for (const py::handle argument : schema.attr("arguments")) {
    const py::object alias = argument.attr("alias_info");
    const bool is_written = !alias.is_none() && alias.attr("is_write").cast<bool>();
    if (is_written) {
      Argument one{position, argument.attr("name").cast<std::string>()};
      (argument.attr("kwarg_only").cast<bool>() ? not_read_ : perhaps_read_).push_back(std::move(one));
    }
    ++position;
  }
}

// ---- of a call

namespace {

const MemoryUse& use_of_modules() {
  static const auto* const use = new MemoryUse("", Py_None);  // never let go of: it outlives the interpreter
  return *use;
}

}  // namespace

CallMemory::CallMemory(Known& known, const CallArguments& arguments)
    : CallMemory(known, use_of_modules(), arguments) {}

bool CallMemory::says_where(const at::Tensor& tensor) const {
  const c10::ScalarType type = tensor.scalar_type();
  return type == c10::kBool || (!is_first_ && (type == c10::kLong || type == c10::kInt));
}

// What a backward pass hands to a function in Python was computed by the engine, whom nobody sees write. Not
// so in hooks of parameters, which may fill a bucket: behind their node nothing comes.
State CallMemory::state_of(const at::Tensor& tensor) {
  const State state = known_.state_of(tensor);
  if (state != State::kUnknown) return state;
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr || node->num_outputs() == 0) return state;
  known_.note_known(tensor);
  return State::kKnown;
}

bool CallMemory::takes(const at::Tensor& tensor) {
  if (!tensor.defined()) return true;
  if (is_result_) return takes_result(tensor);
  if (read_ == MemoryUse::Read::kNotRead) {
    state_of(tensor);  // whether somebody else has written to it
    return false;
  }
  const State state = state_of(tensor);
  const bool is_filled = is_first_ && use_.fills_places(arguments_);
  // As many as there are values; of one number, as there are places. A mask does not say how many.
  if (!is_filled && tensor.scalar_type() != c10::kBool) moved_elements_ = tensor.numel();
  if (read_ == MemoryUse::Read::kMoved && !says_where(tensor)) {
    State& moved = is_filled ? filled_ : moved_;
    moved = std::max(moved, state);
    moved_storages_.push_back(storage_of(tensor));
    return state == State::kKnown;
  }
  if (state == State::kUndefined) return false;
  known_.note_known(tensor);
  return true;
}

bool CallMemory::takes_result(const at::Tensor& tensor) {
  if (use_.gives_undefined()) {
    known_.note_undefined(tensor);
    return false;
  }
  const bool fills = use_.fills_places(arguments_);
  if (!(use_.only_moves() || fills) || (moved_ == State::kKnown && filled_ == State::kKnown)) {
    known_.note_known(tensor);
    return true;
  }
  if (fills) {
    if (moved_ != State::kUndefined) known_.note_written_somewhere(tensor, moved_elements_);
    is_filled_ = true;
    return false;
  }
  const void* const storage = storage_of(tensor);
  if (std::find(moved_storages_.begin(), moved_storages_.end(), storage) != moved_storages_.end())
    return false;
  if (moved_ == State::kUndefined) {
    known_.note_undefined(tensor);
  } else {
    known_.note_unknown(tensor);
  }
  return false;
}

void CallMemory::finish() {
  if (!is_filled_ && filled_ != State::kKnown && arguments_.positional == 3) fill_place();
}

// x[index] = value, which has no result.
void CallMemory::fill_place() {
  PyObject* const self = arguments_.values[0];
  if (!THPVariable_Check(self) || moved_ == State::kUndefined) return;
  PyObject* const index = arguments_.values[1];
  if (!is_basic(index)) {
    known_.note_written_somewhere(THPVariable_Unpack(self), moved_elements_);
    return;
  }
  const NoModes no_modes;
  const c10::NoGradGuard no_gradients;
  const auto place = py::reinterpret_steal<py::object>(PyObject_GetItem(self, index));
  if (!place) PyErr_Clear();
  if (!place || !THPVariable_Check(place.ptr())) return;
  if (moved_ == State::kKnown) {
    known_.note_known(THPVariable_Unpack(place.ptr()));
  } else {
    known_.note_unknown(THPVariable_Unpack(place.ptr()));
  }
}
