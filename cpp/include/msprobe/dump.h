// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The data dump of any framework. An adapter sees calls and tensors; a Session decides what of them is kept
/// and asks for that alone; a Recorder writes it, as the files of
/// docs/formats/dump.md.
///
///     dump::Session session(options);            // Options::framework: the adapter's own
///     session.recorder().open("dump/step0/rank0");
///     dump::Call call{.name = "Functional.relu.0.forward"};
///     session.begin_call(call, values);          // values: a CallValues of the adapter
///     ...                                        // the call itself
///     session.end_call(call, values);
///     if (call.watches_backward) ...             // and, when its gradients are there:
///     session.write_backward({.name = "Functional.relu.0.backward"}, ...);
///     session.end_step();
///     session.recorder().close();
///
/// Nothing here knows a framework or Python. Values of the adapter that cannot be written throw, what it
/// throws itself passes; catch that around each call of a Session, as no fault of a recorder may reach a
/// training (Recorder::note_fault).

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_view.h"
#include "msprobe/trace.h"

namespace msprobe::dump {

// ---- the recorder

/// What is recorded, from the configuration. The defaults record everything.
struct Options {
  trace::Framework framework;       // whose tensors are recorded; the adapter knows
  std::string task = "statistics";  // as dump.json names it
  std::string level = "mix";        // as dump.json names it
  std::vector<std::string> list;
  std::vector<std::string> scope;
  std::vector<std::string> tensor_list;  // parts of names whose tensors are stored although the task is
                                         // statistics
  bool forward = true;
  bool backward = true;
  bool input = true;
  bool output = true;
  bool checksum = false;
  bool sketch = true;              // digest and sketch of each tensor
  bool store_tensors = false;      // every recorded tensor becomes a file
  bool npy = false;                // tensor files as .npy instead of .pt
  bool data = true;                // false: names, stacks and hierarchy only (task structure)
  bool hierarchy = true;           // construct.json holds where names belong
  bool only_overflow = false;      // keep a record only when a tensor of it holds a NaN or an infinity
  std::size_t overflow_limit = 0;  // after so many such records, over all steps, nothing is kept; 0: no limit
  bool all_functions = false;      // record every torch function, not only those named
  bool only_evidence = false;      // of memory that says nothing about the program, no statistics
  bool deferred = false;           // leave the event log, make no JSON (msprobe export makes it)
  bool packed = false;             // one file for each step, step.zip, of all that is text
};

/// A tensor on its way to a file: memory that `owner` keeps alive and nobody changes any more.
struct StoredTensor {
  std::shared_ptr<const void> owner;
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // contiguous
};

/// What a step contained, for one line in the log and for summary.json.
struct StepReport {
  std::size_t records = 0;
  std::size_t tensors = 0;
  std::uint64_t stored_bytes = 0;
  std::string first_non_finite;  // name of the first record whose output holds a NaN or infinity; empty: none
  std::string first_nan;         // of the first whose output holds a NaN
  bool incomplete = false;       // a file could not be written; said in the log
  bool is_late = false;          // what outputs hold is known when the files are made: see take_finished()
  std::map<std::string, std::size_t> skipped;  // what was not measured or recorded: reason -> how often
};

/// A module call (or a phase such as "optimizer") that a thread is or was inside of.
class Frame {
 public:
  /// `forward_name` is the record name of the forward.
  Frame(std::string_view forward_name, std::shared_ptr<const Frame> around);

  std::string_view name() const noexcept { return std::string_view(names_).substr(0, forward_bytes_); }
  /// Record name of the same call in the backward.
  std::string_view backward_name() const noexcept { return std::string_view(names_).substr(forward_bytes_); }

  std::shared_ptr<const Frame> parent;
  mutable bool backward_placed = false;  // in the hierarchy of its step; the recorder's own

