// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "dump.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "call_parts.h"
#include "compiled_backward.h"
#include "distributed_tensor.h"
#include "function_table.h"
#include "inside_call.h"
#include "interception.h"
#include "intervention.h"
#include "module_calls.h"
#include "msprobe/dump.h"
#include "msprobe/torch_dump.h"
#include "native_type.h"
#include "python_elements.h"
#include "python_stack.h"
#include "recompute_links.h"
#include "watched_modules.h"

namespace py = pybind11;

namespace {

using msprobe::dump::Recorder;
using msprobe::torch_adapter::BackwardWatch;
using msprobe::torch_adapter::CallOperators;
using msprobe::torch_adapter::OperatorRecorder;
using msprobe::torch_adapter::TensorDescriber;
namespace trace = msprobe::trace;

// A module call that has begun on this thread.
struct OpenCall {
  PyObject* module;
  std::string name;
  std::shared_ptr<BackwardWatch::Inputs> before;
  std::unique_ptr<CallOperators> operators;  // level L2, of the wanted call
  Recompute recompute = {};
};
thread_local std::vector<OpenCall> open_calls;

// "{name}{between}{number}", with room for what is to follow.
void set_numbered(std::string& out, const std::string& name, std::string_view between, std::int64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.reserve(name.size() + between.size() + digits.size());
  out.assign(name).append(between).append(digits.data(), end);
}

// Everything that is recorded of one process: the Python half of the data dump.
class DumpSession : public CallObserver,
                    public ModuleObserver,
                    public std::enable_shared_from_this<DumpSession> {
 public:
  DumpSession(msprobe::dump::Options options, bool stacks, bool has_phases, std::string wanted)
      : recorder_(std::move(options)),
        describer_(recorder_, &find_local),
        parts_(recorder_, describer_),
        backward_(recorder_, describer_),
        operators_(recorder_, describer_),
        wanted_(std::move(wanted)),
        stacks_(recorder_),
        collects_stacks_(stacks),
        has_phases_(has_phases),
        functions_(recorder_.options().all_functions) {}

  // ---- steps

  void open(const std::filesystem::path& directory) {
    const py::gil_scoped_release no_gil;
    recorder_.open(directory);
  }

  void begin_flush() {
    const py::gil_scoped_release no_gil;  // a backward on another thread may need it to go on
    backward_.flush();
    describer_.fetch();
    recorder_.begin_flush();
  }

  void close(bool wait) {
    {
      const py::gil_scoped_release no_gil;
      backward_.flush();
      describer_.fetch();
      backward_.end_step();
      operators_.end_step();
      if (wait) {
        recorder_.close();
      } else {
        recorder_.begin_close();
      }
    }
    ++steps_;
    stacks_.begin_step();
    links_.begin_step();
    functions_.begin_step();
    modules_.begin_step();
    saved_counts_.clear();
  }

  void end() {
    close(true);
    recorder_.end();
    for (const py::object& mode : modes_) retire_function_mode(mode);
    modes_.clear();
  }

  py::dict report() const {
    const msprobe::dump::StepReport report = recorder_.report();
    py::dict result;
    result["records"] = report.records;
    result["tensors"] = report.tensors;
    result["stored_bytes"] = report.stored_bytes;
    result["operators"] = operators_.recorded();
    result["first_non_finite"] = report.first_non_finite;
    result["first_nan"] = report.first_nan;
    result["has_enough_overflows"] = recorder_.has_enough_overflows();
    return result;
  }

  // For tests: tensors of the CPU are measured as those of a device.
  void treat_all_as_on_device() { describer_.treat_all_as_on_device(); }

  void set_collecting(bool collecting) { collecting_ = collecting; }

  // ---- functions

  void observe_function(const py::object& function, const std::string& name) {
    functions_.observe(function, name);
  }

  py::object wrapper(const py::object& original, const std::string& name, bool distributed) {
    return make_wrapper(front(), functions_.add(name, distributed), original);
  }

  py::object function_mode() { return make_function_mode(front()); }

  // What is recorded from then on is what the rules make of calls. Before wrapper() and function_mode().
  void intervene(std::shared_ptr<Interventions> interventions) { interventions_ = std::move(interventions); }

  // Puts a mode of function_mode() on torch's stack; it keeps the session, until that ends.
  void push_mode(const py::object& mode) {
    const auto is_it = [&](const py::object& known) { return known.is(mode); };
    if (std::none_of(modes_.begin(), modes_.end(), is_it)) modes_.push_back(mode);
    push_function_mode(mode);
  }

  Api* api_of(PyObject* function) override {
    Api* api = nullptr;
    attempt("api_set", [&] { api = functions_.find(function); });
    return api;
  }

  bool is_inside_call() const override { return InsideCall::is_so() || in_compiled_backward(); }

  PyObject* observe(Api& api, PyObject* callable, const CallArguments& arguments) override {
    if (!collecting_ || is_inside_call()) return arguments.call(callable);
    const InsideCall inside;
    thread_local ApiCall call;  // one at a time: calls inside of this one are not observed
    call.clear();
    attempt(api.name, [&] { begin_api(api, arguments, call); });
    PyObject* result = nullptr;
    {
      const ModeOff mode_off;  // what the function calls need not come by
      result = arguments.call(callable);
    }
    if (result == nullptr) {
      call.clear();
      return nullptr;
    }
    const KeepPythonError no_error_of_ours;
    if (api.distributed && result != Py_None) {
      PyObject* handle = nullptr;
      attempt(call.name, [&] { handle = record_when_waited(arguments, result, call); });
      if (handle != nullptr) {
        Py_DECREF(result);
        call.clear();
        return handle;
      }
    }
    attempt(call.name, [&] { end_api(api, arguments, result, call); });
    call.clear();
    return result;
  }

  // ---- modules

  void watch_module(const py::object& module, const std::string& name) { modules_.add(module, name); }

  // Where the parameters of a watched module lie that are plain tensors while it runs: name -> placement.
  void place_parameters(const py::object& module, const py::dict& placements) {
    WatchedModule* watched = modules_.find(module.ptr());
    if (watched == nullptr) return;
    auto& elements = watched->placements = std::make_unique<CallParts::Placements>();
    for (const auto& [name, placement] : placements) {
      elements->emplace(name.cast<std::string>(), placement_element(placement));
    }
  }

  void forget_modules() { modules_.clear(); }

  py::object module_call(const py::object& original, const py::object& with_hooks) {
    return make_module_call(shared_from_this(), original, with_hooks);
  }

  bool watches(PyObject* module) override { return modules_.find(module) != nullptr; }

  void begin_module(PyObject* module, const CallArguments& arguments) override {
    WatchedModule* watched = modules_.find(module);
    if (watched == nullptr) return;
    const std::int64_t number = modules_.begin_call(*watched);
    OpenCall call{module, {}, nullptr, nullptr};
    set_numbered(call.name, watched->name, ".forward.", number);
    if (!collecting_) return;
    if (!wanted_.empty()) {
      if (!CallOperators::concerns(wanted_, call.name)) return;
      attempt(call.name, [&] {
        std::vector<at::Tensor> inputs;
        collect_positional(arguments, inputs);
        call.operators = std::make_unique<CallOperators>(operators_, wanted_, inputs);
      });
      open_calls.push_back(std::move(call));
      return;
    }
    attempt(call.name, [&] {
      call.recompute = links_.begin_call(watched, number);
      recorder_.open_module(call.name);
      TensorList inputs;
      collect_positional(arguments, inputs.tensors);
      call.before = backward_.before_call(inputs.tensors);
    });
    open_calls.push_back(std::move(call));
  }

  void end_module(PyObject* module, const CallArguments& arguments, PyObject* result) override {
    auto open = open_calls.rbegin();
    while (open != open_calls.rend() && open->module != module) ++open;
    if (open == open_calls.rend()) return;
    OpenCall call = std::move(*open);
    open_calls.erase(std::prev(open.base()), open_calls.end());
    if (!wanted_.empty()) {
      if (call.operators && result != nullptr) {
        attempt(call.name, [&] { finish_operators(*call.operators, result); });
      }
      return;
    }
    bool kept = false;
    attempt(call.name, [&] { kept = recorder_.close_module(call.name); });
    if (result == nullptr || !collecting_ || !kept) return;
    attempt(call.name, [&] { record_module(module, arguments, result, call); });
  }

  // A phase of training that is a place in the hierarchy but no module: "optimizer", "clip_grad".
  void open_phase(const std::string& name) {
    if (collecting_ && has_phases_) recorder_.open_module(name);
  }
  void close_phase(const std::string& name) { recorder_.close_module(name); }

  // ---- PrecisionDebugger.save

  void save(const py::object& value, const std::string& name, bool with_gradients) {
    const std::int64_t count = saved_counts_[name]++;
    const std::string number = "." + std::to_string(count) + ".debug";
    const std::string record_name = name + number;
    attempt(record_name, [&] {
      const trace::RecordId record = recorder_.record(trace::RecordKind::kSaved, record_name);
      parts_.saved(record, record_name, value.ptr());
    });
    if (!with_gradients) return;
    const std::string gradients_name = name + "_grad" + number;
    attempt(gradients_name, [&] { save_gradients(value, gradients_name); });
  }

 private:
  struct ApiCall {
    std::string name;      // record name; empty: the call is not recorded
    std::string_view api;  // that of the function, for as long as the call
    Recompute recompute;
    bool kept = false;
    bool recorded = false;
    trace::RecordId record = 0;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    std::shared_ptr<BackwardWatch::Inputs> before;
    std::unique_ptr<CallOperators> operators;  // level L2, of the wanted call

    // For the next call, which uses the memory again.
    void clear() {
      name.clear();
      api = {};
      recompute = {};
      kept = recorded = false;
      record = 0;
      inputs.clear();
      outputs.clear();
      before.reset();
      operators.reset();
    }
  };

  // A fault of ours never reaches the training.
  template <typename Work>
  void attempt(const std::string& record, Work work) {
    try {
      work();
    } catch (const std::exception& e) {
      recorder_.note_fault(record, e.what());
    }
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
  }

  const msprobe::dump::Options& options() const { return recorder_.options(); }

  void begin_api(Api& api, const CallArguments& arguments, ApiCall& call) {
    const std::int64_t number = functions_.number_call(api);
    set_numbered(call.name, api.name, ".", number);
    call.name += ".forward";
    call.api = api.name;
    call.recompute = links_.begin_call(&api, number);
    if (!wanted_.empty()) {
      if (!CallOperators::concerns(wanted_, call.name)) return;
      collect_arguments(arguments, call.inputs);
      call.operators = std::make_unique<CallOperators>(operators_, wanted_, call.inputs);
      return;
    }
    call.kept = recorder_.keeps_api(call.name);
    if (!call.kept) return;
    if (options().only_overflow) {
      call.kept = parts_.overflows(&arguments, nullptr, &call.inputs);
      if (call.kept) begin_api_record(arguments, call);
    } else {
      begin_api_record(arguments, call);
    }
    if (options().backward) call.before = backward_.before_call(call.inputs);
  }

  void begin_api_record(const CallArguments& arguments, ApiCall& call) {
    call.recorded = true;
    call.inputs.clear();
    if (options().forward) {
      const std::string original =
          call.recompute.original
              ? std::string(call.api) + "." + std::to_string(*call.recompute.original) + ".forward"
              : "";
      call.record = recorder_.record(trace::RecordKind::kApiForward, call.name, stack(),
                                     call.recompute.is_one, original);
    }
    if (writes_inputs()) {
      parts_.inputs(call.record, call.name, arguments, call.inputs);
    } else {
      collect_arguments(arguments, call.inputs);
    }
  }

  static std::string original_module_call(const OpenCall& call) {
    if (!call.recompute.original) return {};
    return call.name.substr(0, call.name.rfind('.') + 1) + std::to_string(*call.recompute.original);
  }

  static void finish_operators(CallOperators& operators, PyObject* result) {
    std::vector<at::Tensor> outputs;
    collect_tensors(result, outputs);
    operators.finish(outputs);
  }

  void count_overflow() {
    recorder_.note_overflow();
    if (recorder_.has_enough_overflows()) collecting_ = false;
  }

  bool writes_inputs() const { return options().data && options().forward && options().input; }
  bool writes_outputs() const { return options().data && options().forward && options().output; }

  void end_api(Api& api, const CallArguments& arguments, PyObject* result, ApiCall& call) {
    if (call.name.empty()) return;
    if (!wanted_.empty()) {
      if (call.operators) finish_operators(*call.operators, result);
      return;
    }
    recorder_.place(call.name);
    std::vector<at::Tensor>& outputs = call.outputs;
    if (options().only_overflow && call.before && !call.recorded && parts_.overflows(nullptr, result)) {
      call.kept = true;
      begin_api_record(arguments, call);  // inputs that the call changed in place are shown as they are now
    }
    if (call.recorded && options().only_overflow) count_overflow();
    if (api.distributed) {
      if (call.kept && writes_outputs()) parts_.arguments_as_output(call.record, call.name, arguments);
      return;
    }
    if (call.kept && writes_outputs()) {
      parts_.output(call.record, call.name, result, outputs);
    } else if (call.before) {
      collect_tensors(result, outputs);
    }
    if (call.before) backward_.after_call(call.before, call.inputs, outputs, call.name, false);
  }

  void record_module(PyObject* module, const CallArguments& arguments, PyObject* result, OpenCall& call) {
    if (options().only_overflow) {
      if (!parts_.overflows(&arguments, result)) return;
      count_overflow();
    }
    TensorList in, out;
    std::vector<at::Tensor>& inputs = in.tensors;
    std::vector<at::Tensor>& outputs = out.tensors;
    static const py::handle name_of_parameters = PyUnicode_InternFromString("_parameters");
    const py::dict parameters = py::handle(module).attr(name_of_parameters);
    if (options().forward) {
      const trace::RecordId record = recorder_.record(trace::RecordKind::kModuleForward, call.name, stack(),
                                                      call.recompute.is_one, original_module_call(call));
      if (writes_inputs()) parts_.inputs(record, call.name, arguments, inputs);
      if (writes_outputs()) parts_.output(record, call.name, result, outputs);
      if (options().data) {
        const WatchedModule* watched = modules_.find(module);
        parts_.parameters(record, call.name, parameters,
                          watched == nullptr ? nullptr : watched->placements.get());
      }
    }
    if (!options().backward) return;
    if (!writes_inputs()) collect_arguments(arguments, inputs);
    if (!writes_outputs()) collect_tensors(result, outputs);
    watch_parameters(parameters, call.name);
    if (call.before) backward_.after_call(call.before, inputs, outputs, call.name, true);
  }

  void watch_parameters(const py::dict& parameters, const std::string& module_call) {
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (const auto& [name, parameter] : parameters) {
      if (THPVariable_Check(parameter.ptr())) {
        named.emplace_back(name.cast<std::string>(), THPVariable_Unpack(parameter.ptr()));
      }
    }
    if (named.empty()) return;
    constexpr std::string_view kGradients = ".parameters_grad";
    const std::string_view module = std::string_view(module_call).substr(0, module_call.rfind(".forward."));
    std::string name;
    name.reserve(module.size() + kGradients.size());
    backward_.watch_parameters(name.append(module).append(kGradients), named);
  }

  // What functions are led to.
  std::shared_ptr<CallObserver> front() {
    if (!interventions_) return shared_from_this();
    return with_interventions(shared_from_this(), interventions_);
  }

  trace::StackId stack() { return collects_stacks_ ? stacks_.collect() : trace::kNoStack; }

  void save_gradients(const py::object& value, const std::string& record_name) {
    const std::weak_ptr<DumpSession> self = weak_from_this();
    const auto watch = [&](const at::Tensor& tensor, trace::SlotId slot, const std::string& position) {
      tensor.register_hook([self, slot, record_name, position](const at::Tensor& gradient) {
        const auto session = self.lock();
        if (session) session->fill_gradient(slot, gradient, record_name, position);
      });
    };
    parts_.saved_gradients(record_name, value.ptr(), watch);
  }

  void fill_gradient(trace::SlotId slot, const at::Tensor& gradient, const std::string& record_name,
                     const std::string& position) {
    try {
      describer_.fill(slot, gradient, record_name, position);
    } catch (const std::exception& e) {
      recorder_.note_fault(record_name, e.what());
    }
  }

  // A collective that runs behind: its arguments are recorded when the script has waited for it. Null: it is
  // complete already.
  PyObject* record_when_waited(const CallArguments& arguments, PyObject* result, const ApiCall& call) {
    static const py::handle watched =
        py::object(py::module_::import("msprobe.training.collectives").attr("watched")).release();
    py::list values;
    for (Py_ssize_t i = 0; i < arguments.positional; ++i) values.append(py::handle(arguments.values[i]));
    arguments.for_each_keyword([&](PyObject*, PyObject* value) { values.append(py::handle(value)); });
    const std::weak_ptr<DumpSession> self = weak_from_this();
    const py::cpp_function done([self, values = py::tuple(values), name = call.name, record = call.record,
                                 kept = call.kept, step = steps_] {
      const auto session = self.lock();
      if (!session || session->steps_ != step || !kept || !session->writes_outputs()) return;
      CallArguments all;
      all.values = &PyTuple_GET_ITEM(values.ptr(), 0);
      all.positional = PyTuple_GET_SIZE(values.ptr());
      session->attempt(name, [&] { session->parts_.arguments_as_output(record, name, all); });
    });
    const py::object handle = watched(py::reinterpret_borrow<py::object>(result), done);
    if (handle.is_none()) return nullptr;
    recorder_.place(call.name);
    return handle.inc_ref().ptr();
  }

  Recorder recorder_;
  TensorDescriber describer_;
  CallParts parts_;
  BackwardWatch backward_;
  OperatorRecorder operators_;
  const std::string wanted_;  // level L2: the call whose operators are recorded, and nothing else is
  StackCollector stacks_;
  RecomputeLinks links_;
  bool collects_stacks_;
  bool has_phases_;
  bool collecting_ = false;
  std::uint64_t steps_ = 0;  // closed so far: a record belongs to one
  FunctionTable functions_;
  WatchedModules modules_;
  std::vector<py::object> modes_;  // that were pushed
  std::shared_ptr<Interventions> interventions_;
  std::unordered_map<std::string, std::int64_t> saved_counts_;
};

// Calls a function as if our mode were not there; what it calls is not recorded either.
py::object call_without_mode(const py::object& function, const py::args& args) {
  const InsideCall inside;
  const ModeOff mode_off;
  return function(*args);
}

std::shared_ptr<DumpSession> make_session(msprobe::dump::Options options, bool stacks) {
  std::string wanted;
  if (options.level == "L2" && !options.list.empty()) {
    wanted = options.list.front();
    options.list.clear();  // it names the one call, and is no part of names
  }
  const bool has_phases = options.level == "mix";
  return std::make_shared<DumpSession>(std::move(options), stacks, has_phases, std::move(wanted));
}

}  // namespace

