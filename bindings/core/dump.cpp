// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/dump.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../held.h"
#include "../python_stack.h"
#include "../python_text.h"
#include "../python_values.h"
#include "core.h"
#include "msprobe/config.h"
#include "msprobe/stats.h"
#include "port_tensor.h"

namespace {

using msprobe::dump::Session;
using msprobe::dump::ValueWriter;
namespace dump = msprobe::dump;
namespace trace = msprobe::trace;

// Smaller tensors are measured before another thread would have had Python's lock.
constexpr std::size_t kBytesWithoutLock = std::size_t{1} << 16;
// Smaller tensors are done before other threads would have begun.
constexpr std::size_t kBytesForThreads = std::size_t{1} << 20;

// The elements in the order of their indices.
void copy_elements(const msprobe::TensorView& view, std::size_t size, std::size_t dimension,
                   const std::byte* from, std::byte*& to) {
  if (dimension == view.shape.size()) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  const std::ptrdiff_t stride = view.strides[dimension] * static_cast<std::ptrdiff_t>(size);
  for (std::int64_t i = 0; i < view.shape[dimension]; ++i)
    copy_elements(view, size, dimension + 1, from + i * stride, to);
}

// Of bfloat16 elements, which are the upper halves of such.
std::vector<std::byte> as_float32(const std::vector<std::byte>& halves) {
  std::vector<std::byte> whole(2 * halves.size());
  for (std::size_t i = 0; i + 1 < halves.size(); i += 2) {
    whole[2 * i + 2] = halves[i];
    whole[2 * i + 3] = halves[i + 1];
  }
  return whole;
}

// Describes tensors of a framework that Python alone knows: `port` has its class, and says where their memory
// is. All needs Python's lock.
class PortValues final : public FrameworkValues {
 public:
  PortValues(Session& session, const py::object& port)
      : session_(session),
        recorder_(session.recorder()),
        tensor_type_(port.attr("tensor_type")),
        view_(port.attr("view")),
        special_(port.attr("special")),
        npy_(writes_npy(port)) {}

  static bool writes_npy(const py::object& port) {
    return py::getattr(port, "npy", py::bool_(true)).cast<bool>();
  }

  bool is_tensor(PyObject* value) const {
    const int is_one = PyObject_IsInstance(value, tensor_type_.ptr());
    if (is_one < 0) PyErr_Clear();
    return is_one > 0;
  }
  bool put_tensor(PyObject* value, ValueWriter& to) override {
    if (!is_tensor(value)) return false;
    describe(py::reinterpret_borrow<py::object>(value), to);
    return true;
  }
  bool put_keyed(PyObject* value, std::string_view key, ValueWriter& to) override {
    return put_special(value, key, to);
  }
  bool put_object(PyObject* value, ValueWriter& to) override { return put_special(value, {}, to); }

  void describe(const py::object& value, ValueWriter& to) {
    const PortTensor tensor(view_(value));
    trace::TensorElement element;
    element.dtype = msprobe::dtype_named(tensor.dtype);
    if (!element.dtype) element.dtype_text = tensor.dtype;
    element.shape = tensor.shape;
    element.requires_grad = tensor.requires_grad;
    std::string data_name;
    if (!tensor.address) {
      recorder_.note_skipped("statistics of a tensor that " + tensor.unreadable);
    } else if (element.dtype) {
      try {
        const msprobe::TensorView view = tensor.view(*element.dtype);
        const auto bytes =
            static_cast<std::size_t>(msprobe::element_count(view)) * msprobe::element_size(view.dtype);
        if (bytes > 0) element.statistics = measure(view, bytes);
        if (to.takes_files()) {
          data_name = recorder_.data_name(to.record(), to.position());
          store(view, bytes, data_name);
          element.data_name = data_name;
        }
      } catch (const msprobe::Error& e) {
        recorder_.note_fault(to.record(), e.what());
      }
    }
    to.out().tensor(element);
  }

 private:
  bool put_special(PyObject* value, std::string_view key, ValueWriter& to) {
    const py::object said = special_(py::reinterpret_borrow<py::object>(value), key);
    if (said.is_none()) return false;
    if (py::isinstance<py::tuple>(said)) {
      const auto [type, text] = said.cast<std::pair<std::string, std::string>>();
      to.out().typed_text(type, text);
    } else if (py::isinstance<py::list>(said)) {
      to.out().size(said.cast<std::vector<std::int64_t>>());
    } else {
      put_fields(said, to.out());
    }
    return true;
  }

