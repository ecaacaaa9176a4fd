// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// What the modules of a model get and give, measured where they are called.

#include <c10/util/flat_hash_map.h>
#include <pybind11/stl.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../held.h"
#include "../python_text.h"
#include "attention_calls.h"
#include "distributed_tensor.h"
#include "function_mode.h"
#include "interception.h"
#include "measured_tensors.h"
#include "module_calls.h"
#include "monitor.h"
#include "msprobe/error.h"
#include "msprobe/log.h"
#include "msprobe/monitor_frame.h"
#include "native_type.h"

namespace py = pybind11;

namespace {

namespace monitor = msprobe::monitor;
using msprobe::torch_adapter::CallGradients;
using msprobe::torch_adapter::TensorMeter;
using SharedFrame = std::shared_ptr<monitor::Frame>;
using Tensors = std::vector<at::Tensor>;

enum class Side : std::uint8_t { kInput, kOutput };

// The labels of what a module gets and gives.
struct SideLabels {
  std::optional<std::uint32_t> single;
  std::vector<std::uint32_t> several;
};

// A module whose output decides where tokens go.
struct Router {
  std::int64_t experts;
  std::int64_t top;
  double capacity;
  std::uint32_t load;  // labels
  std::uint32_t probability;
  std::uint32_t entropy;
};

// A module that is watched.
struct Watched {
  Held<> module;  // alive as long as it is looked up by its address
  int stage;
  std::string name;
  std::uint32_t group;
  bool measured;  // false: it is watched as a place for what is in it only
  std::int32_t forward_micro_step = 0;
  std::int32_t backward_micro_step = 0;
  std::optional<Router> router;
  std::optional<std::pair<std::uint32_t, std::uint32_t>> attention;  // labels of logits and entropies
  std::array<SideLabels, 2> labels;
  std::array<SideLabels, 2> gradient_labels;  // where they are others
};

struct Settings {
  bool forward;
  bool inputs;  // are measured, not only outputs; then names tell the side
  bool backward;
  bool only_in_training;      // calls of a module in evaluation mode are passed by
  bool positional_gradients;  // all positional arguments have a place among gradients, and no others
  std::optional<std::uint32_t> gradient_group;  // labels of gradients are others, in this group
  std::int32_t
      micro_steps;  // of a step; the counters of a module begin anew behind so many; 0: nothing is counted
  bool merges;      // rows are parts of whole tensors, which processes add up
  bool settles;     // settle_module() tells what a call returns behind the module's own hooks

  std::int32_t behind(std::int32_t micro_step) const {
    return micro_steps == 0 ? 0 : (micro_step + 1) % micro_steps;
  }
  std::int32_t written(std::int32_t micro_step) const { return micro_steps == 0 ? -1 : micro_step; }
};

// Whether a tensor stands for elements that this process has to count. Not a term of a sum that is not made
// yet, and, where processes add up, not what another one counts.
bool counts_here(const at::Tensor& tensor, const Settings& settings) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->is_python_dispatch()) return true;
  const auto part = find_held_part(tensor);
  return !part || (!part->is_partial && !(settings.merges && part->is_repeated));
}

bool is_partial(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->is_python_dispatch()) return false;
  const auto part = find_held_part(tensor);
  return part && part->is_partial;
}

// All that listeners, which may outlive a step, share with the watch.
struct Shared {
  SharedMeter meter;
  std::shared_ptr<monitor::CallCounter> calls;
  std::shared_ptr<monitor::Labels> labels;
  SharedFrame forward;
  SharedFrame backward;
  Settings settings;
  std::mutex mutex;  // of the counters and labels of modules, which backward threads use, too

  // "{name}.input", and of several tensors "{name}.input_0", ...; where only outputs are measured "{name}"
  // and
  // "{name}:0".
  std::uint32_t label(Watched& watched, Side side, std::size_t index, std::size_t count, bool of_gradient) {
    const bool is_apart = of_gradient && settings.gradient_group.has_value();
    const std::uint32_t group = is_apart ? *settings.gradient_group : watched.group;
    std::string name = watched.name;
    if (settings.inputs) name += side == Side::kInput ? ".input" : ".output";
    const std::lock_guard lock(mutex);
    SideLabels& known = (is_apart ? watched.gradient_labels : watched.labels)[static_cast<std::size_t>(side)];
    if (count == 1) {
      if (!known.single) known.single = labels->add({watched.stage, name, group});
      return *known.single;
    }
    name += settings.inputs ? '_' : ':';
    while (known.several.size() <= index) {
      known.several.push_back(
          labels->add({watched.stage, name + std::to_string(known.several.size()), group}));
    }
    return known.several[index];
  }
};

