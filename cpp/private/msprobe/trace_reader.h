// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// dump.json, debug.json, stack.json and construct.json read into memory, whoever wrote them
/// (docs/formats/dump.md). What other features need of a step of a run is here: compare, graph, analysis of
/// overflow.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

namespace msprobe::trace {

/// Text in the memory of a Trace: 8 bytes for what would be 16. Only its Trace can show it.
struct Text {
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

/// One JSON value: a statistic, a number, a flag. A trace has many: 8 bytes.
struct Scalar {
  enum class Kind : std::uint8_t {
    kAbsent,     // the key is not there
    kNull,       // null
    kBool,       // text: "True" or "False"
    kInteger,    // text as in the file, of any size
    kFloat,      // text as in the file: "0.1", "NaN", "-Infinity"
    kText,       // the text itself
    kComposite,  // a list or an object; text: of a list in `value`, as Python prints it, "[2, 3]", else empty
  };
  /// Bytes that a text may have.
  static constexpr std::uint32_t kMostLength = (1U << 28) - 1;

  constexpr Scalar() = default;
  /// `text`: of at most kMostLength bytes; whoever reads a file checks it.
  constexpr Scalar(Text text, Kind of) : offset(text.offset), length(text.length), kind(of) {}
  constexpr Text text() const noexcept { return {offset, length}; }

  std::uint32_t offset = 0;
  std::uint32_t length : 28 = 0;
  Kind kind : 4 = Kind::kAbsent;
};
static_assert(sizeof(Scalar) == 8);

/// A leaf of a record: a tensor, a scalar, a null. An object is a leaf when it has a key "type" whose value
/// is a text.
struct Item {
  /// In which part of its record an item stands.
  enum class Part : std::uint8_t {
    kInputArgs,
    kInputKwargs,
    kInput,       // backward: gradients of the outputs
    kOutput,      // forward: results; backward: gradients of the inputs
    kParameters,  // of a module
    kGradients,   // record "parameters_grad"
    kSaved,       // debug.json: what save() was given
  };
  enum class Kind : std::uint8_t { kTensor, kValue, kNull };  // kTensor: it has a dtype

  Part part : 4 = Part::kSaved;
  Kind kind : 4 = Kind::kNull;
  std::uint8_t dtype_number = kNoDType;  // see element_type()
  std::optional<bool> requires_grad;
  /// Way from the part to the leaf, keys and indices joined by dots: "0", "0.hidden", "attention_mask". Of
  /// kGradients and kParameters the name of the parameter (which may hold dots); empty: the part itself is
  /// the leaf.
  Text path;
  Text type;   // "{package}.Tensor", "int", "slice", ...; empty for null
  Text dtype;  // as the file has it; empty: not a tensor
  Text shape;  // "[2, 3]", as Python prints it
  Scalar max, min, mean, norm;
  Scalar value;    // of scalars; of a ProcessGroup its group_ranks
  Text sketch;     // docs/formats/dump.md, "Sketch"; empty: none
  Text md5;        // 8 hexadecimal digits; empty: not recorded
  Text data_name;  // file in dump_tensor_data; empty: none

  /// What `dtype` means, however the framework writes it; nothing: no tensor, or elements of another type.
  std::optional<DType> element_type() const noexcept {
    return dtype_number == kNoDType ? std::nullopt : std::optional(static_cast<DType>(dtype_number));
  }
  static constexpr std::uint8_t kNoDType = 0xff;
};

/// Where the local shard of a DTensor lies on its mesh of ranks (docs/formats/dump.md, "dtensor"). Lists are
/// as Python prints them.
struct TensorPlacement {
  Text shape;       // of the whole tensor: "[8, 4]"
  Text placements;  // for each dimension of the mesh: "['Shard(0)', 'Replicate']"
  Text mesh;        // meshes of the same ranks have the same
  Text mesh_shape;  // "[2, 2]"
  Text mesh_dims;   // names of its dimensions: "['dp', 'tp']"; "[]": they have none
  Text coordinate;  // of this rank in the mesh: "[0, 1]"
};

/// A call of an operator or module, forward or backward; the gradients of the parameters of a module; or what
/// save() was given under one name.
struct Record {
  Text name;
  std::uint32_t first_item = 0;
  std::uint32_t item_count = 0;
  std::uint64_t begin = 0;  // bytes of the file that hold the value of the record, [begin, end)
  std::uint64_t end = 0;
  /// Of a backward, how many passes went through its call in the step. The record is of the last one.
  std::uint32_t passes = 1;
  bool is_recompute = false;
  bool has_input = false;  // one of input, input_args, input_kwargs stands in it, be it empty
  bool has_output = false;
};

/// Whether a record holds the gradients of a module's parameters, by its name:
/// "Module.a.Linear.parameters_grad".
MSPROBE_API bool holds_gradients(std::string_view record) noexcept;

/// dump.json or debug.json of one rank and step. Texts and items live as long as the Trace; moving keeps
/// them.
class MSPROBE_API Trace {
 public:
  std::string_view text(Text text) const noexcept { return {texts_.data() + text.offset, text.length}; }
  std::string_view text(const Scalar& scalar) const noexcept { return text(scalar.text()); }
  /// As double: of kInteger, kFloat; nothing for the other kinds. Beyond the range of double: 0 or infinite.
  std::optional<double> number(const Scalar& scalar) const noexcept;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string_view task() const noexcept { return text(task_); }
  std::string_view level() const noexcept { return text(level_); }
  std::string_view framework() const noexcept { return text(framework_); }
  /// What the types of the framework's own values begin with, by the first tensor: "torch". Empty: there is
  /// none.
  std::string_view package() const noexcept { return text(package_); }
  /// As the file says; empty: null or absent.
  std::string_view dump_data_dir() const noexcept { return text(dump_data_dir_); }