  // Texts, and lists of integers.
  static void put_fields(const py::dict& fields, trace::ElementWriter& out) {
    out.begin_object();
    for (const auto& [key, value] : fields) {
      out.key(key.cast<std::string>());
      if (py::isinstance<py::str>(value)) {
        out.plain_text(value.cast<std::string>());
        continue;
      }
      out.begin_list();
      for (const std::int64_t number : value.cast<std::vector<std::int64_t>>()) out.plain_integer(number);
      out.end();
    }
    out.end();
  }

  trace::Statistics measure(const msprobe::TensorView& view, std::size_t bytes) {
    const trace::Measures& measures = session_.measures();
    if (bytes < kBytesWithoutLock) return trace::measure(view, measures);
    msprobe::ThreadPool* pool = nullptr;  // several threads may measure at once; then each by itself
    if (bytes >= kBytesForThreads && !pool_in_use_) {
      if (!pool_) pool_.emplace(0);
      pool = &*pool_;
      pool_in_use_ = true;
    }
    struct Done {
      bool* in_use;
      ~Done() {
        if (in_use != nullptr) *in_use = false;
      }
    } const done{pool == nullptr ? nullptr : &pool_in_use_};
    const py::gil_scoped_release no_gil;
    return trace::measure(view, measures, pool);
  }

  void store(const msprobe::TensorView& view, std::size_t bytes, const std::string& data_name) {
    auto owner = std::make_shared<std::vector<std::byte>>(bytes);
    const py::gil_scoped_release no_gil;  // the queue may be full
    std::byte* to = owner->data();
    const auto* const from = static_cast<const std::byte*>(view.data);
    if (msprobe::is_c_contiguous(view)) {
      std::copy_n(from, bytes, to);
    } else {
      copy_elements(view, msprobe::element_size(view.dtype), 0, from, to);
    }
    dump::StoredTensor stored;
    stored.dtype = view.dtype;
    if (npy_ && view.dtype == msprobe::DType::kBFloat16) {  // which NumPy's files do not have
      *owner = as_float32(*owner);
      stored.dtype = msprobe::DType::kFloat32;
    }
    stored.data = owner->data();
    stored.owner = std::move(owner);
    stored.shape.assign(view.shape.begin(), view.shape.end());
    recorder_.store(data_name, std::move(stored));
  }

  Session& session_;
  dump::Recorder& recorder_;
  Held<> tensor_type_;
  Held<> view_;
  Held<> special_;
  bool npy_;
  std::optional<msprobe::ThreadPool> pool_;
  bool pool_in_use_ = false;  // guarded by Python's lock
};

// A call that is under way, or whose gradients are to come.
struct PortCall {
  dump::Call call;
  bool is_module = false;
  std::shared_ptr<const dump::Frame> around;  // the module call it runs in
};

// What Python code of a framework records: calls, modules, gradients. Filters, names and files are those of
// every framework (dump::Session).
class PortSession : public std::enable_shared_from_this<PortSession> {
 public:
  PortSession(const msprobe::config::Config& config, const py::object& port, bool stacks, bool packed,
              bool sketch)
      : session_(options_of(config, port, packed, sketch)),
        values_(session_, port),
        stacks_(stacks ? std::make_unique<StackCollector>(session_.recorder()) : nullptr) {}

  void open(const std::filesystem::path& directory) {
    const py::gil_scoped_release no_gil;
    session_.recorder().open(directory);
  }
  void begin_flush() {
    const py::gil_scoped_release no_gil;
    session_.recorder().begin_flush();
  }
  bool attach(const std::filesystem::path& path, std::string content) {
    return session_.recorder().attach(path, std::move(content));
  }
  void close() {
    {
      const py::gil_scoped_release no_gil;
      session_.end_step();
      session_.recorder().close();
    }
    if (stacks_) stacks_->begin_step();
  }
  void end() {
    close();
    session_.recorder().end();
  }
  py::dict report() const {
    const dump::StepReport report = const_cast<Session&>(session_).recorder().report();
    py::dict result;
    result["records"] = report.records;
    result["tensors"] = report.tensors;
    result["stored_bytes"] = report.stored_bytes;
    result["first_non_finite"] = report.first_non_finite;
    result["first_nan"] = report.first_nan;
    result["has_enough_overflows"] = session_.has_enough_overflows();
    return result;
  }
  void set_collecting(bool collecting) { session_.set_collecting(collecting); }
  bool is_collecting() const { return session_.is_collecting(); }

