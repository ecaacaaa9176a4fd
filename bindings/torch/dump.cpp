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

#include "../held.h"
#include "../python_stack.h"
#include "../python_text.h"
#include "call_memory.h"
#include "compiled_backward.h"
#include "distributed_tensor.h"
#include "function_mode.h"
#include "function_table.h"
#include "inside_call.h"
#include "interception.h"
#include "module_calls.h"
#include "msprobe/dump.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_memory.h"
#include "msprobe/torch_tensors.h"
#include "native_type.h"
#include "python_call.h"
#include "recompute_links.h"
#include "watched_modules.h"

namespace py = pybind11;

namespace {

using msprobe::dump::Session;
using msprobe::dump::ValueWriter;
using msprobe::torch_adapter::BackwardWatch;
using msprobe::torch_adapter::CallOperators;
using msprobe::torch_adapter::KnownMemory;
using msprobe::torch_adapter::OperatorRecorder;
using msprobe::torch_adapter::TensorDescriber;
namespace trace = msprobe::trace;

// A module call that has begun on this thread.
struct OpenRecordedCall {
  PyObject* module;
  msprobe::dump::Call call = {};
  std::shared_ptr<BackwardWatch::Inputs> before = nullptr;
  std::unique_ptr<CallOperators> operators = nullptr;  // level L2, of the wanted call
};
thread_local std::vector<OpenRecordedCall> open_recorded_calls;

// "{name}{between}{number}", with room for what is to follow.
void set_numbered(std::string& out, const std::string& name, std::string_view between, std::int64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.reserve(name.size() + between.size() + digits.size());
  out.assign(name).append(between).append(digits.data(), end);
}

// Everything that is recorded of one process: calls of Python code for a session, which decides what is kept.
class DumpSession : public CallObserver,
                    public ModuleObserver,
                    public std::enable_shared_from_this<DumpSession> {
 public:
  DumpSession(const msprobe::dump::Options& options, bool stacks)
      : session_(of_torch(options)),
        describer_(session_, &find_local),
        backward_(session_, describer_),
        operators_(session_, describer_),
        stacks_(recorder_),
        means_{recorder_, describer_, stacks ? &stacks_ : nullptr},
        functions_(options.all_functions) {}

  // ---- steps

  void open(const std::filesystem::path& directory, bool read_all) {
    const py::gil_scoped_release no_gil;
    describer_.read_all(read_all);
    recorder_.open(directory);
  }

  void move(const std::filesystem::path& directory, bool read_all) {
    const py::gil_scoped_release no_gil;
    describer_.read_all(read_all);
    recorder_.move(directory);
  }

  void begin_flush() {
    const py::gil_scoped_release no_gil;  // a backward on another thread may need it to go on
    backward_.flush();
    describer_.finish();
    recorder_.begin_flush();
  }

  bool attach(const std::filesystem::path& path, std::string content) {
    return recorder_.attach(path, std::move(content));
  }

  void close(bool wait) {
    {
      const py::gil_scoped_release no_gil;
      backward_.flush();
      describer_.finish();
      describer_.end_step();
      backward_.end_step();
      operators_.end_step();
      session_.end_step();
      if (wait) {
        recorder_.close();
      } else {
        recorder_.begin_close();
      }
    }
    ++steps_;
    stacks_.begin_step();
    links_.begin_step();
    memory_.clear();
    functions_.begin_step();
    modules_.begin_step();
  }

  void end() {
    close(true);
    recorder_.end();
    for (const py::object& mode : modes_) retire_function_mode(mode);
    modes_.clear();
  }

  py::dict report() const { return dict_of(recorder_.report()); }

  // Of late steps whose files have been made since.
  py::list finished_reports() {
    py::list reports;
    for (const msprobe::dump::StepReport& report : recorder_.take_finished()) reports.append(dict_of(report));
    return reports;
  }

  py::dict dict_of(const msprobe::dump::StepReport& report) const {
    py::dict result;
    result["records"] = report.records;
    result["tensors"] = report.tensors;
    result["stored_bytes"] = report.stored_bytes;
    result["operators"] = operators_.recorded();
    result["first_non_finite"] = report.first_non_finite;
    result["first_nan"] = report.first_nan;
    result["is_late"] = report.is_late;
    result["is_cut"] = calls_left_ == 0;
    result["has_enough_overflows"] = session_.has_enough_overflows();
    return result;
  }

  // at_most: so many calls of functions; negative: all.
  void set_collecting(bool collecting, std::int64_t at_most) {
    calls_left_ = collecting ? at_most : -1;
    session_.set_collecting(collecting);
  }

  // While it collects: what is called meanwhile is left out.
  void pause(bool is_paused) { session_.set_collecting(!is_paused && calls_left_ != 0); }

  // ---- functions

  void observe_function(const py::object& function, const std::string& name) {
    functions_.observe(function, name);
  }

  py::object wrapper(const py::object& original, const std::string& name, bool distributed) {
    return make_wrapper(shared_from_this(), functions_.add(name, distributed), original);
  }

  py::object function_mode() { return make_function_mode(shared_from_this()); }

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
    if (!session_.is_collecting() || is_inside_call()) return arguments.call(callable);
    const InsideCall inside;
    thread_local ApiCall api_call;  // one at a time: calls inside of this one are not observed
    ApiCall& call = api_call;
    call.clear();
    attempt(api.name, [&] { begin_api(api, callable, arguments, call); });
    PyObject* result = nullptr;
    {
      const ModeOff mode_off(modes_);  // what the function calls need not come by
      result = arguments.call(callable);
    }
    if (result == nullptr) {
      call.clear();
      return nullptr;
    }
    const KeepPythonError no_error_of_ours;
    if (api.distributed && result != Py_None) {
      PyObject* handle = nullptr;
      attempt(call.name(), [&] { handle = record_when_waited(arguments, result, call); });
      if (handle != nullptr) {
        Py_DECREF(result);
        call.clear();
        return handle;
      }
    }
    attempt(call.name(), [&] { end_api(api, arguments, result, call); });
    call.clear();
    return result;
  }

