// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Records of one training step on their way to files. A recorder appends events to an EventLog; a
/// JsonExporter makes dump.json, stack.json and construct.json of them (docs/formats/dump.md), while the step
/// still runs or from a log found later.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/trace.h"

namespace msprobe::trace {

/// The first lines of dump.json.
struct Header {
  std::string task;
  std::string level;
  std::optional<std::string> data_directory;  // of tensor files, as the file shall name it
  Framework framework;
};

/// Events of one step of one rank, in the order they happened. The log is a file mapped into memory: what was
/// appended survives the end of the process at any moment, and reading stops at the first incomplete event
/// (docs/formats/trace_log.md). Not thread-safe: one writer at a time; another thread may read what
/// committed() covers meanwhile.
class MSPROBE_API EventLog {
 public:
  /// Creates `path`, replacing an existing file. An empty path keeps the log in memory.
  /// Throws IoError.
  explicit EventLog(std::filesystem::path path);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// To be appended first: without it a log that is found later cannot be exported.
  void header(const Header& header);
  /// `recompute_of`: name of the record that this call repeats; empty: none, or not known.
  RecordId record(RecordKind kind, std::string_view name, StackId stack, bool is_recompute,
                  std::string_view recompute_of = {});
  /// One half of a record: `elements` are what an ElementWriter collected, one element for each list entry or
  /// key (kInputKwargs, kParameters, kValue and kOutputObject: exactly one).
  void part(RecordId record, Part part, std::string_view elements);
  /// For one place in one part.
  SlotId new_slot() noexcept { return slots_++; }
  /// A later fill replaces an earlier one. `element` holds no slots.
  void fill(SlotId slot, std::string_view element);
  /// The first call with a child places it; a later one with another parent is ignored.
  void construct(std::string_view child, std::optional<std::string_view> parent);
  StackId stack(std::span<const std::string_view> frames);

  /// The events appended so far.
  std::string_view committed() const noexcept;

  /// Gives the file another name. False when it stays where it is, or when the log has no file (any more).
  bool move_to(const std::filesystem::path& path) noexcept;
  /// Empties the log for another step; what committed() returned is gone.
  void rewind() noexcept;
  /// Gives back the unused end of the file. Nothing may be appended afterwards.
  void close() noexcept;
  /// close(), and deletes the file.
  void remove() noexcept;

 private:
  struct Memory;
  void append(std::uint8_t type, std::string_view head, std::string_view body);
  std::unique_ptr<Memory> memory_;
  std::string body_;  // of the event that is being made; keeps its memory
  RecordId records_ = 0;
  SlotId slots_ = 0;
  StackId stacks_ = 0;
};

// -------------------------------------------------------------------------------------------------- exports

/// Turns events into the JSON files. consume() may be called again and again with a growing log, from one
/// thread; what it has seen is formatted already when write() is called.
class MSPROBE_API JsonExporter {
 public:
  /// Without a header, that of the log is taken.
  explicit JsonExporter(std::optional<Header> header = std::nullopt);
  ~JsonExporter();

  /// Takes the complete events of `log` (an EventLog::committed()) beyond what it has taken already.
  /// Throws FormatError for bytes that are no events; those before them are taken.
  void consume(std::string_view log);

  /// Writes dump.json, stack.json and construct.json into `directory`, or debug.json alone for level "debug".
  /// Each is complete or absent. Task "structure": records without data. Throws IoError, and FormatError when
  /// there is no header.
  void write(const std::filesystem::path& directory);
  /// The same files as (name, content). Throws FormatError when there is no header.
  std::vector<std::pair<std::string, std::string>> files();

  std::size_t record_count() const noexcept;
  /// Tensors seen, with those of halves of records that were replaced later.
  std::size_t tensor_count() const noexcept;
  /// Bytes of the log, from its beginning, that have been taken.
  std::size_t taken() const noexcept;
  bool has_header() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads a log that a finished or killed process left. Throws IoError, and FormatError for a file that is no
/// log of this version.
MSPROBE_API std::string read_event_log(const std::filesystem::path& path);

/// What export_event_log() found.
struct ExportReport {
  std::size_t records = 0;
  std::size_t tensors = 0;
  std::string cut;  // why events are missing at the end, for a person; empty: the log is complete
};

/// Makes the JSON files of a log in `directory`, which is created when it is missing: of the events up to its
/// end, or up to the first that is damaged. Throws IoError, and FormatError for a file that is no log of this
/// version or has no header; then nothing is written.
MSPROBE_API ExportReport export_event_log(const std::filesystem::path& log,
                                          const std::filesystem::path& directory);

// --------------------------------------------------------------------------------------------------- filter

/// Which records are kept, by name (docs/formats/dump.md, "scope and list"). Not thread-safe.
class MSPROBE_API Filter {
 public:
  Filter() = default;
  /// `list`: a record is kept when an entry is a part of its name, or while a module that matches is open.
  /// `scope`: empty, or the first and the last record name.
  Filter(std::vector<std::string> list, std::vector<std::string> scope);

  /// Nothing is filtered: names need not be made for the sake of a test.
  bool keeps_all() const noexcept { return list_.empty() && scope_.empty(); }

  /// Tests the record of an API call, or of its backward. Changes the state of the scope.
  bool keeps_api(std::string_view name);
  /// Whether the scope begins or ends with it.
  bool bounds(std::string_view name) const;
  /// Whether the list names it: it is kept where the scope is open.
  bool lists(std::string_view name) const;
  void open_module(std::string_view name);
  /// Ends a module, and tells whether its record is kept.
  bool close_module(std::string_view name);
  /// Tests a name without moving the scope.
  bool keeps(std::string_view name) const;
  /// What has this name begins, or ends: the scope may begin or end with it.
  void enter(std::string_view name);
  void leave(std::string_view name);
  bool is_in_scope() const noexcept { return scope_.empty() || in_scope_; }

 private:
  std::vector<std::string> list_;
  std::vector<std::string> scope_;
  std::vector<std::string> open_;  // open modules that the list names
  bool in_scope_ = false;
};

}  // namespace msprobe::trace