// The gradients of one call, which become rows of the frame when they are complete.
class GradientRows final : public CallGradients::Listener {
 public:
  GradientRows(std::shared_ptr<Shared> shared, std::shared_ptr<Watched> watched, std::size_t inputs,
               std::size_t outputs)
      : shared_(std::move(shared)), watched_(std::move(watched)), arrived_{std::vector<bool>(inputs), {}} {
    arrived_[1].resize(outputs);
  }

  void arrived(bool of_output, std::size_t index, const at::Tensor& gradient) override {
    const Side side = of_output ? Side::kOutput : Side::kInput;
    std::vector<bool>& all = arrived_[static_cast<std::size_t>(side)];
    if (index >= all.size() || !gradient.defined()) return;
    all[index] = true;
    if (side == Side::kInput && !shared_->settings.inputs) return;
    if (shared_->settings.settles && !counts_here(gradient, shared_->settings)) {
      all[index] = false;
      return;
    }
    const std::int32_t micro = shared_->settings.written(micro_step());
    const TensorMeter::Item item{shared_->label(*watched_, side, index, all.size(), true), micro, gradient};
    shared_->meter->measure(*shared_->backward, {&item, 1}, nullptr);
  }

  void complete() override {
    const std::int32_t counted = micro_step();
    const std::int32_t micro = shared_->settings.written(counted);
    for (const Side side : {Side::kInput, Side::kOutput}) {
      if (side == Side::kInput && !shared_->settings.inputs) continue;
      const std::vector<bool>& all = arrived_[static_cast<std::size_t>(side)];
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i] && shared_->settings.micro_steps == 0) continue;  // no gradient is no number
        const std::uint32_t label = shared_->label(*watched_, side, i, all.size(), true);
        const std::uint32_t call = shared_->calls->next();
        if (all[i]) {
          shared_->backward->set_call(label, micro, call);
        } else {
          monitor::Row row;
          row.label = label;
          row.micro_step = micro;
          row.call = call;
          row.missing = true;
          shared_->backward->add(std::move(row));
        }
      }
    }
    for (std::vector<bool>& all : arrived_) all.assign(all.size(), false);  // the graph may run again
    const std::lock_guard lock(shared_->mutex);
    watched_->backward_micro_step = shared_->settings.behind(counted);
  }

 private:
  std::int32_t micro_step() const {
    const std::lock_guard lock(shared_->mutex);
    return watched_->backward_micro_step;
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Watched> watched_;
  std::array<std::vector<bool>, 2> arrived_;
};

struct OpenWatchedCall {
  const void* owner;
  std::shared_ptr<Watched> watched;
  bool measured = false;    // the forward
  bool is_forward = false;  // not the repetition of one, and the module is one that counts
  std::vector<std::uint32_t> input_labels;
  std::shared_ptr<CallGradients::Before> before;
  Tensors inputs;
};
thread_local std::vector<OpenWatchedCall> open_watched_calls;

// A call whose outputs are sums that the module's own hooks will make.
struct UnsettledCall {
  const void* owner;
  std::shared_ptr<Watched> watched;
};
thread_local std::vector<UnsettledCall> unsettled_calls;

bool is_attribute_true(PyObject* object, const char* attribute) {
  const auto value = py::reinterpret_steal<py::object>(PyObject_GetAttrString(object, attribute));
  if (!value) PyErr_Clear();
  return value && PyObject_IsTrue(value.ptr()) == 1;
}

// Tensors given to a call: positional ones, then those by keyword.
Tensors inputs_of(const CallArguments& arguments) {
  Tensors tensors;
  const auto add = [&](PyObject* value) {
    if (THPVariable_Check(value)) tensors.push_back(THPVariable_Unpack(value));
  };
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) add(arguments.values[i]);
  arguments.for_each_keyword([&](PyObject*, PyObject* value) { add(value); });
  return tensors;
}

// Positional arguments, undefined where they are no tensors.
Tensors positional(const CallArguments& arguments) {
  Tensors tensors;
  for (Py_ssize_t i = 0; i < arguments.positional; ++i) {
    PyObject* const value = arguments.values[i];
    tensors.push_back(THPVariable_Check(value) ? at::Tensor(THPVariable_Unpack(value)) : at::Tensor());
  }
  return tensors;
}

