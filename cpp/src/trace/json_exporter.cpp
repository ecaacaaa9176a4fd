// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/table.h"
#include "msprobe/trace.h"
#include "trace/encoding.h"
#include "trace/json_text.h"

namespace msprobe::trace {
namespace {

constexpr int kDeepest = 200;  // of element trees; recorders stop long before

// JSON text with holes, which fills supply.
struct Text {
  std::string text;
  std::vector<std::pair<std::size_t, SlotId>> slots;  // position in text, ascending
};

struct Record {
  RecordKind kind = RecordKind::kApiForward;
  bool is_recompute = false;
  std::string name;
  std::vector<std::pair<Part, Text>> parts;

  Text* find(Part part) {
    for (auto& [key, text] : parts) {
      if (key == part) return &text;
    }
    return nullptr;
  }
};

// Formats element trees.
class ElementFormatter {
 public:
  ElementFormatter(std::string_view bytes, int level) : bytes_(bytes), json_(level) {}

  // All elements as the entries of one list.
  Text list() {
    json_.begin_list();
    while (!bytes_.empty()) element(0);
    json_.end_list();
    return finish();
  }

  Text single() {
    element(0);
    if (!bytes_.empty()) throw FormatError("trace log", "", "expected one element, found more");
    return finish();
  }

  std::size_t tensors() const noexcept { return tensors_; }

 private:
  Text finish() { return {json_.take(), std::move(slots_)}; }

  void typed(std::string_view type) {
    json_.begin_object();
    json_.key("type");
    json_.text(type);
    json_.key("value");
  }

  template <typename Write>
  void typed_value(std::string_view type, Write write) {
    typed(type);
    write();
    json_.end_object();
  }

  void element(int depth) {
    if (depth > kDeepest) throw FormatError("trace log", "", "elements are nested too deeply");
    switch (const auto tag = bytes_.take<Tag>(); tag) {
      case Tag::kNull: json_.null(); break;
      case Tag::kFalse:
      case Tag::kTrue: typed_value("bool", [&] { json_.boolean(tag == Tag::kTrue); }); break;
      case Tag::kInteger: typed_value("int", [&] { json_.integer(bytes_.take<std::int64_t>()); }); break;
      case Tag::kBigInteger: typed_value("int", [&] { json_.value(bytes_.take_text()); }); break;
      case Tag::kReal: typed_value("float", [&] { json_.real(bytes_.take<double>()); }); break;
      case Tag::kText: typed_value("str", [&] { json_.text(bytes_.take_text()); }); break;
      case Tag::kComplex: typed_value("complex", [&] { json_.text(complex_text()); }); break;
      case Tag::kTensor: tensor(); break;
      case Tag::kTypedText: {
        const std::string_view type = bytes_.take_text();
        const std::string_view value = bytes_.take_text();
        text_of_type(type, value);
        break;
      }
      case Tag::kTypedReal: {
        const std::string_view type = bytes_.take_text();
        typed_value(type, [&] { json_.real(bytes_.take<double>()); });
        break;
      }
      case Tag::kTypedInteger: {
        const std::string_view type = bytes_.take_text();
        typed_value(type, [&] { json_.integer(bytes_.take<std::int64_t>()); });
        break;
      }
      case Tag::kTypedBoolean: {
        const std::string_view type = bytes_.take_text();
        typed_value(type, [&] { json_.boolean(bytes_.take<std::uint8_t>() != 0); });
        break;
      }
      case Tag::kSlice: typed_value("slice", [&] { slice(); }); break;
      case Tag::kSize: typed_value("torch.Size", [&] { size(); }); break;
      case Tag::kPlainText: json_.text(bytes_.take_text()); break;
      case Tag::kPlainInteger: json_.integer(bytes_.take<std::int64_t>()); break;
      case Tag::kList:
        json_.begin_list();
        while (!ends()) element(depth + 1);
        json_.end_list();
        break;
      case Tag::kObject: object(depth); break;
      case Tag::kSlot: {
        json_.value("");
        slots_.emplace_back(json_.out().size(), bytes_.take<SlotId>());
        break;
      }
      default: throw FormatError("trace log", "", "found an unknown element");
    }
  }

  // Consumes the end of a list or an object if it is next.
  bool ends() {
    if (bytes_.rest().empty()) throw FormatError("trace log", "", "a list or an object has no end");
    if (static_cast<Tag>(bytes_.rest().front()) != Tag::kEnd) return false;
    (void)bytes_.take<Tag>();
    return true;
  }

  void object(int depth) {
    json_.begin_object();
    while (!ends()) {
      if (bytes_.take<Tag>() != Tag::kKey) throw FormatError("trace log", "", "expected a key in an object");
      json_.key(bytes_.take_text());
      element(depth + 1);
    }
    json_.end_object();
  }