void register_dump(py::module_& m) {
  m.def("call_without_mode", &call_without_mode, py::arg("function"));
  m.def("set_class_attributes", &set_class_attributes, py::arg("owner"), py::arg("values"),
        py::arg("removed"));
  py::class_<DumpSession, std::shared_ptr<DumpSession>>(m, "DumpSession", py::is_final())
      .def(py::init(&make_session), py::arg("options"), py::kw_only(), py::arg("stacks") = true)
      .def("open", &DumpSession::open, py::arg("directory"))
      .def("begin_flush", &DumpSession::begin_flush)
      .def("close", &DumpSession::close, py::kw_only(), py::arg("wait") = true)
      .def("end", &DumpSession::end)
      .def("report", &DumpSession::report)
      .def("treat_all_as_on_device", &DumpSession::treat_all_as_on_device)
      .def("set_collecting", &DumpSession::set_collecting, py::arg("collecting"))
      .def("observe_function", &DumpSession::observe_function, py::arg("function"), py::arg("name"))
      .def("wrapper", &DumpSession::wrapper, py::arg("original"), py::arg("name"),
           py::arg("distributed") = false)
      .def("function_mode", &DumpSession::function_mode)
      .def("push_mode", &DumpSession::push_mode, py::arg("mode"))
      .def("intervene", &DumpSession::intervene, py::arg("interventions"))
      .def("watch_module", &DumpSession::watch_module, py::arg("module"), py::arg("name"))
      .def("place_parameters", &DumpSession::place_parameters, py::arg("module"), py::arg("placements"))
      .def("forget_modules", &DumpSession::forget_modules)
      .def("module_call", &DumpSession::module_call, py::arg("original"), py::arg("with_hooks"))
      .def("before_module", &DumpSession::before_module, py::arg("module"), py::arg("args"))
      .def("after_module", &DumpSession::after_module)
      .def("open_phase", &DumpSession::open_phase, py::arg("name"))
      .def("close_phase", &DumpSession::close_phase, py::arg("name"))
      .def("save", &DumpSession::save, py::arg("value"), py::arg("name"), py::arg("with_gradients") = true);
}