// A tensor, or what a tuple or list holds, undefined where that is no tensor; anything else has no outputs.
Tensors outputs_of(PyObject* result) {
  Tensors tensors;
  const auto add = [&](PyObject* value) {
    tensors.push_back(THPVariable_Check(value) ? at::Tensor(THPVariable_Unpack(value)) : at::Tensor());
  };
  if (THPVariable_Check(result)) {
    add(result);
  } else if (PyTuple_Check(result) && !THPSize_Check(result)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) add(PyTuple_GET_ITEM(result, i));
  } else if (PyList_Check(result)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result); ++i) add(PyList_GET_ITEM(result, i));
  }
  return tensors;
}

class ModuleWatch : public ModuleObserver,
                    public CallObserver,
                    public std::enable_shared_from_this<ModuleWatch> {
 public:
  ModuleWatch(SharedMeter meter, std::shared_ptr<monitor::CallCounter> calls,
              std::shared_ptr<monitor::Labels> labels, SharedFrame forward, SharedFrame backward,
              Settings settings)
      : shared_(std::make_shared<Shared>()) {
    shared_->meter = std::move(meter);
    shared_->calls = std::move(calls);
    shared_->labels = std::move(labels);
    shared_->forward = std::move(forward);
    shared_->backward = std::move(backward);
    shared_->settings = settings;
  }

  // `group`: of its labels; a number of its own without.
  void watch(const py::object& module, int stage, const std::string& name, bool measured,
             std::optional<std::uint32_t> group) {
    auto& watched = modules_[module.ptr()];
    if (watched) {
      watched->measured = watched->measured || measured;
      return;
    }
    watched = std::make_shared<Watched>();
    watched->measured = measured;
    watched->module = module;
    watched->stage = stage;
    watched->name = name;
    watched->group = group.value_or(static_cast<std::uint32_t>(modules_.size()));
  }

  // A watched module whose output, or one of whose outputs, has a number for each expert.
  void watch_router(const py::object& module, std::int64_t experts, std::int64_t top, double capacity,
                    std::uint32_t load, std::uint32_t probability, std::uint32_t entropy) {
    const auto found = modules_.find(module.ptr());
    if (found == modules_.end()) throw msprobe::InvalidArgument("monitor: expected a module that is watched");
    found->second->router = Router{experts, top, capacity, load, probability, entropy};
  }

  // Attention inside of the innermost watched module that is being called, of at most `queries` queries of
  // each head. New labels are named "{module}" in the groups given.
  void set_attention(std::int64_t queries, std::uint32_t logit_group, std::uint32_t entropy_group) {
    attention_queries_ = queries;
    logit_group_ = logit_group;
    entropy_group_ = entropy_group;
  }

  std::size_t size() const { return modules_.size(); }

  void forget_modules() { std::exchange(modules_, {}); }

  void set_recording(bool recording) { recording_ = recording; }

  // Completes what is known of gradients. Counters begin anew.
  void end_step() {
    {
      const py::gil_scoped_release no_gil;
      gradients_.end_step();
    }
    const std::lock_guard lock(shared_->mutex);
    for (const auto& [module, watched] : modules_) {
      watched->forward_micro_step = watched->backward_micro_step = 0;
    }
  }

  py::object module_call(const py::object& original, const py::object& with_hooks) {
    return make_module_call(shared_from_this(), original, with_hooks);
  }

  bool watches(PyObject* module) override { return recording_ && modules_.find(module) != modules_.end(); }

  void begin_module(PyObject* module, const CallArguments& arguments) override {
    const auto found = modules_.find(module);
    if (found == modules_.end() || !recording_) return;
    OpenWatchedCall call{this, found->second, false, false, {}, nullptr, {}};
    attempt([&] { begin(call, module, arguments); });
    open_watched_calls.push_back(std::move(call));
  }

  void end_module(PyObject* module, const CallArguments&, PyObject* result) override {
    auto open = open_watched_calls.rbegin();
    while (open != open_watched_calls.rend() &&
           (open->owner != this || open->watched->module.ptr() != module)) {
      ++open;
    }
    if (open == open_watched_calls.rend()) return;
    OpenWatchedCall call = std::move(*open);
    open_watched_calls.erase(std::prev(open.base()), open_watched_calls.end());
    if (result == nullptr || !recording_) return;
    attempt([&] { end(call, result); });
  }

  // What a call of a module with hooks of its own has returned; None: it raised.
  void settle_module(const py::object& module, const py::object& result) {
    while (!unsettled_calls.empty()) {
      const UnsettledCall call = unsettled_calls.back();
      const bool is_this = call.owner == this && call.watched->module.is(module);
      // Those of calls that ended by an exception are in the way.
      const auto known = std::any_of(unsettled_calls.begin(), unsettled_calls.end(), [&](const auto& one) {
        return one.owner == this && one.watched->module.is(module);
      });
      if (!known) return;
      unsettled_calls.pop_back();
      if (!is_this) continue;
      if (recording_ && !result.is_none()) {
        attempt([&] { measure_outputs(*call.watched, outputs_of(result.ptr())); });
      }
      return;
    }
  }

  // ---- attention

  py::object function_mode() {
    if (!mode_) mode_ = make_function_mode(shared_from_this());
    return mode_;
  }
  void push_mode(const py::object& mode) { push_function_mode(mode); }
  // The mode lives as long as the process, and we with it, until it is retired.
  void retire_mode() {
    if (mode_) retire_function_mode(mode_);
    mode_ = py::object();
  }

  Api* api_of(PyObject* function) override {
    if (!recording_) return nullptr;
    if (!attention_.is_found()) attempt([&] { attention_.find(); });
    return attention_.api_of(function);
  }

  bool is_inside_call() const override { return false; }

  PyObject* observe(Api& api, PyObject* callable, const CallArguments& arguments) override {
    const bool wanted = !open_watched_calls.empty() && open_watched_calls.back().owner == this &&
                        open_watched_calls.back().is_forward;
    if (wanted) {
      attempt([&] { measure_attention(api, arguments, open_watched_calls.back()); });
    }
    return arguments.call(callable);
  }

 private:
  void measure_attention(const Api& api, const CallArguments& arguments, OpenWatchedCall& call) {
    const auto rows = attention_.rows_of(api, arguments, call.watched->name, attention_queries_);
    if (!rows) return;
    auto& labels = call.watched->attention;
    if (!labels) {
      const std::lock_guard lock(shared_->mutex);
      labels.emplace(shared_->labels->add({call.watched->stage, call.watched->name, logit_group_}),
                     shared_->labels->add({call.watched->stage, call.watched->name, entropy_group_}));
    }
    const std::array<TensorMeter::Item, 2> items{TensorMeter::Item{labels->first, -1, rows->largest},
                                                 TensorMeter::Item{labels->second, -1, rows->entropy}};
    shared_->meter->measure(*shared_->forward, items, nullptr);
  }

  void route(const Router& router, const Tensors& outputs) {
    for (const at::Tensor& output : outputs) {
      if (!output.defined() || !output.is_floating_point() || output.dim() < 1 ||
          output.size(-1) != router.experts || output.numel() == 0) {
        continue;
      }
      const auto routing = msprobe::torch_adapter::routing(output, router.top);
      shared_->meter->measure_counts(*shared_->forward, router.load, routing.counts, router.capacity);
      const std::array<TensorMeter::Item, 2> items{
          TensorMeter::Item{router.probability, -1, routing.probability},
          TensorMeter::Item{router.entropy, -1, routing.entropy}};
      shared_->meter->measure(*shared_->forward, items, nullptr);
      return;
    }
  }

  template <typename Work>
  static void attempt(Work work) {
    try {
      work();
    } catch (const std::exception& e) {
      msprobe::log(msprobe::LogLevel::kWarning,
                   std::string("monitor: a call is not measured: ") + error_text(e));
    }
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
  }

  void begin(OpenWatchedCall& call, PyObject* module, const CallArguments& arguments) {
    const Settings& settings = shared_->settings;
    if (settings.only_in_training && !is_attribute_true(module, "training")) return;
    call.inputs = inputs_of(arguments);
    // Inside of a backward a call is one that activation checkpointing repeats.
    const bool repeated = torch::autograd::get_current_node() != nullptr;
    call.measured = settings.forward && !repeated && call.watched->measured;
    if (call.measured && settings.inputs) {
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        call.input_labels.push_back(
            shared_->label(*call.watched, Side::kInput, i, call.inputs.size(), false));
      }
      measure(call.input_labels, call.inputs, *call.watched, nullptr);  // now: the call may change them
    }
    call.is_forward = !repeated;
    if (!settings.backward || !call.watched->measured) return;
    if (settings.positional_gradients) call.inputs = positional(arguments);
    call.before = gradients_.before_call(call.inputs);
  }

  void end(OpenWatchedCall& call, PyObject* result) {
    const Tensors outputs = outputs_of(result);
    if (call.is_forward && call.watched->router) route(*call.watched->router, outputs);
    if (call.measured) {
      Watched& watched = *call.watched;
      const std::int32_t micro = shared_->settings.written(watched.forward_micro_step);
      for (const std::uint32_t label : call.input_labels) {
        shared_->forward->set_call(label, micro, shared_->calls->next());
      }
      if (shared_->settings.settles && std::any_of(outputs.begin(), outputs.end(), &is_partial)) {
        unsettled_calls.push_back({this, call.watched});
      } else {
        measure_outputs(watched, outputs);
      }
      watched.forward_micro_step = shared_->settings.behind(watched.forward_micro_step);
    }
    if (call.before) {
      auto listener =
          std::make_unique<GradientRows>(shared_, call.watched, call.inputs.size(), outputs.size());
      gradients_.after_call(call.before, call.inputs, outputs, std::move(listener));
    }
  }

  void measure_outputs(Watched& watched, const Tensors& outputs) {
    std::vector<std::uint32_t> labels;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      labels.push_back(shared_->label(watched, Side::kOutput, i, outputs.size(), false));
    }
    measure(labels, outputs, watched, shared_->calls.get());
  }

  void measure(const std::vector<std::uint32_t>& labels, const Tensors& tensors, const Watched& watched,
               monitor::CallCounter* calls) {
    std::vector<TensorMeter::Item> items;
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (!tensors[i].defined() && shared_->settings.micro_steps == 0) continue;  // no tensor is no number
      if (shared_->settings.settles && !counts_here(tensors[i], shared_->settings)) continue;
      items.push_back({labels[i], shared_->settings.written(watched.forward_micro_step), tensors[i]});
      if (tensors[i].defined() && !tensors[i].is_nested()) elements += tensors[i].numel();
    }
    std::optional<py::gil_scoped_release> no_gil;
    if (elements >= kElementsWithoutGil) no_gil.emplace();
    shared_->meter->measure(*shared_->forward, items, calls);
  }

  std::shared_ptr<Shared> shared_;
  CallGradients gradients_;
  ska::flat_hash_map<PyObject*, std::shared_ptr<Watched>> modules_;
  bool recording_ = false;
  std::int64_t attention_queries_ = 0;
  std::uint32_t logit_group_ = 0;
  std::uint32_t entropy_group_ = 0;
  AttentionCalls attention_;
  Held<> mode_;
};

}  // namespace