  // A memory format has its own key in the format.
  void text_of_type(std::string_view type, std::string_view value) {
    json_.begin_object();
    json_.key("type");
    json_.text(type);
    json_.key(type == "torch.memory_format" ? "format" : "value");
    json_.text(value);
    json_.end_object();
  }

  std::string complex_text() {
    const double real = bytes_.take<double>();
    const double imaginary = bytes_.take<double>();
    const std::string imaginary_text = io::format_double(imaginary);
    const bool signed_already = imaginary_text.starts_with('-');
    return "(" + io::format_double(real) + (signed_already ? "" : "+") + imaginary_text + "j)";
  }

  void slice() {
    json_.begin_list();
    for (int i = 0; i < 3; ++i) {
      const bool given = bytes_.take<std::uint8_t>() != 0;
      const auto value = bytes_.take<std::int64_t>();
      if (given) {
        json_.integer(value);
      } else {
        json_.null();
      }
    }
    json_.end_list();
  }

  void size() {
    json_.begin_list();
    for (auto left = bytes_.take<std::uint32_t>(); left > 0; --left)
      json_.integer(bytes_.take<std::int64_t>());
    json_.end_list();
  }

  void tensor() {
    ++tensors_;
    const auto dtype = bytes_.take<std::uint8_t>();
    const auto flags = bytes_.take<std::uint8_t>();
    const auto dimensions = bytes_.take<std::uint8_t>();
    if (dtype != kOtherDtype && dtype >= kDTypeCount)
      throw FormatError("trace log", "", "found an unknown dtype");
    const bool numpy = (flags & kNumpy) != 0;
    json_.begin_object();
    json_.key("type");
    json_.text(numpy ? "numpy.ndarray" : "torch.Tensor");
    json_.key("dtype");
    if (dtype == kOtherDtype) {
      json_.text(bytes_.take_text());
    } else {
      json_.text("torch." + std::string(dtype_name(static_cast<DType>(dtype))));
    }
    json_.key("shape");
    json_.begin_list();
    for (int i = 0; i < dimensions; ++i) {
      json_.integer((flags & kWideShape) != 0 ? bytes_.take<std::int64_t>() : bytes_.take<std::uint32_t>());
    }
    json_.end_list();
    statistics();
    if (!numpy) {
      json_.key("requires_grad");
      json_.boolean((flags & kRequiresGrad) != 0);
    }
    if ((flags & kNonFinite) != 0)
      (void)bytes_.take<std::uint64_t>();  // the counts are not part of dump.json
    if ((flags & kHasChecksum) != 0) checksum(bytes_.take<std::uint32_t>());
    if ((flags & kHasDataName) != 0) {
      json_.key("data_name");
      json_.text(bytes_.take_text());
    }
    json_.end_object();
  }

  void checksum(std::uint32_t value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text(8, '0');
    for (int i = 7; i >= 0; --i, value >>= 4) text[static_cast<std::size_t>(i)] = kDigits[value & 15];
    json_.key("md5");
    json_.text(text);
  }

  static constexpr std::array<std::string_view, 4> kNumbers{"Max", "Min", "Mean", "Norm"};

  void statistics() {
    using Form = Statistics::Form;
    const auto form = bytes_.take<Form>();
    std::uint8_t bits = 0;
    std::uint64_t integer = 0;
    if (form == Form::kBool) bits = bytes_.take<std::uint8_t>();
    if (form == Form::kInteger || form == Form::kUnsigned) integer = bytes_.take<std::uint64_t>();
    for (std::size_t i = 0; i < kNumbers.size(); ++i) {
      json_.key(kNumbers[i]);
      switch (form) {
        case Form::kFloats: json_.real(bytes_.take<float>()); break;
        case Form::kDoubles: json_.real(bytes_.take<double>()); break;
        case Form::kNoNorm:
          if (const auto value = bytes_.take<double>(); i < 3) {
            json_.real(value);
          } else {
            json_.null();
          }
          break;
        case Form::kBool:
          if (i < 2) {
            json_.boolean((bits >> i & 1) != 0);
          } else {
            json_.null();
          }
          break;
        case Form::kInteger: json_.integer(static_cast<std::int64_t>(integer)); break;
        case Form::kUnsigned: json_.unsigned_integer(integer); break;
        default: json_.null(); break;
      }
    }
  }

