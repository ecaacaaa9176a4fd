// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// config.json and config.yaml (docs/formats/config.md): read, checked, and with a default for every key. One
/// table says which keys there are; reading, `msprobe init`, `msprobe config` and the documentation use it.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/document.h"
#include "msprobe/error.h"
#include "msprobe/export.h"

namespace msprobe::dump {
struct Options;
}

namespace msprobe::config {

using io::Value;

// ---- the table

/// What a key may hold, and as what it is read.
enum class Type : std::uint8_t {
  kSwitch,   // true or false
  kInteger,  // from Key::least to Key::most
  kNumber,   // within the same limits, and finite; read as a floating-point number
  kText,     // any
  kPath,     // without NUL bytes
  kWord,     // one of Key::words
  kWords,    // a list of Key::words, or ["all"]; read as a list of words in the order of the table, each once
  kTexts,    // a list of texts
  kNumbers,  // a list of strictly ascending numbers from -2^63 to 2^63-1
  kRanges,   // a list of numbers from 0 to 1000000 and of ranges "a-b"; read as all of them, ascending, once
  kObject,   // an object with the keys of the rows of "SECTION.KEY"; without such rows, whatever it holds
  kObjects,  // a list of such objects; an entry, or all of the list, may also be one of Key::words
  kAnything,  // is not looked at
};

/// The type in words: "true or false", "list of texts".
MSPROBE_API std::string_view type_name(Type type) noexcept;

/// A word that a key may hold.
struct Word {
  std::string_view name;
  std::string_view meaning;
};

/// Whose a key is.
enum class Origin : std::uint8_t {
  kShared,   // mindstudio-probe has it as well
  kOwn,      // that of msprobe
  kIgnored,  // known and without effect: what else than the fallback is given has a warning with the meaning
};

/// One row of the table.
struct Key {
  std::string_view tasks = {};  // whose section has it, separated by spaces; empty: the top level has it;
                                // "monitor.alarm": the object at the key alarm of section monitor
  std::string_view name = {};
  Type type = Type::kAnything;
  std::string_view fallback = "null";  // what holds when it is not given, in JSON
  std::span<const Word> words = {};
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::string_view meaning = {};    // in one line, for people
  std::string_view allowed = {};    // beyond the type, for people
  std::string_view complaint = {};  // how a message about a wrong value begins; empty: by the type
  Origin origin = Origin::kShared;
};

/// What PrecisionDebugger can be asked to do, and a section with the same name.
struct Task {
  std::string_view name = {};
  std::string_view meaning = {};  // in one line, for people
  bool is_available = true;       // otherwise a known name, and UnsupportedError
  std::string_view levels = {};  // that it works at, separated by spaces; in place of another one the last is
                                 // taken, with a warning; empty: any
  bool is_strict = false;        // an unknown key in its section is an error, not a warning
};

MSPROBE_API std::span<const Task> tasks();
MSPROBE_API std::span<const Key> keys();
/// The rows of one task, of an object inside ("monitor.alarm"), or of the top level, whose name is empty.
MSPROBE_API std::vector<Key> keys_of(std::string_view task);
/// Key::words; for the key `task` those of tasks().
MSPROBE_API std::vector<Word> words_of(const Key& key);

// ---- reading

/// The keys of a section, all of them, each with its checked value. The functions throw InternalError for a
/// key that the table does not have or that holds something else.
class MSPROBE_API Values {
 public:
  Values() = default;
  explicit Values(Value::Object values) : values_(std::move(values)) {}

  bool contains(std::string_view key) const;
  const Value& at(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  /// Whether a list of texts has this one.
  bool has(std::string_view key, std::string_view text) const;

  const Value::Object& all() const noexcept { return values_; }

 private:
  Value::Object values_;  // in the order of the table
};

/// A checked configuration.
struct Config {
  std::string task;
  std::string dump_path;
  std::vector<std::int64_t> ranks;  // ascending; empty: all
  std::vector<std::int64_t> steps;  // ascending; empty: all
  std::string level;                // that the task works with
  bool enable_dataloader = false;
  bool async_dump = false;
  Values section;  // of the task
};

/// What a program gives beside the file; wins over it. Null and an empty text: not given.
struct Arguments {
  Value task = {};
  Value dump_path = {};
  Value level = {};
  Value step = {};
};

/// The file is no JSON or YAML. Python: also a RuntimeError, as with mindstudio-probe.
class MSPROBE_API MalformedConfig : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
  ~MalformedConfig() override;
};

/// Reads and checks a configuration; an empty path: there is no file, and the defaults hold. What is odd and
/// does no harm is a warning in the log. Throws InvalidArgument for anything wrong, in one sentence with
/// file, line, key and expectation; MalformedConfig; and UnsupportedError for what is right but not
/// available.
MSPROBE_API Config load(const std::filesystem::path& path, const Arguments& arguments = {});

/// The section of one task alone: what the top level says does not matter. A file that has no such section
/// gives the defaults. Throws as load().
MSPROBE_API Values load_section(const std::filesystem::path& path, std::string_view task);

/// A file that has the keys of a task at its top. Throws as load().
MSPROBE_API Values load_own_file(const std::filesystem::path& path, std::string_view task);

/// The keys of a section that a program gives in place of a file. `place`: where they stand, for messages.
/// Throws as load().
MSPROBE_API Values check_section(const std::string& place, std::string_view task, const Value& keys);

/// What a dump records, from the configuration of one of its tasks; the framework is left to the adapter.
MSPROBE_API dump::Options dump_options(const Config& config);

/// What a file says, unchecked: the object in it. Throws InvalidArgument, MalformedConfig.
MSPROBE_API Value read_file(const std::filesystem::path& path);

/// The one of `known` that was probably meant by `word`; empty: none is close. `share`: of the letters may be
/// wrong.
MSPROBE_API std::string closest_word(std::string_view word, std::span<const std::string> known,
                                     double share = 0.3);

}  // namespace msprobe::config
