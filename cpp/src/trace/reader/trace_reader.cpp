// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/trace_reader.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "msprobe/error.h"
#include "trace/name_index.h"
#include "trace/reader/trace_builder.h"

namespace msprobe::trace {
namespace {

using Part = Item::Part;

// Of a tensor, the least that the file takes. Room for so many items is asked for in one piece: what is not
// used of it is never touched and takes no memory, while a list that grows is there twice.
constexpr std::size_t kBytesOfItem = 128;
constexpr int kMebibyte = 20;  // as a power of 2

std::optional<Part> part_of(std::string_view key) {
  if (key == "input_args") return Part::kInputArgs;
  if (key == "input_kwargs") return Part::kInputKwargs;
  if (key == "input") return Part::kInput;
  if (key == "output") return Part::kOutput;
  if (key == "parameters") return Part::kParameters;
  return std::nullopt;
}

// Of what few items have, kept apart in the order of the items: `count` items from `begin` on are dropped.
template <typename KeptApart>
void drop_apart(KeptApart& kept_apart, std::uint32_t begin, std::uint32_t count) {
  const auto before = [](const auto& one, std::uint32_t item) { return one.item < item; };
  const auto first = std::lower_bound(kept_apart.begin(), kept_apart.end(), begin, before);
  const auto last = std::lower_bound(first, kept_apart.end(), begin + count, before);
  for (auto one = kept_apart.erase(first, last); one != kept_apart.end(); ++one) one->item -= count;
}

// Of the paths, and of what else may be longer than what stands in the file. A real file needs less than its
// own size; a hostile one could have a long key above very many leaves.
std::size_t most_interned_bytes(std::size_t file_bytes) { return (std::size_t{64} << 20) + 4 * file_bytes; }

}  // namespace

TraceBuilder::TraceBuilder(Trace& trace, std::size_t file_bytes)
    : trace_(trace),
      is_debug_(trace.path_.filename().native().starts_with("debug")),
      interned_(trace.texts_, most_interned_bytes(file_bytes)) {}

// ---- Texts

Scalar::Kind TraceBuilder::kind_of_number(std::string_view text) {
  const bool whole =
      std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
  return whole ? Kind::kInteger : Kind::kFloat;
}

Text TraceBuilder::kept(std::string_view text) {
  if (text.empty()) return {};
  const Text result = {.offset = fitting(trace_.texts_.size()), .length = fitting(text.size())};
  trace_.texts_ += text;
  return result;
}

Text TraceBuilder::interned(std::string_view text) {
  const Text result = interned_.keep(text);
  if (interned_.is_full()) {
    fail("found long names above very many values, whose paths would need more than " +
         std::to_string(interned_.most_bytes() >> kMebibyte) + " MiB");
  }
  return result;
}

// Words are few; numbers and texts are many.
Scalar TraceBuilder::kept_scalar(Kind kind, std::string_view text) {
  const bool is_word = kind == Kind::kNull || kind == Kind::kBool || kind == Kind::kComposite;
  if (text.size() > Scalar::kMostLength) {
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
    const Part part = *part_;
    const unsigned bit = 1U << static_cast<unsigned>(part);
    if ((parts_seen_ & bit) != 0) {  // as Python's dict: the later one counts
      drop_part(part);
    }
    parts_seen_ |= bit;
    begin_of_part(part) = fitting(trace_.items_.size());
  }
  path_ = holds_gradients_ ? key : std::string_view();
  record_.has_input |= part_ && *part_ <= Part::kInput;
  record_.has_output |= part_ == Part::kOutput;
}

void TraceBuilder::drop_part(Part part) {
  std::vector<Item>& items = trace_.items_;
  const auto first = items.begin() + begin_of_part(part);
  const auto last = std::find_if(first, items.end(), [part](const Item& item) { return item.part != part; });
  const auto count = static_cast<std::uint32_t>(last - first);
  const std::uint32_t begin = begin_of_part(part);
  items.erase(first, last);
  for (std::uint32_t& other : begins_of_parts_) other -= other > begin ? count : 0;
  drop_apart(trace_.group_ids_, begin, count);
  drop_apart(trace_.placements_, begin, count);
}

void TraceBuilder::drop_items(std::uint32_t first) {
  const std::uint32_t count = fitting(trace_.items_.size()) - first;
  trace_.items_.resize(first);
  drop_apart(trace_.group_ids_, first, count);
  drop_apart(trace_.placements_, first, count);
}

void TraceBuilder::record_value(Kind kind, std::string_view text) {
  if (key_ == "is_recompute" && !holds_gradients_) {
    if (kind != Kind::kBool && kind != Kind::kNull) refuse_record("\"is_recompute\": expected true or false");
    record_.is_recompute = text == "True";
  } else if (key_ == "passes" && !holds_gradients_) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), record_.passes);
    if (kind != Kind::kInteger || error != std::errc() || record_.passes == 0)
      refuse_record("\"passes\": expected a whole number above 0");
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