  Bytes bytes_;
  JsonText json_;
  std::vector<std::pair<std::size_t, SlotId>> slots_;
  std::size_t tensors_ = 0;
};

// The keys of each kind in the order of the format; `recompute_before`: in front of which one "is_recompute"
// stands, kNowhere for kinds without it.
struct Layout {
  std::array<std::pair<Part, std::string_view>, 4> parts;
  std::size_t count;
  std::size_t recompute_before;
};
constexpr std::size_t kNowhere = 99;

const Layout& layout_of(RecordKind kind) {
  static constexpr Layout kApi{
      {{{Part::kInputArgs, "input_args"}, {Part::kInputKwargs, "input_kwargs"}, {Part::kOutput, "output"}}},
      3,
      2};
  static constexpr Layout kModule{{{{Part::kInputArgs, "input_args"},
                                    {Part::kInputKwargs, "input_kwargs"},
                                    {Part::kOutput, "output"},
                                    {Part::kParameters, "parameters"}}},
                                  4,
                                  4};
  static constexpr Layout kBackward{{{{Part::kInput, "input"}, {Part::kOutput, "output"}}}, 2, kNowhere};
  switch (kind) {
    case RecordKind::kApiForward: return kApi;
    case RecordKind::kModuleForward: return kModule;
    default: return kBackward;
  }
}

constexpr int kRecordLevel = 2;  // of the keys inside "data", in spaces

}  // namespace

struct JsonExporter::State {
  Header header;
  std::size_t taken = 0;
  std::vector<Record> records;
  std::unordered_map<SlotId, std::string> fills;  // element bytes; formatted where they go
  std::vector<std::pair<std::string, std::optional<std::string>>> construct;
  std::unordered_map<std::string, std::size_t> construct_index;
  std::vector<std::vector<std::string>> stacks;
  std::vector<std::vector<RecordId>> stack_records;
  std::vector<StackId> stack_order;  // by the first record that came from it
  std::size_t tensors = 0;

  Record& record(RecordId id) {
    if (id >= records.size())
      throw FormatError("trace log", "", "found a part of a record that does not exist");
    return records[id];
  }

  void take_event(EventType type, Bytes fields) {
    switch (type) {
      case EventType::kRecord: take_record(fields); break;
      case EventType::kPart: take_part(fields); break;
      case EventType::kFill: {
        const auto slot = fields.take<SlotId>();
        fills[slot] = std::string(fields.take_text());
        break;
      }
      case EventType::kConstruct: {
        std::string child(fields.take_text());
        const bool has_parent = fields.take<std::uint8_t>() != 0;
        std::optional<std::string> parent(fields.take_text());
        if (!has_parent) parent.reset();
        if (construct_index.emplace(child, construct.size()).second) {
          construct.emplace_back(std::move(child), std::move(parent));
        }
        break;
      }
      case EventType::kStack: {
        if (fields.take<StackId>() != stacks.size())
          throw FormatError("trace log", "", "stacks are out of order");
        auto& frames = stacks.emplace_back();
        stack_records.emplace_back();
        for (auto left = fields.take<std::uint32_t>(); left > 0; --left)
          frames.emplace_back(fields.take_text());
        break;
      }
      default: throw FormatError("trace log", "", "found an unknown event");
    }
  }

  void take_record(Bytes& fields) {
    const auto id = fields.take<RecordId>();
    const auto stack = fields.take<StackId>();
    const auto kind = fields.take<RecordKind>();
    const bool is_recompute = fields.take<std::uint8_t>() != 0;
    (void)fields.take<std::uint16_t>();
    if (id != records.size() || kind > RecordKind::kSaved) {
      throw FormatError("trace log", "", "found a record out of order or of an unknown kind");
    }
    records.push_back({kind, is_recompute, std::string(fields.take_text()), {}});
    if (stack == kNoStack) return;
    if (stack >= stacks.size())
      throw FormatError("trace log", "", "found a record of a stack that does not exist");
    if (stack_records[stack].empty()) stack_order.push_back(stack);
    stack_records[stack].push_back(id);
  }

  void take_part(Bytes& fields) {
    Record& target = record(fields.take<RecordId>());
    auto part = fields.take<Part>();
    (void)fields.take_bytes(3);
    const bool single = part == Part::kInputKwargs || part == Part::kParameters || part == Part::kValue ||
                        part == Part::kOutputObject;
    if (part == Part::kOutputObject) part = Part::kOutput;
    ElementFormatter formatter(fields.take_text(), part == Part::kValue ? kRecordLevel : kRecordLevel + 1);
    Text text = single ? formatter.single() : formatter.list();
    tensors += formatter.tensors();
    if (Text* present = target.find(part)) {
      *present = std::move(text);  // a later one replaces: a backward that runs twice
    } else {
      target.parts.emplace_back(part, std::move(text));
    }
  }

  // ---- writing

  void append_text(std::string& out, const Text& text, int level) {
    std::size_t done = 0;
    for (const auto& [position, slot] : text.slots) {
      out.append(text.text, done, position - done);
      done = position;
      append_fill(out, slot, level_at(out, level));
    }
    out.append(text.text, done);
  }

