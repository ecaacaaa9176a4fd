// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/event_log.h"
#include "msprobe/file.h"
#include "msprobe/trace.h"
#include "trace/json/element_text.h"
#include "trace/json/json_text.h"
#include "trace/log/encoding.h"

namespace msprobe::trace {
namespace {

// The keys of each kind in the order of the format; `recompute_before`: in front of which one "is_recompute"
// stands, kNowhere for kinds without it.
struct RecordKeys {
  std::array<std::pair<Part, std::string_view>, 4> parts;
  std::size_t count;
  std::size_t recompute_before;
};
constexpr std::size_t kNowhere = 99;

const RecordKeys& keys_of(RecordKind kind, const Header& header) {
  static constexpr RecordKeys kApi{
      {{{Part::kInputArgs, "input_args"}, {Part::kInputKwargs, "input_kwargs"}, {Part::kOutput, "output"}}},
      3,
      2};
  static constexpr RecordKeys kApiOfOverflows{kApi.parts, 3, 3};
  static constexpr RecordKeys kModule{{{{Part::kInputArgs, "input_args"},
                                        {Part::kInputKwargs, "input_kwargs"},
                                        {Part::kOutput, "output"},
                                        {Part::kParameters, "parameters"}}},
                                      4,
                                      4};
  static constexpr RecordKeys kBackward{{{{Part::kInput, "input"}, {Part::kOutput, "output"}}}, 2, kNowhere};
  switch (kind) {
    case RecordKind::kApiForward: return header.task == "overflow_check" ? kApiOfOverflows : kApi;
    case RecordKind::kModuleForward: return kModule;
    default: return kBackward;
  }
}

constexpr int kRecordLevel = 2;           // of the keys inside "data", in spaces
constexpr std::size_t kRecordBytes = 80;  // of the keys and brackets of a record, for an estimate
constexpr RecordId kReplaced = 0xffffffff;

}  // namespace

struct JsonExporter::State {
  struct Record {
    RecordKind kind = RecordKind::kApiForward;
    bool is_recompute = false;
    std::string name;
    std::string recompute_of;  // name of the record it repeats; empty: not known
    std::uint32_t passes = 1;  // how often it was made
    std::vector<std::pair<Part, ElementText>> parts;

    ElementText* find(Part part) {
      for (auto& [key, text] : parts) {
        if (key == part) return &text;
      }
      return nullptr;
    }
  };

  Header header;
  bool has_header = false;
  std::size_t taken = kLogHeaderBytes;
  std::deque<Record> records;  // which never move: the names below point into them
  // A name occurs twice when a backward runs twice. The last record is the one that is written, where it was
  // made; those before it are kReplaced.
  std::vector<RecordId> order;
  std::unordered_map<std::string_view, std::size_t> order_index;
  std::unordered_map<SlotId, std::string> fills;  // formatted for a line without indentation
  std::unordered_set<SlotId> slots;               // that have their place
  std::vector<std::pair<std::string, std::optional<std::string>>> construct;
  std::unordered_set<std::string> constructed;
  std::vector<std::vector<std::string>> stacks;
  std::vector<std::vector<RecordId>> stack_records;
  std::vector<StackId> stack_order;  // by the first record that came from it
  std::size_t tensors = 0;
  std::size_t text_bytes = 0;  // of all records and fills: about the size of dump.json
  std::string scratch;

  // ---- taking events

  void take_event(EventType type, Bytes fields) {
    switch (type) {
      case EventType::kRecord: take_record(fields); break;
      case EventType::kPart: take_part(fields); break;
      case EventType::kFill: take_fill(fields); break;
      case EventType::kConstruct: take_construct(fields); break;
      case EventType::kStack: take_stack(fields); break;
      case EventType::kHeader: take_header(fields); break;
      default: throw FormatError("trace log", "", "found an unknown event");
    }
  }

  static std::optional<std::string> take_optional(Bytes& fields) {
    const bool given = fields.take<std::uint8_t>() != 0;
    const std::string_view text = fields.take_text();
    return given ? std::optional<std::string>(text) : std::nullopt;
  }

  void take_header(Bytes& fields) {
    Header found;
    found.task = fields.take_text();
    found.level = fields.take_text();
    found.data_directory = take_optional(fields);
    found.framework.name = fields.take_text();
    found.framework.package = fields.take_text();
    const auto flags = fields.take<std::uint8_t>();
    found.framework.qualifies_dtypes = (flags & kQualifiesDtypes) != 0;
    found.framework.has_requires_grad = (flags & kHasRequiresGrad) != 0;
    found.framework.has_recompute = (flags & kHasRecompute) != 0;
    if (!std::exchange(has_header, true)) header = std::move(found);
  }

