// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The data dump: records of the calls of a training step, written as the files of docs/formats/dump.md. What
/// is recorded a Session decides (msprobe/dump_session.h).

#include <cstdint>
#include <filesystem>
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
  bool store_tensors = false;      // every recorded tensor becomes a file
  bool npy = false;                // tensor files as .npy instead of .pt
  bool data = true;                // false: names, stacks and hierarchy only (task structure)
  bool hierarchy = true;           // construct.json holds where names belong
  bool only_overflow = false;      // keep a record only when a tensor of it holds a NaN or an infinity
  std::size_t overflow_limit = 0;  // after so many such records, over all steps, nothing is kept; 0: no limit
  bool all_functions = false;      // record every torch function, not only those named
  bool deferred = false;           // leave the event log, make no JSON (msprobe export makes it)
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

  /// Lets the writer make complete files of everything recorded so far, and does not wait for it.
  void begin_flush();
  /// Returns when everything recorded so far is in complete files.
  void flush();
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

  // ---- what happened. Names are complete record names: "Functional.linear.0.forward".

  /// Whether the record of an API call is kept; moves the scope (docs/formats/dump.md).
  bool keeps_api(std::string_view name);
  /// Whether a name passes list and scope as they stand now.
  bool keeps(std::string_view name) const;

  /// Whether the backward of a call is kept: by its own name, or because the list names the backward of a
  /// module that the call ran in.
  bool keeps_backward(std::string_view name, const Frame* forward_module) const;

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

}  // namespace msprobe::dump
