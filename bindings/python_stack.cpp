// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "python_stack.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "python_text.h"

namespace py = pybind11;

namespace {

constexpr std::size_t kFewestPlaces = 256;
constexpr std::size_t kMostPositions = std::size_t{1} << 20;  // 16 MiB

// The folder of the package, with its separator at the end: frames below it are ours.
const std::string& own_folder() {
  static const std::string folder = [] {
    const auto file = py::module_::import("msprobe").attr("__file__").cast<std::string>();
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

// Code that leads a function to its observer calls a constant, which ordinary code does not.
bool leads_to_observer(PyCodeObject* code) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    if (PyCallable_Check(PyTuple_GET_ITEM(code->co_consts, i)) != 0) return true;
  }
  return false;
}

std::string source_line(PyCodeObject* code, int line) {
  static const py::handle read =
      py::object(py::module_::import("msprobe.files.credentials").attr("source_line")).release();
  const auto text =
      py::reinterpret_steal<py::object>(PyObject_CallFunction(read.ptr(), "Oi", code->co_filename, line));
  if (!text) {
    PyErr_Clear();
    return {};
  }
  return text.cast<std::string>();
}

}  // namespace

StackCollector::StackCollector(msprobe::dump::Recorder& recorder)
    : recorder_(recorder), known_(kFewestPlaces) {}

const std::string* FrameTexts::text_of(const CodePosition& position) {
  const auto known = texts_.find(position);
  if (known != texts_.end()) return known->second;
  const std::string* text = nullptr;
  const std::string file(utf8(position.code->co_filename));
  if (!file.starts_with(own_folder()) && !file.ends_with("/torch/overrides.py") &&
      !leads_to_observer(position.code)) {
    const int line = line_of(position.code, position.instruction);
    const std::string source = source_line(position.code, line);
    if (!source.empty()) {
      text = &*distinct_
                   .insert("File " + file + ", line " + std::to_string(line) + ", in " +
                           std::string(utf8(position.code->co_name)) + ", \n " + source)
                   .first;
    }
  }
  Py_INCREF(position.code);
  texts_.emplace(position, text);
  return text;
}

// Fills stack_, and gives its hash.
std::uint64_t StackCollector::take_stack() {
  stack_.clear();
  std::uint64_t hash = 0;
  for_each_frame([&](PyCodeObject* code, int instruction) {
    stack_.push_back({code, instruction});
    hash = (hash ^ CodePositionHash()(stack_.back())) * 0x9e3779b97f4a7c15U;
    return true;
  });
  return hash ^ hash >> 32;
}

// Where stack_ stands in the table, or would stand.
StackCollector::Known* StackCollector::place_of(std::uint64_t hash) {
  const std::size_t mask = known_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    Known& known = known_[i];
    if (known.shown == nullptr) return &known;
    if (known.hash == hash && known.count == stack_.size() &&
        std::equal(stack_.begin(), stack_.end(), positions_.begin() + known.begin))
      return &known;
  }
}

void StackCollector::grow() {
  std::vector<Known> larger(known_.size() * 2);
  for (const Known& known : known_) {
    if (known.shown == nullptr) continue;
    std::size_t i = known.hash & (larger.size() - 1);
    while (larger[i].shown != nullptr) i = (i + 1) & (larger.size() - 1);
    larger[i] = known;
  }
  known_ = std::move(larger);
}

StackCollector::Shown& StackCollector::add(std::uint64_t hash) {
  const std::vector<CodePosition> positions = stack_;  // looking up source lines runs Python code
  std::vector<const std::string*> texts;
  for (const CodePosition& position : positions) {
    if (const std::string* text = texts_.text_of(position)) texts.push_back(text);
  }
  stack_ = positions;
  if (2 * (known_count_ + 1) > known_.size()) grow();
  Known& place = *place_of(hash);
  Shown& shown = shown_[texts];
  shown.frames = std::move(texts);
  if (place.shown != nullptr) return shown;  // meanwhile known
  place = {hash, static_cast<std::uint32_t>(positions_.size()), static_cast<std::uint32_t>(positions.size()),
           &shown};
  positions_.insert(positions_.end(), positions.begin(), positions.end());
  ++known_count_;
  return shown;
}

msprobe::trace::StackId StackCollector::collect() {
  const std::uint64_t hash = take_stack();
  Shown* known = place_of(hash)->shown;
  Shown& shown = known != nullptr ? *known : add(hash);
  if (shown.step != step_) {
    std::vector<std::string_view> frames;
    for (const std::string* text : shown.frames) frames.emplace_back(*text);
    shown.id = recorder_.stack(frames);
    shown.step = step_;
  }
  return shown.id;
}

void StackCollector::begin_step() {
  ++step_;
  // A program that always runs new code would otherwise fill the memory.
  if (positions_.size() < kMostPositions) return;
  positions_.clear();
  known_.assign(kFewestPlaces, {});
  known_count_ = 0;
  shown_.clear();
}

bool StackCollector::in_recompute() {
  bool found = false;
  int depth_of_backward = -1;  // frames since a function called backward was passed
  for_each_frame([&](PyCodeObject* code, int) {
    const std::string_view name = utf8(code->co_name);
    const std::string_view file = utf8(code->co_filename);
    if (name == "recompute_fn" && file.ends_with("torch/utils/checkpoint.py")) found = true;
    if (depth_of_backward >= 0 && ++depth_of_backward <= 2 && file.ends_with("torch/autograd/function.py")) {
      found = true;
    }
    if (name == "backward" || name == "checkpoint_function_backward") depth_of_backward = 0;
    return !found;
  });
  return found;
}