void register_monitor_modules(py::module_& m) {
  py::class_<ModuleWatch, std::shared_ptr<ModuleWatch>>(m, "MonitorModules", py::is_final())
      .def(
          py::init([](SharedMeter meter, std::shared_ptr<monitor::CallCounter> calls,
                      std::shared_ptr<monitor::Labels> labels, SharedFrame forward, SharedFrame backward,
                      bool measure_forward, bool measure_inputs, bool measure_backward, bool only_in_training,
                      bool positional_gradients, std::optional<std::uint32_t> gradient_group,
                      std::int32_t micro_steps, bool merges, bool settles) {
            return std::make_shared<ModuleWatch>(
                std::move(meter), std::move(calls), std::move(labels), std::move(forward),
                std::move(backward),
                Settings{measure_forward, measure_inputs, measure_backward, only_in_training,
                         positional_gradients, gradient_group, std::max(0, micro_steps), merges, settles});
          }),
          py::arg("meter"), py::arg("calls"), py::arg("labels"), py::arg("forward"), py::arg("backward"),
          py::kw_only(), py::arg("measure_forward") = true, py::arg("measure_inputs") = true,
          py::arg("measure_backward") = true, py::arg("only_in_training") = true,
          py::arg("positional_gradients") = false, py::arg("gradient_group") = py::none(),
          py::arg("micro_steps") = 1, py::arg("merges") = false, py::arg("settles") = false)
      .def("__len__", &ModuleWatch::size)
      .def("watch", &ModuleWatch::watch, py::arg("module"), py::arg("stage"), py::arg("name"),
           py::arg("measured") = true, py::arg("group") = py::none())
      .def("watch_router", &ModuleWatch::watch_router, py::arg("module"), py::arg("experts"), py::arg("top"),
           py::arg("capacity"), py::arg("load"), py::arg("probability"), py::arg("entropy"))
      .def("set_attention", &ModuleWatch::set_attention, py::arg("queries"), py::arg("logit_group"),
           py::arg("entropy_group"))
      .def("function_mode", &ModuleWatch::function_mode)
      .def("push_mode", &ModuleWatch::push_mode, py::arg("mode"))
      .def("retire_mode", &ModuleWatch::retire_mode)
      .def("forget_modules", &ModuleWatch::forget_modules)
      .def("set_recording", &ModuleWatch::set_recording, py::arg("recording"))
      .def("end_step", &ModuleWatch::end_step)
      .def("settle_module", &ModuleWatch::settle_module, py::arg("module"), py::arg("result"))
      .def("module_call", &ModuleWatch::module_call, py::arg("original"), py::arg("with_hooks"))
      .def("before_module", &ModuleWatch::before_module, py::arg("module"), py::arg("args"))
      .def("after_module", &ModuleWatch::after_module);
}