  // Null: nothing of the call is wanted.
  std::unique_ptr<PortCall> begin_call(const std::string& name, const py::tuple& args, const py::dict& kwargs,
                                       bool returns_arguments, bool is_recompute) {
    if (!wants(name)) return nullptr;
    auto call = std::make_unique<PortCall>();
    call->call.name = name;
    call->call.is_recompute = is_recompute;
    call->call.returns_arguments = returns_arguments;
    call->around = session_.recorder().innermost();
    Values values(*this, args, kwargs);
    session_.begin_call(call->call, values);
    return call;
  }
  void end_call(PortCall& call, const py::tuple& args, const py::dict& kwargs, const py::object& result) {
    Values values(*this, args, kwargs);
    // A collective that returns nothing leaves its result in its arguments.
    if (!call.call.returns_arguments || !result.is_none()) values.result = result;
    session_.end_call(call.call, values);
  }

  std::unique_ptr<PortCall> begin_module(const std::string& name, bool is_recompute) {
    if (!wants(name)) return nullptr;
    auto call = std::make_unique<PortCall>();
    call->call.name = name;
    call->call.is_recompute = is_recompute;
    call->is_module = true;
    call->around = session_.recorder().innermost();
    session_.begin_module(call->call);
    return call;
  }
  void end_module(PortCall& call, const py::tuple& args, const py::dict& kwargs, const py::object& result,
                  const py::dict& parameters) {
    Values values(*this, args, kwargs);
    values.result = result;
    values.named = parameters;
    session_.end_module(call.call, &values);
  }
  void fail_module(PortCall& call) { session_.end_module(call.call, nullptr); }

  // A place in the hierarchy that is no module: "optimizer".
  void open_phase(const std::string& name) { session_.open_phase(name); }
  void close_phase(const std::string& name) { session_.close_phase(name); }

  // Gradients of the results and of the arguments, None where there is none.
  void write_backward(const PortCall& call, const py::tuple& of_outputs, const py::tuple& of_inputs) {
    const std::string name = dump::backward_name(call.call.name);
    const dump::Backward backward{name, call.is_module, call.around.get()};
    const bool is_kept = session_.begin_backward(backward);
    trace::ElementWriter arrived, leaving;
    if (is_kept) {
      const dump::Files files = session_.files_of(name);
      const bool asks_first = session_.keeps_overflows_only() && files != dump::Files::kNone;
      const auto put = [&](dump::Files with) {
        put_backward(call, name, of_outputs, of_inputs, with, arrived, leaving);
        return std::max(arrived.worst(), leaving.worst());
      };
      if (!asks_first || session_.keeps_overflow(put(dump::Files::kNone))) put(files);
    }
    session_.write_backward(backward, is_kept, {arrived.bytes(), arrived.worst()},
                            {leaving.bytes(), leaving.worst()});
  }

  // A function for each parameter, to be called with its gradient; empty: none is wanted.
  std::vector<py::cpp_function> watch_parameters(const PortCall& module,
                                                 const std::vector<std::string>& names) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    std::vector<trace::SlotId> slots(names.size());
    const std::shared_ptr<dump::ParameterGradients> record =
        session_.watch_parameters(module.call, views, slots);
    std::vector<py::cpp_function> fills;
    if (!record) return fills;
    for (std::size_t i = 0; i < names.size(); ++i) {
      fills.emplace_back(
          [owner = weak_from_this(), record, slot = slots[i], name = names[i]](const py::object& gradient) {
            const auto self = owner.lock();
            if (self == nullptr || !self->session_.takes_gradient(*record, self->worst_of(gradient))) return;
            self->fill(slot, gradient, std::string(record->name()), name + ".0");
          });
    }
    return fills;
  }

  // Gives the name for the record of its gradients.
  std::string save(const py::object& value, const std::string& name) {
    const Session::SavedNames names = session_.number_saved(name);
    session_.write_saved(names.value, [&](ValueWriter& to) {
      PythonValues(session_.recorder(), values_).put(value.ptr(), to);
    });
    return names.gradients;
  }
  // Writes a record with a place for the gradient of each tensor of `value`, and gives a function for each,
  // in the order of the tensors.
  std::vector<std::pair<py::object, py::cpp_function>> save_gradients(const py::object& value,
                                                                      const std::string& record);

  void note_fault(const std::string& record, const std::string& what) {
    session_.recorder().note_fault(record, what);
  }
  void note_skipped(const std::string& reason) { session_.recorder().note_skipped(reason); }

 private:
  // The values of one call.
  class Values final : public dump::CallValues {
   public:
    Values(PortSession& owner, const py::tuple& args, const py::dict& kwargs)
        : owner_(owner), args_(args), kwargs_(kwargs) {}

