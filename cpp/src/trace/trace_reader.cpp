// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/trace_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "io/json_input.h"
#include "msprobe/error.h"
#include "trace/name_index.h"
#include "trace/open_value.h"
#include "trace/python_text.h"

namespace msprobe::trace {
namespace {

using Part = Item::Part;
using Kind = Scalar::Kind;

// Of a tensor, the least that the file takes. Room for so many items is asked for in one piece: what is not
// used of it is never touched and takes no memory, while a list that grows is there twice.
constexpr std::size_t kBytesOfItem = 128;

std::optional<Part> part_of(std::string_view key) {
  if (key == "input_args") return Part::kInputArgs;
  if (key == "input_kwargs") return Part::kInputKwargs;
  if (key == "input") return Part::kInput;
  if (key == "output") return Part::kOutput;
  if (key == "parameters") return Part::kParameters;
  return std::nullopt;
}

// Of the paths, and of what else may be longer than what stands in the file. A real file needs less than its
// own size; a hostile one could have a long key above very many leaves.
std::size_t most_interned_bytes(std::size_t file_bytes) { return (std::size_t{64} << 20) + 4 * file_bytes; }

}  // namespace

/// Makes a Trace of the events of a file.
class TraceBuilder : public io::JsonHandler<TraceBuilder> {
 public:
  /// `file_bytes`: of the document.
  TraceBuilder(Trace& trace, std::size_t file_bytes)
      : trace_(trace),
        is_debug_(trace.path_.filename().native().starts_with("debug")),
        most_interned_(most_interned_bytes(file_bytes)) {}

  void null() { scalar(Kind::kNull, {}); }
  void boolean(bool value) { scalar(Kind::kBool, value ? "True" : "False"); }
  void number(std::string_view text) {
    const bool whole =
        std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
    scalar(whole ? Kind::kInteger : Kind::kFloat, text);
  }
  void text(std::string_view text) { scalar(Kind::kText, text); }
  void key(std::string_view text);
  void begin(bool is_object);
  void end(bool is_object);

  static Trace build(io::JsonScanner& scanner, const std::filesystem::path& path);

 private:
  // Where an event stands in the document.
  enum class Place {
    kDocument,  // outside of everything
    kHeader,    // in the outermost object
    kData,      // in the object of all records
    kRecord,    // in the object of one record
    kElement    // below a part of a record
  };

  void scalar(Kind kind, std::string_view text);
  void header_value(Kind kind, std::string_view text);
  /// Where the value of the present key of the header belongs; null: nowhere.
  Text* header_text();
  void begin_data();
  void begin_record(std::string_view name);
  void record_key(std::string_view key);
  void record_value(Kind kind, std::string_view text);
  void end_record();
  void end_plain_record();
  /// "record \"x\": problem".
  void refuse_record(const std::string& problem);
  /// When the document has ended: makes records be found by name, and drops those that a later one replaces.
  void index_names();

  void open_frame(bool is_object);
  void close_frame();
  Frame& frame() noexcept { return frames_[open_frames_ - 1]; }
  /// Appends the name of the present entry of the innermost frame to path_, if there is a frame.
  void name_entry();
  void element_value(Kind kind, std::string_view text);
  void set_placement_field(std::string_view key, Kind kind, std::string_view text);
  /// `text`: of a list what Python prints, where it may be one, else nothing.
  void set_field(Frame& frame, Kind kind, std::string_view text);
  /// The field whose value is read holds what nothing is kept of.
  void set_composite_field(Frame& frame) { set_field(frame, Kind::kComposite, {}); }
  void add_null();
  void add_leaf(Frame& frame);

  void print_value(Kind kind, std::string_view text);
  void print_comma();

  /// Keeps a text, which stands in the file.
  Text kept(std::string_view text);
  /// Keeps a text that occurs often once.
  Text interned(std::string_view text);
  /// The same for one that was not asked for lately.
  Text interned_slowly(std::string_view text);
  Scalar kept_scalar(Kind kind, std::string_view text);
  std::uint32_t fitting(std::size_t number) {
    if (number > std::numeric_limits<std::uint32_t>::max()) fail("found more than can be counted in 32 bits");
    return static_cast<std::uint32_t>(number);
  }