  void take_construct(Bytes& fields) {
    std::string child(fields.take_text());
    std::optional<std::string> parent = take_optional(fields);
    if (constructed.insert(child).second) construct.emplace_back(std::move(child), std::move(parent));
  }

  void take_stack(Bytes& fields) {
    if (fields.take<StackId>() != stacks.size())
      throw FormatError("trace log", "", "found stacks out of order");
    std::vector<std::string> frames;
    for (auto left = fields.take<std::uint32_t>(); left > 0; --left) frames.emplace_back(fields.take_text());
    stacks.push_back(std::move(frames));
    stack_records.emplace_back();
  }

  void take_fill(Bytes& fields) {
    const auto slot = fields.take<SlotId>();
    ElementText text = single_text(fields.take_text(), 0, header.framework, scratch);
    if (!text.holes.empty()) throw FormatError("trace log", "", "found a fill that waits for another fill");
    tensors += text.tensors;
    text_bytes += 2 * text.text.size();  // with the indentation
    fills[slot] = std::move(text.text);
  }

  void take_record(Bytes& fields) {
    const auto id = fields.take<RecordId>();
    const auto stack = fields.take<StackId>();
    const auto kind = fields.take<RecordKind>();
    const bool is_recompute = fields.take<std::uint8_t>() != 0;
    const auto repeats_bytes = fields.take<std::uint16_t>();
    const std::string_view name = fields.take_text();
    const std::string_view recompute_of = fields.take_bytes(repeats_bytes);
    if (id != records.size() || kind > RecordKind::kSaved)
      throw FormatError("trace log", "", "found a record out of order or of an unknown kind");
    if (stack != kNoStack && stack >= stacks.size())
      throw FormatError("trace log", "", "found a record of a stack that does not exist");
    records.push_back({kind, is_recompute, std::string(name), std::string(recompute_of), 1, {}});
    const auto [place, is_new] = order_index.emplace(records.back().name, order.size());
    if (!is_new) {
      RecordId& earlier = order[place->second];
      records.back().passes = records[earlier].passes + 1;
      earlier = kReplaced;
      place->second = order.size();
    }
    order.push_back(id);
    text_bytes += name.size() + kRecordBytes;
    if (stack == kNoStack) return;
    if (stack_records[stack].empty()) stack_order.push_back(stack);
    stack_records[stack].push_back(id);
  }

  void take_part(Bytes& fields) {
    const auto id = fields.take<RecordId>();
    auto part = fields.take<Part>();
    (void)fields.take_bytes(3);
    if (id >= records.size() || part > Part::kOutputObject)
      throw FormatError("trace log", "",
                        "found a part of an unknown kind or of a record that does not exist");
    const bool single = part == Part::kInputKwargs || part == Part::kParameters || part == Part::kValue ||
                        part == Part::kOutputObject;
    if (part == Part::kOutputObject) part = Part::kOutput;
    const int level = part == Part::kValue ? kRecordLevel : kRecordLevel + 1;
    const std::string_view elements = fields.take_text();
    ElementText text = single ? single_text(elements, level, header.framework, scratch)
                              : list_text(elements, level, header.framework, scratch);
    for (const ElementText::Hole& hole : text.holes) {
      if (!slots.insert(hole.slot).second) throw FormatError("trace log", "", "found a slot in two places");
    }
    tensors += text.tensors;
    text_bytes += text.text.size();
    Record& record = records[id];
    if (ElementText* present = record.find(part)) {
      *present = std::move(text);  // a later one replaces: a backward that runs twice
    } else {
      record.parts.emplace_back(part, std::move(text));
    }
  }

  // ---- writing

  void append_text(std::string& out, const ElementText& text) const {
    std::size_t done = 0;
    for (const ElementText::Hole& hole : text.holes) {
      out.append(text.text, done, hole.position - done);
      done = hole.position;
      append_fill(out, hole);
    }
    out.append(text.text, done);
  }

  void append_fill(std::string& out, const ElementText::Hole& hole) const {
    const auto fill = fills.find(hole.slot);
    if (fill == fills.end()) {
      out += "null";
      return;
    }
    // Line breaks in text are escaped, so that every one here is of the form.
    const std::string& text = fill->second;
    for (std::size_t line = 0; line < text.size();) {
      const std::size_t next = std::min(text.find('\n', line), text.size() - 1) + 1;
      out.append(text, line, next - line);
      if (next < text.size()) out.append(static_cast<std::size_t>(hole.level), ' ');
      line = next;
    }
  }