    void arguments(ValueWriter& to) override { items(args_, to); }
    void keywords(ValueWriter& to) override { members(kwargs_, to); }
    bool are_results_an_object() const override {
      return result && PyTuple_Check(result.ptr()) != 0 && PythonValues::has_fields(result.ptr());
    }
    void results(ValueWriter& to) override {
      if (!result) return items(args_, to);
      if (are_results_an_object()) return python().put(result.ptr(), to);
      if (PyTuple_Check(result.ptr()) != 0) return items(py::reinterpret_borrow<py::tuple>(result), to);
      to.item(0, [&] { python().put(result.ptr(), to); });
    }
    void parameters(ValueWriter& to) override { members(named, to); }
    trace::StackId stack() override { return owner_.stacks_ ? owner_.stacks_->collect() : trace::kNoStack; }

    Held<> result;
    Held<py::dict> named;

   private:
    PythonValues python() { return {owner_.session_.recorder(), owner_.values_}; }
    void items(const py::tuple& values, ValueWriter& to) {
      for (std::size_t i = 0; i < values.size(); ++i)
        to.item(i, [&] { python().put(PyTuple_GET_ITEM(values.ptr(), static_cast<Py_ssize_t>(i)), to); });
    }
    void members(const py::dict& values, ValueWriter& to) {
      for (const auto& [key, value] : values) python().put_member(key.ptr(), value.ptr(), to);
    }

    PortSession& owner_;
    const py::tuple& args_;
    const py::dict& kwargs_;
  };

  // In place of a saved value the slots of its gradients.
  class GradientSlots;

  static dump::Options options_of(const msprobe::config::Config& config, const py::object& port, bool packed,
                                  bool sketch) {
    dump::Options options = msprobe::config::dump_options(config);
    options.packed |= packed && !options.deferred;
    options.sketch = options.sketch && sketch;
    options.framework = {.name = port.attr("name").cast<std::string>(),
                         .package = port.attr("package").cast<std::string>(),
                         .qualifies_dtypes = port.attr("qualifies_dtypes").cast<bool>(),
                         .has_requires_grad = says(port, "has_requires_grad"),
                         .has_recompute = says(port, "has_recompute")};
    options.npy = PortValues::writes_npy(port);
    return options;
  }

  static bool says(const py::object& port, const char* name) {
    return py::getattr(port, name, py::bool_(false)).cast<bool>();
  }

  bool wants(const std::string& name) const {
    return session_.is_collecting() && session_.interest(name) == Session::Interest::kRecord;
  }

  void put_backward(const PortCall& call, const std::string& record, const py::tuple& of_outputs,
                    const py::tuple& of_inputs, dump::Files files, trace::ElementWriter& arrived,
                    trace::ElementWriter& leaving) {
    const Session::Kept& kept =
        session_.kept(call.is_module ? trace::RecordKind::kModuleBackward : trace::RecordKind::kApiBackward);
    arrived.clear();
    leaving.clear();
    if (kept.inputs) put_gradients(of_outputs, ValueWriter(arrived, record, files), "input");
    if (kept.outputs) put_gradients(of_inputs, ValueWriter(leaving, record, files), "output");
  }

  void put_gradients(const py::tuple& gradients, ValueWriter to, const char* category) {
    to.begin(category);
    PythonValues python(session_.recorder(), values_, PythonValues::Wanted::kTensors);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      to.item(i, [&] { python.put(PyTuple_GET_ITEM(gradients.ptr(), static_cast<Py_ssize_t>(i)), to); });
  }

  // Asked for by task overflow_check only.
  trace::Badness worst_of(const py::object& gradient) {
    if (!session_.keeps_overflows_only()) return trace::Badness::kGood;
    trace::ElementWriter out;
    ValueWriter to(out, {}, dump::Files::kNone);
    to.begin({});
    values_.put_tensor(gradient.ptr(), to);
    return out.worst();
  }

  void fill(trace::SlotId slot, const py::object& gradient, const std::string& record,
            const std::string& position) {
    trace::ElementWriter out;
    ValueWriter to(out, record, session_.files_of(record));
    to.begin(position);
    if (values_.put_tensor(gradient.ptr(), to)) session_.recorder().fill(slot, out.bytes());
  }

  Session session_;
  PortValues values_;
  std::unique_ptr<StackCollector> stacks_;
};

// Tensors, and what takes their gradients.
using GradientFills = std::vector<std::pair<py::object, py::cpp_function>>;