  Trace& trace_;
  const bool is_debug_;
  const std::size_t most_interned_;
  Place place_ = Place::kDocument;
  std::string key_;  // of the header or the record
  bool has_data_ = false;
  int ignored_ = 0;  // open brackets of something that is of no interest

  Record record_;
  bool holds_gradients_ = false;      // the record
  unsigned parts_seen_ = 0;           // of the record: a bit for each
  std::optional<Part> part_;          // of the record; nothing: its value is of no interest
  Frame frames_[io::kJsonDepth + 1];  // those open, the rest is kept for later
  std::size_t open_frames_ = 0;
  TensorPlacement placement_;  // that was read last
  std::string path_;

  // A list that may be the value of a field: what Python prints of it, while no object is met.
  std::size_t printed_frame_ = 0;  // number of its frame; 0: none
  bool printed_whole_numbers_ = false;
  std::string printed_;

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, Text, Hash, std::equal_to<>> interned_;
  std::size_t interned_bytes_ = 0;
  std::array<Text, 64> recent_;  // of them, each in a place that its looks give: few are asked for in turns
};

// ---- Texts

Text TraceBuilder::kept(std::string_view text) {
  if (text.empty()) return {};
  const Text result = {.offset = fitting(trace_.texts_.size()), .length = fitting(text.size())};
  trace_.texts_ += text;
  return result;
}

Text TraceBuilder::interned(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [text](std::size_t i) { return std::size_t{static_cast<unsigned char>(text[i])}; };
  const std::size_t looks = text.size() * 7 + byte(text.size() / 2) * 5 + byte(text.size() - 1);
  Text& recent = recent_[looks % recent_.size()];
  if (trace_.text(recent) != text) recent = interned_slowly(text);
  return recent;
}

Text TraceBuilder::interned_slowly(std::string_view text) {
  if (const auto known = interned_.find(text); known != interned_.end()) return known->second;
  interned_bytes_ += text.size();
  if (interned_bytes_ > most_interned_) {
    fail("found long names above very many values, whose paths would need more than " +
         std::to_string(most_interned_ >> 20) + " MiB");
    return {};
  }
  const Text result = kept(text);
  interned_.emplace(text, result);
  return result;
}

// Words are few; numbers and texts are many.
Scalar TraceBuilder::kept_scalar(Kind kind, std::string_view text) {
  const bool is_word = kind == Kind::kNull || kind == Kind::kBool || kind == Kind::kComposite;
  if (text.size() > Scalar::kMostLength) {
    constexpr int kMebibyte = 20;
    fail("expected values below " + std::to_string((Scalar::kMostLength + 1) >> kMebibyte) +
         " MiB, found one of " + std::to_string(text.size() >> kMebibyte) + " MiB");
    return {};
  }
  return {is_word ? interned(text) : kept(text), kind};
}

// ---- The document, its header, its records

void TraceBuilder::key(std::string_view text) {
  if (ignored_ > 0) return;
  if (place_ == Place::kData) {
    begin_record(text);
  } else if (place_ == Place::kRecord) {
    record_key(text);
  } else if (place_ == Place::kElement) {
    frame().field = field_of(text);
    if (frame().field == Field::kOther) frame().other_key = text;
  } else {
    key_ = text;
  }
}

void TraceBuilder::scalar(Kind kind, std::string_view text) {
  if (ignored_ > 0) return;
  if (place_ == Place::kElement) {
    element_value(kind, text);
  } else if (place_ == Place::kRecord) {
    record_value(kind, text);
  } else if (place_ == Place::kData) {
    if (!is_debug_ && kind != Kind::kNull) refuse_record("expected an object");
    if (part_ && kind == Kind::kNull) add_null();
    end_plain_record();
  } else if (place_ == Place::kHeader) {
    header_value(kind, text);
  } else {
    fail("expected an object with the key \"data\"");
  }
}

Text* TraceBuilder::header_text() {
  if (key_ == "task") return &trace_.task_;
  if (key_ == "level") return &trace_.level_;
  if (key_ == "framework") return &trace_.framework_;
  if (key_ == "dump_data_dir") return &trace_.dump_data_dir_;
  return nullptr;
}

void TraceBuilder::header_value(Kind kind, std::string_view text) {
  if (key_ == "data") {
    if (kind != Kind::kNull) fail("\"data\": expected an object of records");
    begin_data();
  } else if (Text* const field = header_text()) {
    if (kind != Kind::kText && kind != Kind::kNull) fail(io::in_quotes(key_) + ": expected a text or null");
    *field = interned(text);
  }
}

// As Python's dict: a later "data" replaces an earlier one.
void TraceBuilder::begin_data() {
  has_data_ = true;
  trace_.records_.clear();
  trace_.items_.clear();
  trace_.group_ids_.clear();
  trace_.placements_.clear();
  trace_.has_md5_ = false;
}

void TraceBuilder::begin(bool is_object) {
  if (ignored_ > 0) {
    ++ignored_;
  } else if (place_ == Place::kDocument) {
    if (!is_object) fail("expected an object with the key \"data\"");
    place_ = Place::kHeader;
  } else if (place_ == Place::kHeader && key_ != "data") {
    if (header_text() != nullptr) fail(io::in_quotes(key_) + ": expected a text or null");
    ignored_ = 1;
  } else if (place_ == Place::kHeader) {
    if (!is_object) fail("\"data\": expected an object of records");
    place_ = Place::kData;
    begin_data();
  } else if (place_ == Place::kData && !is_debug_) {
    if (!is_object) refuse_record("expected an object");
    record_.begin = position() - 1;
    place_ = Place::kRecord;
  } else if (place_ == Place::kData) {
    record_.begin = position() - 1;
    place_ = Place::kElement;
    open_frame(is_object);
  } else if (place_ == Place::kRecord && !part_) {
    record_value(Kind::kComposite, {});
    ignored_ = 1;
  } else {
    place_ = Place::kElement;
    open_frame(is_object);
  }
}

void TraceBuilder::end(bool /*is_object*/) {
  if (ignored_ > 0) {
    --ignored_;
  } else if (place_ == Place::kElement) {
    close_frame();
    if (open_frames_ > 0) return;
    place_ = is_debug_ ? Place::kData : Place::kRecord;
    if (is_debug_) end_record();
  } else if (place_ == Place::kRecord) {
    place_ = Place::kData;
    end_record();
  } else {
    place_ = place_ == Place::kData ? Place::kHeader : Place::kDocument;
  }
}

void TraceBuilder::begin_record(std::string_view name) {
  record_ = {.name = kept(name), .first_item = fitting(trace_.items_.size())};
  holds_gradients_ = !is_debug_ && holds_gradients(name);
  part_ = is_debug_ ? std::optional(Part::kSaved) : std::nullopt;
  parts_seen_ = 0;
  path_.clear();
}

void TraceBuilder::record_key(std::string_view key) {
  key_ = key;
  part_ = holds_gradients_ ? Part::kGradients : part_of(key);
  if (part_ && !holds_gradients_) {
    const unsigned bit = 1U << static_cast<unsigned>(*part_);
    if ((parts_seen_ & bit) != 0) {  // as Python's dict: the later one counts
      const auto first = trace_.items_.begin() + record_.first_item;
      trace_.items_.erase(std::remove_if(first, trace_.items_.end(),
                                         [this](const Item& item) { return item.part == *part_; }),
                          trace_.items_.end());
    }
    parts_seen_ |= bit;
  }
  path_ = holds_gradients_ ? key : std::string_view();
  record_.has_input |= part_ && *part_ <= Part::kInput;
  record_.has_output |= part_ == Part::kOutput;
}

void TraceBuilder::record_value(Kind kind, std::string_view text) {
  if (key_ == "is_recompute" && !holds_gradients_) {
    if (kind != Kind::kBool && kind != Kind::kNull) refuse_record("\"is_recompute\": expected true or false");
    record_.is_recompute = text == "True";
  } else if (part_ && kind == Kind::kNull) {
    add_null();
  }
}

void TraceBuilder::refuse_record(const std::string& problem) {
  fail("record " + io::in_quotes(trace_.text(record_.name)) + ": " + problem);
}

void TraceBuilder::end_plain_record() {
  record_.begin = begin_of_event();
  end_record();
}

void TraceBuilder::end_record() {
  record_.end = position();
  record_.item_count = fitting(trace_.items_.size()) - record_.first_item;
  trace_.records_.push_back(record_);
}

// ---- What stands below a record

void TraceBuilder::name_entry() {
  if (open_frames_ == 0) return;
  Frame& parent = frame();
  const std::size_t index = parent.index++;
  if (holds_gradients_ && open_frames_ == 1 && !parent.is_object) return;  // parameter: [gradient]
  if (!path_.empty()) path_ += '.';
  if (parent.is_object) {
    path_ += parent.key();
  } else if (index < 10) {
    path_ += static_cast<char>('0' + index);
  } else {
    path_ += std::to_string(index);
  }
}

void TraceBuilder::open_frame(bool is_object) {
  const std::size_t path_length = path_.size();
  if (printed_frame_ > 0) {
    printed_whole_numbers_ = false;
    if (is_object) {  // the list is none that is printed
      set_composite_field(frames_[printed_frame_ - 2]);
      printed_frame_ = 0;
    } else {
      print_comma();
      printed_ += '[';
    }
  } else if (open_frames_ > 0 && frame().is_object) {
    if (!is_object && may_be_list(frame())) {
      printed_ = '[';
      printed_frame_ = open_frames_ + 1;
      printed_whole_numbers_ = true;
    } else {
      printed_whole_numbers_ = false;
      set_composite_field(frame());
    }
  }
  name_entry();
  const bool is_placement = is_object && open_frames_ > 0 && frame().is_object && frame().key() == "dtensor";
  if (is_placement) placement_ = {};
  Frame& opened = frames_[open_frames_++];
  opened.open(is_object);
  opened.is_placement = is_placement;
  opened.path_length = path_length;
  opened.first_item = trace_.items_.size();
}

void TraceBuilder::close_frame() {
  Frame& closed = frame();
  if (closed.is_leaf) {
    trace_.items_.resize(closed.first_item);  // what its fields looked like
    add_leaf(closed);
  } else if (closed.is_placement) {
    frames_[open_frames_ - 2].has_placement = true;
  }
  path_.resize(closed.path_length);
  if (printed_frame_ > 0) printed_ += ']';
  --open_frames_;
  if (printed_frame_ == open_frames_ + 1) {
    printed_frame_ = 0;
    set_field(frame(), Kind::kComposite, printed_);
  }
}

void TraceBuilder::element_value(Kind kind, std::string_view text) {
  Frame& parent = frame();
  if (printed_frame_ > 0) print_value(kind, text);
  if (parent.is_object) set_field(parent, kind, text);
  if (kind == Kind::kNull) {
    const std::size_t path_length = path_.size();
    name_entry();
    add_null();
    path_.resize(path_length);
  } else {
    ++parent.index;
  }
}

void TraceBuilder::set_placement_field(std::string_view key, Kind kind, std::string_view text) {
  if (kind == Kind::kText && key == "mesh") {
    placement_.mesh = interned(text);
  } else if (kind == Kind::kComposite) {
    if (key == "shape") placement_.shape = interned(text);
    if (key == "placements") placement_.placements = interned(text);
    if (key == "mesh_shape") placement_.mesh_shape = interned(text);
    if (key == "mesh_dims") placement_.mesh_dims = interned(text);
    if (key == "coordinate") placement_.coordinate = interned(text);
  }
}

void TraceBuilder::set_field(Frame& frame, Kind kind, std::string_view text) {
  if (frame.is_placement) set_placement_field(frame.key(), kind, text);
  Item& leaf = frame.leaf;
  const bool is_text = kind == Kind::kText;
  const auto text_or_null = [&](const char* problem) {
    if (!is_text && kind != Kind::kNull) frame.problem = problem;
    return is_text ? text : std::string_view();
  };
  switch (frame.field) {
    case Field::kMax: leaf.max = kept_scalar(kind, text); break;
    case Field::kMin: leaf.min = kept_scalar(kind, text); break;
    case Field::kMean: leaf.mean = kept_scalar(kind, text); break;
    case Field::kNorm: leaf.norm = kept_scalar(kind, text); break;
    case Field::kShape:
      if (kind != Kind::kComposite || !printed_whole_numbers_) {
        frame.problem = "\"shape\": expected a list of whole numbers";
      }
      leaf.shape = interned(text);
      break;
    case Field::kType:
      frame.is_leaf = is_text;
      leaf.type = interned(text);
      break;
    case Field::kRequiresGrad:
      if (kind != Kind::kBool) frame.problem = "\"requires_grad\": expected true or false";
      leaf.requires_grad = text == "True";
      break;
    case Field::kDtype: leaf.dtype = interned(text_or_null("\"dtype\": expected a text or null")); break;
    case Field::kMd5: leaf.md5 = kept(text_or_null("\"md5\": expected a text or null")); break;
    case Field::kDataName:
      leaf.data_name = kept(text_or_null("\"data_name\": expected a text or null"));
      break;
    case Field::kValue:
    case Field::kFormat:
    case Field::kGroupRanks: leaf.value = kept_scalar(kind, text); break;
    case Field::kGroupId:
      if (is_text) frame.group_id = interned(text);
      break;
    case Field::kOther: break;
  }
}

void TraceBuilder::add_null() {
  Item item;
  item.part = part_.value_or(Part::kSaved);
  item.path = interned(path_);
  trace_.items_.push_back(item);
}

void TraceBuilder::add_leaf(Frame& frame) {
  Item& leaf = frame.leaf;
  leaf.kind = leaf.dtype.length > 0 ? Item::Kind::kTensor : Item::Kind::kValue;
  leaf.part = part_.value_or(Part::kSaved);
  leaf.path = interned(path_);
  if (frame.problem != nullptr) refuse_record(frame.problem);
  trace_.has_md5_ |= leaf.md5.length > 0;
  if (frame.group_id.length > 0) {
    trace_.group_ids_.push_back({.item = fitting(trace_.items_.size()), .id = frame.group_id});
  }
  if (frame.has_placement && leaf.kind == Item::Kind::kTensor) {
    trace_.placements_.push_back({.item = fitting(trace_.items_.size()), .placement = placement_});
  }
  trace_.items_.push_back(leaf);
}

// ---- The text of a list, as Python prints it

void TraceBuilder::print_comma() {
  if (printed_.back() != '[') printed_ += ", ";
}

void TraceBuilder::print_value(Kind kind, std::string_view text) {
  print_comma();
  printed_whole_numbers_ &= kind == Kind::kInteger;
  if (kind == Kind::kText) {
    append_python_repr(printed_, text);
  } else if (kind == Kind::kNull) {
    printed_ += "None";
  } else if (text.ends_with("NaN")) {
    printed_ += "nan";
  } else if (text.ends_with("Infinity") || text.ends_with("Inf")) {
    printed_ += text.starts_with('-') ? "-inf" : "inf";
  } else {
    printed_ += text;
  }
}

// ---- The end

void TraceBuilder::index_names() {
  auto& records = trace_.records_;
  trace_.slots_ = make_slots(records.size());
  std::uint32_t kept = 0;
  for (const Record& record : records) {
    const auto name_of = [&](std::uint32_t i) { return trace_.text(records[i].name); };
    std::uint32_t& slot = find_slot(trace_.slots_, trace_.text(record.name), name_of);
    if (slot == kFreeSlot) slot = kept++;
    records[slot] = record;  // as Python's dict: the last value, in the first place
  }
  records.resize(kept);
}

Trace TraceBuilder::build(io::JsonScanner& scanner, const std::filesystem::path& path) {
  Trace trace;
  trace.path_ = path;
  // The texts of a file fit, so that they do not move while it is read.
  trace.texts_.reserve(scanner.size() + sizeof(std::string));
  trace.items_.reserve(scanner.size() / kBytesOfItem);
  const auto builder = std::make_unique<TraceBuilder>(trace, scanner.size());  // its frames are large
  io::parse_json(scanner, *builder);
  if (!builder->has_data_) throw FormatError(path.string(), "\"data\"", "expected an object of records");
  builder->index_names();
  return trace;
}

Trace parse_trace(std::string content, const std::filesystem::path& path) {
  io::JsonScanner scanner(content, path);
  return TraceBuilder::build(scanner, path);
}

Trace read_trace(const std::filesystem::path& path) {
  io::JsonScanner scanner(path);
  return TraceBuilder::build(scanner, path);
}

}  // namespace msprobe::trace