  void append_record(std::string& out, Record& record) const {
    if (const ElementText* value = record.find(Part::kValue)) {
      append_text(out, *value);
      return;
    }
    const RecordKeys& keys = keys_of(record.kind, header);
    // It stands behind the inputs of an API; without them, last.
    std::size_t recompute_before = header.framework.has_recompute ? keys.recompute_before : kNowhere;
    if (recompute_before != kNowhere && record.find(Part::kInputArgs) == nullptr)
      recompute_before = keys.count;
    bool first = true;
    const auto begin_entry = [&](std::string_view key) {
      out += first ? "{\n   \"" : ",\n   \"";
      first = false;
      out.append(key).append("\": ");
    };
    for (std::size_t i = 0; i <= keys.count; ++i) {
      if (i == recompute_before) {
        begin_entry("is_recompute");
        out += record.is_recompute ? "true" : "false";
        if (!record.recompute_of.empty()) {
          begin_entry("recompute_of");
          append_json_string(out, record.recompute_of);
        }
      }
      if (i == keys.count) break;
      if (const ElementText* text = record.find(keys.parts[i].first)) {
        begin_entry(keys.parts[i].second);
        append_text(out, *text);
      }
    }
    if (record.passes > 1) {
      begin_entry("passes");
      out += std::to_string(record.passes);
    }
    out += first ? "{}" : "\n  }";
  }

  std::string dump_json() {
    std::string out;
    const bool has_data = header.task != "structure";
    if (has_data) out.reserve(text_bytes);
    JsonText json(out, 0);
    json.begin_object();
    json.plain_key("task");
    json.text(header.task);
    json.plain_key("level");
    json.text(header.level);
    json.plain_key("framework");
    json.text(header.framework.name);
    json.plain_key("dump_data_dir");
    if (const auto& directory = header.data_directory) {
      json.text(*directory);
    } else {
      json.null();
    }
    json.plain_key("data");
    bool first = true;
    for (std::size_t i = 0; has_data && i < order.size(); ++i) {
      if (order[i] == kReplaced) continue;
      Record& record = records[order[i]];
      out += first ? "{\n  " : ",\n  ";
      first = false;
      append_json_string(out, record.name);
      out += ": ";
      append_record(out, record);
    }
    out += first ? "{}\n}" : "\n }\n}";
    return out;
  }

  std::string stack_json() const {
    std::string out;
    JsonText json(out, 0);
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
    return out;
  }

  std::string construct_json() const {
    std::string out;
    JsonText json(out, 0);
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
    return out;
  }
};

JsonExporter::JsonExporter(std::optional<Header> header) : state_(std::make_unique<State>()) {
  if (!header) return;
  state_->has_header = true;
  state_->header = std::move(*header);
}

JsonExporter::~JsonExporter() = default;

void JsonExporter::consume(std::string_view log) {
  std::size_t& position = state_->taken;
  while (position + sizeof(EventHead) <= log.size()) {
    EventHead head{};
    std::memcpy(&head, log.data() + position, sizeof head);
    if (head.length == 0) break;
    if (head.length < sizeof head || head.length % kEventAlignment != 0 ||
        head.length > log.size() - position) {
      throw FormatError("trace log", "", "found an event of an impossible length");
    }
    state_->take_event(static_cast<EventType>(head.type),
                       Bytes(log.substr(position + sizeof head, head.length - sizeof head)));
    position += head.length;
  }
}

std::vector<std::pair<std::string, std::string>> JsonExporter::files() {
  if (!state_->has_header) throw FormatError("trace log", "", "found no header, which is the first event");
  std::vector<std::pair<std::string, std::string>> files;
  if (state_->header.level == "debug") {
    files.emplace_back("debug.json", state_->dump_json());
    return files;
  }
  files.emplace_back("dump.json", state_->dump_json());
  files.emplace_back("stack.json", state_->stack_json());
  files.emplace_back("construct.json", state_->construct_json());
  return files;
}

void JsonExporter::write(const std::filesystem::path& directory) {
  for (const auto& [name, content] : files()) io::write_file(directory / name, content);
}

std::size_t JsonExporter::record_count() const noexcept { return state_->records.size(); }

std::size_t JsonExporter::tensor_count() const noexcept { return state_->tensors; }

std::size_t JsonExporter::taken() const noexcept { return state_->taken; }

bool JsonExporter::has_header() const noexcept { return state_->has_header; }

ExportReport export_event_log(const std::filesystem::path& log, const std::filesystem::path& directory) {
  const std::string bytes = read_event_log(log);
  JsonExporter exporter;
  ExportReport report;
  try {
    exporter.consume(bytes);
    // A log that was closed ends with its last event.
    if (exporter.taken() < bytes.size()) report.cut = "the process ended before it closed the log";
  } catch (const FormatError& error) {
    report.cut = "byte " + std::to_string(exporter.taken()) + ": " + error.what();
  }
  if (!exporter.has_header()) throw FormatError(log.string(), "", "expected a header as the first event");
  io::make_directories(directory);
  exporter.write(directory);
  report.records = exporter.record_count();
  report.tensors = exporter.tensor_count();
  return report;
}

}  // namespace msprobe::trace