 private:
  std::string names_;  // one behind the other: each frame is made while a training waits
  std::size_t forward_bytes_;
};

/// "Module.a.Linear.forward.0" -> "Module.a.Linear.backward.0", "Torch.add.0.forward" ->
/// "Torch.add.0.backward".
MSPROBE_API std::string backward_name(std::string_view forward_name);

/// A step whose files are being made, for what comes late.
class LateStep {
 public:
  virtual ~LateStep() = default;
  virtual void fill(trace::SlotId slot, std::string_view element) = 0;
  virtual void note_output(std::string_view record_name, trace::Badness worst) = 0;
};

/// Writes the steps of one rank, one after the other.
///
/// All methods may be called from any thread. JSON and tensor files are written by one thread behind a queue
/// of at most 256 MiB of tensors; when it is full, store() waits. After construction nothing throws because
/// of a file: the first problem of a step is logged, and training goes on. What was written stays readable.
class MSPROBE_API Recorder {
 public:
  explicit Recorder(Options options);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Begins a step in `directory`, which is created, or goes on with the one begun there. Throws IoError (the
  /// only call that does), and then records nothing.
  void open(const std::filesystem::path& directory);
  bool is_open() const noexcept;
  /// Goes on with the open step, of which no files are made yet and that stores no tensors, in this
  /// directory, which is created. Throws IoError, and then goes on where it was.
  void move(const std::filesystem::path& directory);

  /// Lets the writer make complete files of everything recorded so far, and does not wait for it.
  void begin_flush();
  /// Returns when everything recorded so far is in complete files; with Options::packed only the end of the
  /// step makes them.
  void flush();
  /// Puts a text into the packed file of the open step, as its member `path`. False: it is not packed, or
  /// another step is open; `path` is then to be written by whoever has the text.
  bool attach(const std::filesystem::path& path, std::string content);
  /// Ends the step: returns when its files, and those of steps before, are complete. What is recorded later
  /// is lost, with a warning.
  void close();
  /// Ends the step without waiting: the writer completes its files while the next one runs. Waits for the
  /// step before that, where the writer has not come so far. A process that is killed meanwhile leaves the
  /// log of the step.
  void begin_close();
  /// close(), and leaves nothing of its own on the disk. Call it last; the destructor does as well.
  void end();
  /// Of the step that is open or was closed last; counts as of its last flush.
  StepReport report() const;
  /// Of late steps whose files have been made since this was asked last, in their order; the latest 64.
  std::vector<StepReport> take_finished();

  // ---- what happened. Names are complete record names: "Functional.linear.0.forward".

  /// Whether the record of an API call is kept; moves the scope (docs/formats/dump.md).
  bool keeps_api(std::string_view name);
  /// Whether a name passes list and scope as they stand now.
  bool keeps(std::string_view name) const;

  /// Whether the backward of a call that begins now on the calling thread may be kept: its name is listed, or
  /// that of the backward of a module around it. The scope may be open or not when it comes.
  bool may_keep_backward(std::string_view forward_name) const;
  /// The backward of a call begins: whether it is kept, by its own name, or because the list names the
  /// backward of a module that the call ran in; moves the scope. A module's: whether it may be kept.
  bool begin_backward(std::string_view name, const Frame* forward_module, bool is_module);
  /// The backward of a module ends: whether it is kept. Moves the scope.
  bool end_backward(std::string_view name, const Frame* forward_module);

  /// Opens a module on the calling thread and places it in the hierarchy.
  void open_module(std::string_view name);
  /// Ends the innermost open module of this name on the calling thread, with all that were left open inside
  /// by an exception. Tells whether its record is kept.
  bool close_module(std::string_view name);
  /// The innermost open module of the calling thread; null: none.
  std::shared_ptr<const Frame> innermost() const;
  /// Places a name below the innermost open module of the calling thread.
  void place(std::string_view name);
  /// Places the backward of a call below the backward of the module its forward ran in (null: at the top).
  void place_backward(std::string_view name, const Frame* forward_module);

  trace::StackId stack(std::span<const std::string_view> frames);
  trace::RecordId record(trace::RecordKind kind, std::string_view name,
                         trace::StackId stack = trace::kNoStack, bool is_recompute = false,
                         std::string_view recompute_of = {});
  void part(trace::RecordId record, trace::Part part, std::string_view elements);
  trace::SlotId new_slot();
  void fill(trace::SlotId slot, std::string_view element);

  /// Values that are still on their way, of the step that is open: `complete` fills their slots. It is called
  /// once, before files of the step are made, by the thread that makes them, and may wait. What it throws
  /// makes the step incomplete.
  void complete_later(std::function<void(LateStep&)> complete);

  /// Whether the tensors of this record become files.
  bool stores(std::string_view record_name) const;
  /// The name of a tensor's file, to be put into its element: "{record}.{position}.pt".
  std::string data_name(std::string_view record_name, std::string_view position) const;
  /// Queues a tensor for the file `data_name`.
  void store(std::string data_name, StoredTensor tensor);

  /// Notes what the outputs of this record hold; the first bad one of a step counts. What torch.empty and its
  /// like return says nothing.
  void note_output(std::string_view record_name, trace::Badness worst);

  /// Notes that a call of an earlier step had its backward now; one warning says so, of all that come.
  void note_late() noexcept;

  /// Counts something that was left out, for summary.json.
  void note_skipped(std::string_view reason);

  /// Notes a fault inside a hook: into dump_error_info.log, and once into the log.
  void note_fault(std::string_view record_name, std::string_view what) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a tensor entry of diagnosis.json (docs/formats/diagnosis.md) says of the elements: JSON members from
/// "crc32" on, without braces.
MSPROBE_API std::string state_members(const stats::Summary& summary);

/// Appends `"name": value` to the members of a JSON object, behind `separator` where there are some. `value`:
/// JSON.
MSPROBE_API void append_state_member(std::string& members, std::string_view separator, std::string_view name,
                                     std::string_view value);

// ---- the session

/// Which tensors of a record become files.
enum class Files : std::uint8_t { kNone, kAll };

/// Writes values as elements, and knows where each stands in its record: that is what files of tensors are
/// named after. An adapter puts its values into it, whatever its language has for lists and objects:
///
///     void put(const Value& value, ValueWriter& to) {
///       if (value.is_list()) return to.list(value.size(), [&](std::size_t i) { put(value[i], to); });
///       ...
///       to.out().integer(value.number());
///     }
class ValueWriter {
 public:
  static constexpr int kDeepest = 50;  // of values inside of each other, as the format says

  /// `record`: its name, which has to live as long as this; empty: what is written belongs to none.
  explicit ValueWriter(trace::ElementWriter& out, std::string_view record = {}, Files files = Files::kNone)
      : out_(out), record_(record), files_(files) {}

  trace::ElementWriter& out() noexcept { return out_; }
  std::string_view record() const noexcept { return record_; }
  Files files() const noexcept { return files_; }
  /// Of the value that is written: "input.0", "kwargs.mask". Without files its beginning alone.
  std::string_view position() const noexcept { return position_; }

  /// Whether tensors become files.
  bool takes_files() const noexcept { return files_ == Files::kAll; }

  /// Starts with what all positions begin with: "input", "kwargs", "output", "parameters".
  void begin(std::string_view category) { position_.assign(category); }

  /// One of several values, which `put()` writes.
  template <typename Put>
  void item(std::size_t index, const Put& put) {
    at([&] { return std::to_string(index); }, put);
  }
  /// The value of a key.
  template <typename Put>
  void member(std::string_view key, const Put& put) {
    out_.key(key);
    at([&] { return key; }, put);
  }
  /// A list: put(0), put(1), ... write its values.
  template <typename Put>
  void list(std::size_t count, const Put& put) {
    out_.begin_list();
    ++depth_;
    for (std::size_t i = 0; i < count; ++i) item(i, [&] { put(i); });
    --depth_;
    out_.end();
  }
  /// An object: put() calls member() for each of its keys.
  template <typename Put>
  void object(const Put& put) {
    out_.begin_object();
    ++depth_;
    put();
    --depth_;
    out_.end();
  }

 private:
  template <typename Name, typename Put>
  void at(const Name& name, const Put& put) {
    if (depth_ > kDeepest) refuse_depth();
    if (files_ == Files::kNone) return put();
    const std::size_t size = position_.size();
    if (size > 0) position_ += '.';
    position_ += name();
    put();
    position_.resize(size);
  }
  [[noreturn]] MSPROBE_API static void refuse_depth();

  trace::ElementWriter& out_;
  std::string_view record_;
  std::string position_;
  Files files_;
  int depth_ = 0;
};

/// What one call is given and what it gives: the adapter writes it when it is asked to.
class MSPROBE_API CallValues {
 public:
  virtual ~CallValues() = default;

  /// Positional arguments, each an item(). The first of the calls for arguments: arguments() and keywords(),
  /// which may come again when more is to be known of them.
  virtual void arguments(ValueWriter& to) = 0;
  /// Keyword arguments, each a member().
  virtual void keywords(ValueWriter& to);
  /// Results, each an item(); where they are one object, that as it is.
  virtual void results(ValueWriter& to) = 0;
  virtual bool are_results_an_object() const;
  /// Parameters of a module, each a member().
  virtual void parameters(ValueWriter& to);

  /// In place of arguments() and keywords(), and of results(), where nothing is written of them although the
  /// backward of the call is watched: an adapter that needs the tensors takes them here.
  virtual void find_arguments();
  virtual void find_results();

  /// Where the call comes from: Recorder::stack().
  virtual trace::StackId stack();
};

/// A call of a function or module that is under way. Belongs to the adapter.
struct Call {
  std::string name;                // of its forward record
  bool is_recompute = false;       // activation checkpointing repeats it
  std::string repeats = {};        // the record that is repeated; empty: none, or not known
  bool returns_arguments = false;  // its results are in its arguments, as those of collectives are

  // Said by the session.
  bool watches_backward = false;  // its gradients are wanted
  bool is_listed = false;         // list and scope keep it
  bool is_kept = false;           // and so does what it holds
  trace::RecordId record = 0;

  /// For another call, which uses the memory of the names again.
  void clear() {
    name.clear();
    repeats.clear();
    is_recompute = returns_arguments = watches_backward = is_listed = is_kept = false;
    record = 0;
  }
};

/// The backward of a call.
struct Backward {
  std::string_view name;  // of its record
  bool is_module = false;
  const Frame* forward_module = nullptr;  // that the forward ran in: Recorder::innermost()
};

/// Gradients as elements, of those that are wanted.
struct Gradients {
  std::string_view elements;
  trace::Badness worst = trace::Badness::kGood;
};

/// The record of the gradients of a module's parameters, of one step.
class ParameterGradients {
 public:
  virtual ~ParameterGradients() = default;
  virtual std::string_view name() const noexcept = 0;
};

class MSPROBE_API Session {
 public:
  explicit Session(Options options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Recorder& recorder() noexcept;

  // ---- decisions

  /// What is written of a kind of record, whatever its name is.
  struct Kept {
    bool record = false;
    bool inputs = false;
    bool outputs = false;
    bool parameters = false;
  };
  const Kept& kept(trace::RecordKind kind) const noexcept { return kept_[static_cast<std::size_t>(kind)]; }
  /// What is wanted of the call with this forward record.
  enum class Interest : std::uint8_t { kNothing, kRecord, kOperators };
  Interest interest(std::string_view forward_name) const;
  /// Of kOperators: the record whose operators are wanted, the forward or the backward of the call.
  const std::string& wanted() const noexcept;

  /// What is measured of tensors.
  const trace::Measures& measures() const noexcept { return measures_; }
  bool wants_evidence_only() const noexcept { return wants_evidence_only_; }
  /// What tensors hold decides what is kept, so it has to be known at once.
  bool keeps_overflows_only() const noexcept { return keeps_overflows_only_; }
  /// Files of the tensors of a record that is kept.
  Files files_of(std::string_view record) const;

  // ---- collecting

  /// False: nothing is begun; what has begun comes to its end. False at first, and after as many overflows as
  /// the options allow.
  bool is_collecting() const noexcept { return is_collecting_.load(std::memory_order_relaxed); }
  void set_collecting(bool collecting) noexcept { is_collecting_.store(collecting); }
  bool has_enough_overflows() const noexcept;

  /// Everything is counted from 0 again. To be called before Recorder::close().
  void end_step();

  // ---- calls of functions

  void begin_call(Call& call, CallValues& values);
  void end_call(Call& call, CallValues& values);
  /// The same in two halves, for a call that ends before its results are there.
  void place_call(const Call& call);
  void write_results(const Call& call, CallValues& values);

  // ---- calls of modules, and phases of a training that are places in the hierarchy

  void begin_module(Call& call);
  /// `values` null: it ended by an exception, and has no record.
  void end_module(Call& call, CallValues* values);
  void open_phase(std::string_view name);
  void close_phase(std::string_view name);

  // ---- operators, which no filter concerns. `name`: also of a backward.

  void begin_operator(Call& call, bool backward, CallValues& values);
  void end_operator(Call& call, bool backward, CallValues* values);

  // ---- backward

  /// A backward begins: whether its record is kept, by its name or that of a module around its forward; a
  /// module's: whether it may be kept. Once for each, and then write_backward(). Moves the scope.
  bool begin_backward(const Backward& backward);
  /// Whether task overflow_check keeps a backward that holds this.
  bool keeps_overflow(trace::Badness worst) const noexcept;
  /// Writes the record, if it is kept, and its place in the hierarchy. `of_outputs`: what came in, gradients
  /// of the call's outputs.
  void write_backward(const Backward& backward, bool is_kept, const Gradients& of_outputs,
                      const Gradients& of_inputs);

  /// Makes the record of the gradients of a module's parameters with these names, once for a module and step.
  /// Null: nothing has to be watched. Else `slots`, as many, are set to where each gradient belongs.
  std::shared_ptr<ParameterGradients> watch_parameters(const Call& module,
                                                       std::span<const std::string_view> names,
                                                       std::span<trace::SlotId> slots);
  /// A gradient of one of them came; `worst` of its elements, for task overflow_check. False: it is left out.
  bool takes_gradient(ParameterGradients& of, trace::Badness worst);

  // ---- values that a script saves

  struct SavedNames {
    std::string value;
    std::string gradients;
  };
  /// The names of the records of a value saved as `name`, a number for each time in the step.
  SavedNames number_saved(const std::string& name);
  /// `put` writes one value.
  void write_saved(const std::string& record, const std::function<void(ValueWriter&)>& put);

 private:
  struct State;
  void begin_record(Call& call, CallValues& values);
  void count_overflow() noexcept;
  static constexpr std::size_t kKinds = static_cast<std::size_t>(trace::RecordKind::kSaved) + 1;
  std::array<Kept, kKinds> kept_;
  trace::Measures measures_;
  bool wants_evidence_only_;
  bool keeps_overflows_only_;
  std::atomic<bool> is_collecting_{false};
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::dump
