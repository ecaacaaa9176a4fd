// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../python_frames.h"
#include "core.h"

namespace {

// Counts calls by operation and call stack. Known stacks cost a walk over the frames and one look-up. Needs
// the GIL in every function.
class StackCounter {
 public:
  static constexpr std::int64_t kEnough = -1;

  StackCounter(std::uint64_t most_calls, std::size_t most_stacks)
      : most_calls_(most_calls), most_stacks_(most_stacks) {}
  StackCounter(const StackCounter&) = delete;
  StackCounter& operator=(const StackCounter&) = delete;
  ~StackCounter() {
    for (const auto& [stack, _] : counts_) {
      for (const CodePosition& position : stack) Py_XDECREF(reinterpret_cast<PyObject*>(position.code));
    }
  }

  // The number of a stack that is seen for the first time, kEnough with the last call that is counted, else
  // nothing. The innermost frame, which asks, does not belong to the stack.
  std::optional<std::int64_t> count(int operation) {
    if (!active_) return std::nullopt;
    Stack stack =
        std::exchange(buffer_, {});  // where frames are objects, making them may run a program's code
    stack.clear();
    stack.push_back({nullptr, operation});
    bool asks = true;
    for_each_frame([&](PyCodeObject* code, int instruction) {
      if (!std::exchange(asks, false)) stack.push_back({code, instruction});
      return true;
    });
    std::optional<std::int64_t> result;
    if (const auto known = counts_.find(stack); known != counts_.end()) {
      if (known->second.left_out) return give_back(std::move(stack), result);
      ++known->second.calls;
    } else if (counts_.size() < most_stacks_) {
      for (const CodePosition& position : stack) Py_XINCREF(reinterpret_cast<PyObject*>(position.code));
      result = static_cast<std::int64_t>(order_.size());
      order_.push_back(&*counts_.emplace(stack, Count{}).first);
    }
    if (++calls_ >= most_calls_ && !result) result = kEnough;
    return give_back(std::move(stack), result);
  }

  // Its calls are not counted from now on, and the first one was not.
  void leave_out(std::size_t number) {
    order_.at(number)->second.left_out = true;
    --calls_;
  }

  void stop() noexcept { active_ = false; }
  bool has_enough() const noexcept { return calls_ >= most_calls_; }

  // Operation, number and calls of each stack, in the order in which they were first seen.
  std::vector<std::tuple<int, std::size_t, std::uint64_t>> counts() const {
    std::vector<std::tuple<int, std::size_t, std::uint64_t>> result;
    for (std::size_t number = 0; number < order_.size(); ++number) {
      const auto& [stack, count] = *order_[number];
      if (!count.left_out) result.emplace_back(stack.front().instruction, number, count.calls);
    }
    return result;
  }

 private:
  using Stack = std::vector<CodePosition>;  // begins with the operation, which has no code
  struct Count {
    std::uint64_t calls = 1;
    bool left_out = false;
  };

  std::optional<std::int64_t> give_back(Stack&& stack, std::optional<std::int64_t> result) {
    buffer_ = std::move(stack);
    return result;
  }

  const std::uint64_t most_calls_;
  const std::size_t most_stacks_;
  bool active_ = true;
  std::uint64_t calls_ = 0;
  Stack buffer_;
  std::unordered_map<Stack, Count, CodePositionHash> counts_;  // keeps the code objects of its keys alive
  std::vector<std::pair<const Stack, Count>*> order_;
};

struct Operation {
  std::shared_ptr<StackCounter> counter;
  int number;
};

constexpr const char* kOperation = "msprobe.Operation";

PyObject* count_call(PyObject* self, PyObject*) {
  try {
    const auto* operation = static_cast<const Operation*>(PyCapsule_GetPointer(self, kOperation));
    if (const auto number = operation->counter->count(operation->number)) return PyLong_FromLongLong(*number);
  } catch (const std::exception&) {
    // No memory: the program, which asked for a random number, will notice itself.
  }
  Py_RETURN_NONE;
}

// A plain function of C: it is called a thousand times in a step.
py::object counting(const std::shared_ptr<StackCounter>& counter, int operation) {
  static PyMethodDef definition{"count", &count_call, METH_NOARGS, nullptr};
  const py::capsule self(new Operation{counter, operation}, kOperation,
                         [](void* pointer) { delete static_cast<Operation*>(pointer); });
  return py::reinterpret_steal<py::object>(PyCFunction_New(&definition, self.ptr()));
}

}  // namespace

void register_stack_counter(py::module_& m) {
  py::class_<StackCounter, std::shared_ptr<StackCounter>>(m, "StackCounter", py::is_final())
      .def(py::init<std::uint64_t, std::size_t>(), py::kw_only(), py::arg("most_calls"),
           py::arg("most_stacks"))
      .def("counting", &counting, py::arg("operation"))
      .def("leave_out", &StackCounter::leave_out, py::arg("number"))
      .def("stop", &StackCounter::stop)
      .def_property_readonly("has_enough", &StackCounter::has_enough)
      .def("counts", &StackCounter::counts);
}