  /// In the order of the file. Of a name that occurs twice the last one, in the place of the first.
  std::span<const Record> records() const noexcept { return records_; }
  std::span<const Item> items(const Record& record) const noexcept {
    return std::span(items_).subspan(record.first_item, record.item_count);
  }
  /// The items of all records; those of a record that a later one replaced may stand between them.
  std::span<const Item> all_items() const noexcept { return items_; }
  std::string_view name(const Record& record) const noexcept { return text(record.name); }
  /// Index in records() of the record with this name.
  std::optional<std::size_t> find(std::string_view name) const noexcept;

  /// Of an item that is a ProcessGroup: its group_id; empty: none. `item` is one of all_items().
  std::string_view group_id(const Item& item) const noexcept;

  /// Null for an item that is no DTensor. `item` is one of all_items().
  const TensorPlacement* placement(const Item& item) const noexcept;
  /// Some item is a DTensor.
  bool has_placements() const noexcept { return !placements_.empty(); }

  /// Some item has an md5, so the run was recorded with summary_mode md5.
  bool has_md5() const noexcept { return has_md5_; }

 private:
  friend class TraceBuilder;
  std::filesystem::path path_;
  std::string texts_;
  Text task_, level_, framework_, dump_data_dir_, package_;
  std::vector<Record> records_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> slots_;  // a hash table of records_ by name
  struct GroupId {
    std::uint32_t item = 0;
    Text id;
  };
  std::vector<GroupId> group_ids_;  // by item; apart, as few items have one
  struct PlacementOf {
    std::uint32_t item = 0;
    TensorPlacement placement;
  };
  std::vector<PlacementOf> placements_;  // by item
  bool has_md5_ = false;
};

/// Reads dump.json or debug.json. Accepts the words NaN, Infinity and -Infinity, a byte order mark, unknown
/// keys, and any order of keys; of a key of the file or of a record that occurs twice the last value counts.
/// Values that no tool writes where they stand (a plain number in a list of arguments) are no items. Memory:
/// about two thirds of the file, which is read piece by piece; hostile files are refused before they need 64
/// MiB and 10 times their size. One thread.
///
/// Throws IoError; UnsupportedError above 4 GiB; FormatError with path and place for text that is no JSON or
/// is cut, text that is not UTF-8 or half of a surrogate pair, numbers beyond 1e308, nesting deeper than 64,
/// a missing key `data` or one that is no object (null counts as empty), a record of dump.json that is none
/// (null counts as one without items); for a shape that is no list of whole numbers, a requires_grad or
/// is_recompute that is no bool, and task, level, framework, dump_data_dir, dtype, md5 and data_name that are
/// neither text nor null.
MSPROBE_API Trace read_trace(const std::filesystem::path& path);
/// The same for the content of a file; `path` is for messages.
MSPROBE_API Trace parse_trace(std::string content, const std::filesystem::path& path);

/// The value of a record as it stands in the file, which is read again. Throws IoError, and FormatError when
/// the file is shorter now.
MSPROBE_API std::string read_record(const Trace& trace, const Record& record);

/// stack.json: which lines called.
class MSPROBE_API Stacks {
 public:
  /// The frames of the call of that record, the innermost first; empty when unknown. Of a name that occurs
  /// twice the last.
  std::span<const std::string> frames(std::string_view record) const noexcept;
  bool empty() const noexcept { return by_record_.empty(); }

 private:
  friend class StackHandler;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::vector<std::vector<std::string>> stacks_;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> by_record_;
};

/// Reads stack.json. Throws as read_trace() does.
MSPROBE_API Stacks read_stacks(const std::filesystem::path& path);
/// The same for the content of a file; `path` is for messages.
MSPROBE_API Stacks parse_stacks(std::string content, const std::filesystem::path& path);

/// construct.json: the hierarchy of the records. Texts live as long as the Construct; moving keeps them.
class MSPROBE_API Construct {
 public:
  Construct() = default;
  Construct(Construct&&) noexcept = default;
  Construct& operator=(Construct&&) noexcept = default;

  struct Entry {
    std::string_view name;
    std::string_view parent;      // empty: none
    std::int32_t micro_step = 0;  // where the file numbers them, as for Megatron
  };
  /// In the order of the file, which is that of the first call. Of a name that occurs twice the last parent,
  /// in the place of the first.
  std::span<const Entry> entries() const noexcept { return entries_; }
  /// How many micro steps there are, where the file numbers them: with a key megatron_micro_step_number,
  /// which is no entry.
  std::optional<std::int32_t> micro_steps() const noexcept { return micro_steps_; }
  /// The entry of a record; null: there is none.
  const Entry* find(std::string_view name) const noexcept;
  /// Parent of a record; empty: it has none or is unknown.
  std::string_view parent(std::string_view name) const noexcept;

 private:
  friend class ConstructHandler;
  std::string texts_;
  std::vector<Entry> entries_;
  std::optional<std::int32_t> micro_steps_;
  std::vector<std::uint32_t> slots_;  // a hash table of entries_ by name
};

/// Reads construct.json. A parent is a name, null, or a list of one of them and a micro step. Throws as
/// read_trace() does.
MSPROBE_API Construct read_construct(const std::filesystem::path& path);
/// The same for the content of a file; `path` is for messages.
MSPROBE_API Construct parse_construct(std::string content, const std::filesystem::path& path);

}  // namespace msprobe::trace