class PortSession::GradientSlots final : public FrameworkValues {
 public:
  GradientSlots(PortSession& owner, const std::string& record, GradientFills& fills)
      : owner_(owner), record_(record), fills_(fills) {}

  bool put_tensor(PyObject* value, ValueWriter& to) override {
    if (!owner_.values_.is_tensor(value)) return false;
    const trace::SlotId slot = owner_.session_.recorder().new_slot();
    to.out().slot(slot);
    fills_.emplace_back(py::reinterpret_borrow<py::object>(value),
                        [owner = owner_.weak_from_this(), slot, record = record_,
                         position = std::string(to.position())](const py::object& gradient) {
                          if (const auto self = owner.lock()) self->fill(slot, gradient, record, position);
                        });
    return true;
  }
  bool put_keyed(PyObject*, std::string_view, ValueWriter&) override { return false; }
  bool put_object(PyObject*, ValueWriter&) override { return false; }

 private:
  PortSession& owner_;
  const std::string& record_;
  GradientFills& fills_;
};

std::vector<std::pair<py::object, py::cpp_function>> PortSession::save_gradients(const py::object& value,
                                                                                 const std::string& record) {
  GradientFills fills;
  GradientSlots slots(*this, record, fills);
  PythonValues python(session_.recorder(), slots, PythonValues::Wanted::kTensors);
  session_.write_saved(record, [&](ValueWriter& to) { python.put(value.ptr(), to); });
  return fills;
}

// What diagnosis.json says of the elements of a tensor: JSON members, without braces.
std::string state_statistics(const py::object& said) {
  const PortTensor tensor(said);
  const msprobe::DType dtype = tensor.readable_dtype();
  msprobe::stats::SummaryOptions options;
  options.checksum = msprobe::stats::SummaryOptions::Checksum::kNative;
  options.sketch = !tensor.shape.empty();
  return dump::state_members(msprobe::stats::summarize(tensor.view(dtype), options));
}

}  // namespace

void register_dump(py::module_& m) {
  m.def("state_statistics", &state_statistics, py::arg("view"));
  py::class_<PortCall>(m, "DumpCall", py::is_final())
      .def_property_readonly("name", [](const PortCall& self) { return self.call.name; })
      .def_property_readonly("watches_backward",
                             [](const PortCall& self) { return self.call.watches_backward; });
  py::class_<PortSession, std::shared_ptr<PortSession>>(m, "DumpSession", py::is_final())
      .def(py::init<const msprobe::config::Config&, const py::object&, bool, bool, bool>(), py::arg("config"),
           py::arg("port"), py::kw_only(), py::arg("stacks") = true, py::arg("packed") = false,
           py::arg("sketch") = true)
      .def("open", &PortSession::open, py::arg("directory"))
      .def("begin_flush", &PortSession::begin_flush)
      .def("attach", &PortSession::attach, py::arg("path"), py::arg("content"))
      .def("close", &PortSession::close)
      .def("end", &PortSession::end)
      .def("report", &PortSession::report)
      .def("set_collecting", &PortSession::set_collecting, py::arg("collecting"))
      .def_property_readonly("is_collecting", &PortSession::is_collecting)
      .def("begin_call", &PortSession::begin_call, py::arg("name"), py::arg("args"), py::arg("kwargs"),
           py::arg("returns_arguments") = false, py::arg("is_recompute") = false)
      .def("end_call", &PortSession::end_call, py::arg("call"), py::arg("args"), py::arg("kwargs"),
           py::arg("result"))
      .def("begin_module", &PortSession::begin_module, py::arg("name"), py::arg("is_recompute") = false)
      .def("end_module", &PortSession::end_module, py::arg("call"), py::arg("args"), py::arg("kwargs"),
           py::arg("result"), py::arg("parameters"))
      .def("fail_module", &PortSession::fail_module, py::arg("call"))
      .def("open_phase", &PortSession::open_phase, py::arg("name"))
      .def("close_phase", &PortSession::close_phase, py::arg("name"))
      .def("write_backward", &PortSession::write_backward, py::arg("call"), py::arg("of_outputs"),
           py::arg("of_inputs"))
      .def("watch_parameters", &PortSession::watch_parameters, py::arg("module"), py::arg("names"))
      .def("save", &PortSession::save, py::arg("value"), py::arg("name"))
      .def("save_gradients", &PortSession::save_gradients, py::arg("value"), py::arg("record"))
      .def("note_fault", &PortSession::note_fault, py::arg("record"), py::arg("what"))
      .def("note_skipped", &PortSession::note_skipped, py::arg("reason"));
}