  // ---- modules

  void watch_module(const py::object& module, const std::string& name) { modules_.add(module, name); }

  // Where the parameters of a watched module lie that are plain tensors while it runs: name -> placement.
  void place_parameters(const py::object& module, const py::dict& placements) {
    WatchedModule* watched = modules_.find(module.ptr());
    if (watched == nullptr) return;
    auto& elements = watched->placements = std::make_unique<Placements>();
    for (const auto& [name, placement] : placements) {
      elements->emplace(name.cast<std::string>(), placement_element(placement));
    }
  }

  bool watches_module(const py::object& module) const { return modules_.find(module.ptr()) != nullptr; }
  void pause_module(const py::object& module) { modules_.pause(module.ptr()); }
  // What a model holds when a step begins, and what it and autograd are asked for from outside of recorded
  // calls. What nobody wrote stays undefined.
  void note_known(const std::vector<at::Tensor>& tensors) {
    if (!session_.wants_evidence_only()) return;
    for (const at::Tensor& tensor : tensors) {
      if (memory_.state_of(tensor) != KnownMemory::State::kUndefined) memory_.note_known(tensor);
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
    if (!session_.is_collecting()) return;
    OpenRecordedCall open{module};
    set_numbered(open.call.name, watched->name, ".forward.", number);
    const Session::Interest interest = session_.interest(open.call.name);
    if (interest == Session::Interest::kNothing) return;
    attempt(open.call.name, [&] {
      TensorList inputs;
      if (interest == Session::Interest::kOperators) {
        collect_positional(arguments, inputs.tensors);
        open.operators = std::make_unique<CallOperators>(operators_, session_.wanted(), inputs.tensors);
        return;
      }
      if (session_.wants_evidence_only()) note_arguments(arguments);
      const Recompute recompute = links_.begin_call(watched, number);
      open.call.is_recompute = recompute.is_one;
      if (recompute.original)
        set_numbered(open.call.repeats, watched->name, ".forward.", *recompute.original);
      session_.begin_module(open.call);
      if (!open.call.watches_backward) return;
      collect_positional(arguments, inputs.tensors);
      open.before = backward_.before_call(inputs.tensors);
    });
    open_recorded_calls.push_back(std::move(open));
  }

  void end_module(PyObject* module, const CallArguments& arguments, PyObject* result) override {
    auto found = open_recorded_calls.rbegin();
    while (found != open_recorded_calls.rend() && found->module != module) ++found;
    if (found == open_recorded_calls.rend()) return;
    OpenRecordedCall open = std::move(*found);
    open_recorded_calls.erase(std::prev(found.base()), open_recorded_calls.end());
    attempt(open.call.name, [&] {
      if (session_.interest(open.call.name) == Session::Interest::kOperators) {
        if (open.operators && result != nullptr) finish_operators(*open.operators, result);
      } else if (result == nullptr) {
        session_.end_module(open.call, nullptr);
      } else {
        record_module(module, arguments, result, open);
      }
    });
  }

  // A phase of training that is a place in the hierarchy but no module: "optimizer", "clip_grad".
  void open_phase(const std::string& name) { session_.open_phase(name); }
  void close_phase(const std::string& name) { session_.close_phase(name); }

  // ---- PrecisionDebugger.save

  void save(const py::object& value, const std::string& name, bool with_gradients) {
    const Session::SavedNames names = session_.number_saved(name);
    attempt(names.value, [&] {
      TorchValues values(describer_);
      PythonValues python(recorder_, values);
      session_.write_saved(names.value, [&](ValueWriter& to) { python.put(value.ptr(), to); });
    });
    if (!with_gradients) return;
    attempt(names.gradients, [&] {
      GradientSlots slots(*this, names.gradients);
      PythonValues python(recorder_, slots, PythonValues::Wanted::kTensors);
      session_.write_saved(names.gradients, [&](ValueWriter& to) { python.put(value.ptr(), to); });
    });
  }

 private:
  struct ApiCall {
    msprobe::dump::Call call;  // without a name: the call is not recorded
    Tensors inputs;
    Tensors outputs;
    std::shared_ptr<BackwardWatch::Inputs> before;
    std::optional<CallMemory> memory;
    std::unique_ptr<CallOperators> operators;  // level L2, of the wanted call

    const std::string& name() const { return call.name; }
    CallMemory* known_memory() { return memory ? &*memory : nullptr; }

    // For the next call, which uses the memory again.
    void clear() {
      call.clear();
      inputs.clear();
      outputs.clear();
      before.reset();
      memory.reset();
      operators.reset();
    }
  };

  // In place of a saved value the slots of its gradients, which are filled as they come.
  class GradientSlots final : public TorchValues {
   public:
    GradientSlots(DumpSession& session, const std::string& record)
        : TorchValues(session.describer_), session_(session), record_(record) {}

    bool put_tensor(PyObject* value, ValueWriter& to) override {
      if (!THPVariable_Check(value)) return false;
      const trace::SlotId slot = session_.recorder_.new_slot();
      to.out().slot(slot);
      const at::Tensor& tensor = THPVariable_Unpack(value);
      if (!tensor.requires_grad()) return true;
      tensor.register_hook([self = session_.weak_from_this(), slot, record = record_,
                            position = std::string(to.position())](const at::Tensor& gradient) {
        const auto session = self.lock();
        if (session) session->fill_gradient(slot, gradient, record, position);
      });
      return true;
    }

   private:
    DumpSession& session_;
    const std::string& record_;
  };

  // A fault of ours never reaches the training.
  template <typename Work>
  void attempt(const std::string& record, Work work) {
    try {
      const TensorDescriber::Together together(describer_);
      work();
    } catch (const std::exception& e) {
      recorder_.note_fault(record, error_text(e));
    }
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
  }

  static msprobe::dump::Options of_torch(msprobe::dump::Options options) {
    options.framework = msprobe::torch_adapter::framework();
    return options;
  }

  void begin_api(Api& api, PyObject* callable, const CallArguments& arguments, ApiCall& call) {
    const std::int64_t number = functions_.number_call(api);
    set_numbered(call.call.name, api.name, ".", number);
    call.call.name += ".forward";
    const Session::Interest interest = session_.interest(call.name());
    if (interest == Session::Interest::kNothing) return;
    if (interest == Session::Interest::kOperators) {
      collect_arguments(arguments, call.inputs);
      call.operators = std::make_unique<CallOperators>(operators_, session_.wanted(), call.inputs);
      return;
    }
    const Recompute recompute = links_.begin_call(&api, number);
    call.call.is_recompute = recompute.is_one;
    if (recompute.original) {
      set_numbered(call.call.repeats, api.name, ".", *recompute.original);
      call.call.repeats += ".forward";
    }
    call.call.returns_arguments = api.distributed;
    if (session_.wants_evidence_only()) {
      if (api.memory == nullptr) api.memory = std::make_shared<MemoryUse>(api.name, callable);
      call.memory.emplace(memory_, *api.memory, arguments);
    }
    PythonCall values(means_, arguments, call.inputs, call.outputs, call.known_memory());
    session_.begin_call(call.call, values);
    if (call.call.watches_backward) call.before = backward_.before_call(call.inputs);
  }

  static void finish_operators(CallOperators& operators, PyObject* result) {
    std::vector<at::Tensor> outputs;
    collect_tensors(result, outputs);
    operators.finish(outputs);
  }

  void end_api(Api& api, const CallArguments& arguments, PyObject* result, ApiCall& call) {
    if (call.name().empty()) return;
    const Session::Interest interest = session_.interest(call.name());
    if (interest != Session::Interest::kRecord) {
      if (call.operators) finish_operators(*call.operators, result);
      return;
    }
    PythonCall values(means_, arguments, call.inputs, call.outputs, call.known_memory());
    if (!api.distributed) values.set_result(result);
    session_.end_call(call.call, values);
    if (call.memory) call.memory->finish();
    if (call.before) backward_.after_call(call.before, call.inputs, call.outputs, call.name(), false);
    if (calls_left_ > 0 && --calls_left_ == 0) session_.set_collecting(false);
  }

  void record_module(PyObject* module, const CallArguments& arguments, PyObject* result,
                     OpenRecordedCall& open) {
    TensorList in, out;
    std::optional<CallMemory> memory;
    if (session_.wants_evidence_only()) memory.emplace(memory_, arguments);
    PythonCall values(means_, arguments, in.tensors, out.tensors, memory ? &*memory : nullptr);
    values.set_result(result);
    const WatchedModule* watched = modules_.find(module);
    values.set_module(module, watched == nullptr ? nullptr : watched->placements.get());
    session_.end_module(open.call, &values);
    if (!open.call.watches_backward) return;
    watch_parameters(values.module_parameters(), open.call);
    backward_.after_call(open.before, in.tensors, out.tensors, open.call.name, true);
  }

  // What a module is given is known inside of it.
  void note_arguments(const CallArguments& arguments) {
    TensorList given;
    collect_arguments(arguments, given.tensors);
    note_known(given.tensors);
  }

  void watch_parameters(const py::dict& parameters, const msprobe::dump::Call& module) {
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (const auto& [name, parameter] : parameters) {
      if (THPVariable_Check(parameter.ptr())) {
        named.emplace_back(name.cast<std::string>(), THPVariable_Unpack(parameter.ptr()));
      }
    }
    if (!named.empty()) backward_.watch_parameters(module, named);
  }

  void fill_gradient(trace::SlotId slot, const at::Tensor& gradient, const std::string& record_name,
                     const std::string& position) {
    try {
      describer_.fill(slot, gradient, record_name, position);
    } catch (const std::exception& e) {
      recorder_.note_fault(record_name, error_text(e));
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
    const py::cpp_function done([self, values = py::tuple(values), call = call.call, step = steps_] {
      const auto session = self.lock();
      if (session && session->steps_ == step) session->record_waited(call, values);
    });
    const py::object handle = watched(py::reinterpret_borrow<py::object>(result), done);
    if (handle.is_none()) return nullptr;
    session_.place_call(call.call);
    return handle.inc_ref().ptr();
  }

  void record_waited(const msprobe::dump::Call& call, const py::tuple& values) {
    attempt(call.name, [&] {
      const CallArguments all = CallArguments::of(values.ptr(), nullptr);
      TensorList in, out;
      PythonCall arguments(means_, all, in.tensors, out.tensors);
      session_.write_results(call, arguments);
      if (!session_.wants_evidence_only()) return;
      for (const at::Tensor& tensor : out.tensors) memory_.note_known(tensor);
    });
  }

  Session session_;
  msprobe::dump::Recorder& recorder_ = session_.recorder();
  TensorDescriber describer_;
  BackwardWatch backward_;
  OperatorRecorder operators_;
  StackCollector stacks_;
  PythonCall::Means means_;
  RecomputeLinks links_;
  KnownMemory memory_;
  std::uint64_t steps_ = 0;  // closed so far: a record belongs to one
  FunctionTable functions_;
  std::int64_t calls_left_ = -1;  // of functions, that are still recorded; negative: all
  WatchedModules modules_;
  std::vector<Held<>> modes_;  // that were pushed
};

// Calls a function as if our mode were not there; what it calls is not recorded either.
py::object call_without_mode(const py::object& function, const py::args& args) {
  const InsideCall inside;
  const ModeOff mode_off;
  return function(*args);
}

}  // namespace

void register_dump(py::module_& m) {
  m.def("call_without_mode", &call_without_mode, py::arg("function"));
  m.def("set_class_attributes", &set_class_attributes, py::arg("owner"), py::arg("values"),
        py::arg("removed"));
  py::class_<DumpSession, std::shared_ptr<DumpSession>>(m, "DumpSession", py::is_final())
      .def(py::init<const msprobe::dump::Options&, bool>(), py::arg("options"), py::kw_only(),
           py::arg("stacks") = true)
      .def("open", &DumpSession::open, py::arg("directory"), py::arg("read_all") = false)
      .def("move", &DumpSession::move, py::arg("directory"), py::arg("read_all") = false)
      .def("begin_flush", &DumpSession::begin_flush)
      .def("attach", &DumpSession::attach, py::arg("path"), py::arg("content"))
      .def("close", &DumpSession::close, py::kw_only(), py::arg("wait") = true)
      .def("end", &DumpSession::end)
      .def("report", &DumpSession::report)
      .def("finished_reports", &DumpSession::finished_reports)
      .def("set_collecting", &DumpSession::set_collecting, py::arg("collecting"), py::arg("at_most") = -1)
      .def("pause", &DumpSession::pause, py::arg("is_paused"))
      .def("observe_function", &DumpSession::observe_function, py::arg("function"), py::arg("name"))
      .def("wrapper", &DumpSession::wrapper, py::arg("original"), py::arg("name"),
           py::arg("distributed") = false)
      .def("function_mode", &DumpSession::function_mode)
      .def("push_mode", &DumpSession::push_mode, py::arg("mode"))
      .def("watch_module", &DumpSession::watch_module, py::arg("module"), py::arg("name"))
      .def("place_parameters", &DumpSession::place_parameters, py::arg("module"), py::arg("placements"))
      .def("watches_module", &DumpSession::watches_module, py::arg("module"))
      .def("pause_module", &DumpSession::pause_module, py::arg("module"))
      .def("note_known", &DumpSession::note_known, py::arg("tensors"))
      .def("forget_modules", &DumpSession::forget_modules)
      .def("module_call", &DumpSession::module_call, py::arg("original"), py::arg("with_hooks"))
      .def("before_module", &DumpSession::before_module, py::arg("module"), py::arg("args"))
      .def("after_module", &DumpSession::after_module)
      .def("open_phase", &DumpSession::open_phase, py::arg("name"))
      .def("close_phase", &DumpSession::close_phase, py::arg("name"))
      .def("save", &DumpSession::save, py::arg("value"), py::arg("name"), py::arg("with_gradients") = true);
}