  // The indentation of the line that `out` ends with.
  static int level_at(const std::string& out, int level) {
    const std::size_t line = out.rfind('\n');
    if (line == std::string::npos) return level;
    const std::size_t first = out.find_first_not_of(' ', line + 1);
    return static_cast<int>((first == std::string::npos ? out.size() : first) - line - 1);
  }

  void append_fill(std::string& out, SlotId slot, int level) {
    const auto fill = fills.find(slot);
    if (fill == fills.end()) {
      out += "null";
    } else {
      append_text(out, ElementFormatter(fill->second, level).single(), level);
    }
  }

  void append_record(std::string& out, Record& record) {
    if (Text* value = record.find(Part::kValue)) {
      append_text(out, *value, kRecordLevel);
      return;
    }
    const Layout& layout = layout_of(record.kind);
    bool first = true;
    const auto begin_entry = [&](std::string_view key) {
      out += first ? "{\n   \"" : ",\n   \"";
      first = false;
      out.append(key).append("\": ");
    };
    for (std::size_t i = 0; i <= layout.count; ++i) {
      if (i == layout.recompute_before) {
        begin_entry("is_recompute");
        out += record.is_recompute ? "true" : "false";
      }
      if (i == layout.count) break;
      if (const Text* text = record.find(layout.parts[i].first)) {
        begin_entry(layout.parts[i].second);
        append_text(out, *text, kRecordLevel + 1);
      }
    }
    out += first ? "{}" : "\n  }";
  }

  bool has_data() const { return header.task != "structure"; }

  std::string dump_json() {
    JsonText json(0);
    json.begin_object();
    json.key("task");
    json.text(header.task);
    json.key("level");
    json.text(header.level);
    json.key("framework");
    json.text("pytorch");
    json.key("dump_data_dir");
    if (header.data_directory) {
      json.text(*header.data_directory);
    } else {
      json.null();
    }
    json.key("data");
    std::string out = json.take();
    bool first = true;
    if (has_data()) {
      // A name may occur twice when a backward runs twice: the later record takes the place of the first.
      std::unordered_map<std::string_view, std::size_t> last;
      for (std::size_t i = 0; i < records.size(); ++i) last[records[i].name] = i;
      for (Record& record : records) {
        const auto found = last.find(record.name);
        if (found == last.end()) continue;
        out += first ? "{\n  " : ",\n  ";
        first = false;
        append_json_string(out, record.name);
        out += ": ";
        append_record(out, records[found->second]);
        last.erase(found);
      }
    }
    out += first ? "{}\n}" : "\n }\n}";
    return out;
  }

  std::string stack_json() {
    JsonText json(0);
    json.begin_object();
    for (std::size_t i = 0; i < stack_order.size(); ++i) {
      json.key(std::to_string(i));
      json.begin_list();
      json.begin_list();
      for (const RecordId id : stack_records[stack_order[i]]) json.text(records[id].name);
      json.end_list();
      json.begin_list();
      for (const std::string& frame : stacks[stack_order[i]]) json.text(frame);
      json.end_list();
      json.end_list();
    }
    json.end_object();
    return json.take();
  }

  std::string construct_json() {
    JsonText json(0);
    json.begin_object();
    for (const auto& [child, parent] : construct) {
      json.key(child);
      if (parent) {
        json.text(*parent);
      } else {
        json.null();
      }
    }
    json.end_object();
    return json.take();
  }
};

JsonExporter::JsonExporter(Header header) : state_(std::make_unique<State>()) {
  state_->header = std::move(header);
}

JsonExporter::~JsonExporter() = default;

void JsonExporter::consume(std::string_view log) {
  std::size_t position = std::max(state_->taken, kLogHeaderBytes);
  while (position + sizeof(EventHead) <= log.size()) {
    EventHead head{};
    std::memcpy(&head, log.data() + position, sizeof head);
    if (head.length == 0) break;
    if (head.length < sizeof head || head.length % kEventAlignment != 0 ||
        head.length > log.size() - position) {
      throw FormatError("trace log", "byte " + std::to_string(position), "found a damaged event");
    }
    state_->take_event(static_cast<EventType>(head.type),
                       Bytes(log.substr(position + sizeof head, head.length - sizeof head)));
    position += head.length;
    state_->taken = position;
  }
}

void JsonExporter::write(const std::filesystem::path& directory) {
  if (state_->header.level == "debug") {
    io::write_file(directory / "debug.json", state_->dump_json());
    return;
  }
  io::write_file(directory / "dump.json", state_->dump_json());
  io::write_file(directory / "stack.json", state_->stack_json());
  io::write_file(directory / "construct.json", state_->construct_json());
}

std::size_t JsonExporter::record_count() const noexcept { return state_->records.size(); }

std::size_t JsonExporter::tensor_count() const noexcept { return state_->tensors; }

}  // namespace msprobe::trace
