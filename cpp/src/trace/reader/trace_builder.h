// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/document/json_input.h"
#include "msprobe/trace_reader.h"
#include "trace/reader/interned_texts.h"
#include "trace/reader/open_value.h"
#include "trace/reader/printed_list.h"

namespace msprobe::trace {

/// Makes a Trace of the events of a file.
class TraceBuilder : public io::JsonHandler<TraceBuilder> {
 public:
  /// Throws as read_trace() does.
  static Trace build(io::JsonScanner& scanner, const std::filesystem::path& path);

  using Part = Item::Part;
  using Kind = Scalar::Kind;

  /// `file_bytes`: of the document.
  TraceBuilder(Trace& trace, std::size_t file_bytes);

  void null() { scalar(Kind::kNull, {}); }
  void boolean(bool value) { scalar(Kind::kBool, value ? "True" : "False"); }
  void number(std::string_view text) { scalar(kind_of_number(text), text); }
  void text(std::string_view text) { scalar(Kind::kText, text); }
  void key(std::string_view text);
  void begin(bool is_object);
  void end(bool is_object);

 private:
  static constexpr std::size_t kPartCount = static_cast<std::size_t>(Part::kSaved) + 1;

  // Where an event stands in the document.
  enum class Place {
    kDocument,  // outside of everything
    kHeader,    // in the outermost object
    kData,      // in the object of all records
    kRecord,    // in the object of one record
    kElement    // below a part of a record
  };

  // The document, its header, its records: trace_reader.cpp.

  void scalar(Kind kind, std::string_view text);
  void header_value(Kind kind, std::string_view text);
  /// Where the value of the present key of the header belongs; null: nowhere.
  Text* header_text();
  void begin_data();
  void begin_record(std::string_view name);
  void record_key(std::string_view key);
  /// Drops the items of a part of the record.
  void drop_part(Part part);
  std::uint32_t& begin_of_part(Part part) { return begins_of_parts_[static_cast<std::size_t>(part)]; }
  /// Drops all items from that one on.
  void drop_items(std::uint32_t first);
  void record_value(Kind kind, std::string_view text);
  void end_record();
  void end_plain_record();
  /// "record \"x\": problem".
  void refuse_record(const std::string& problem);
  /// When the document has ended: makes records be found by name, and drops those that a later one replaces.
  void index_names();

  // What stands below a record: trace_leaves.cpp.

  void open_frame(bool is_object);
  void close_frame();
  Frame& frame() noexcept { return frames_[open_frames_ - 1]; }
  /// Appends the name of the present entry of the innermost frame to path_, if there is a frame.
  void name_entry();
  void element_value(Kind kind, std::string_view text);
  void set_placement_field(std::string_view key, Kind kind, std::string_view text);
  /// `text`: of a list what Python prints, where it may be one, else nothing.
  void set_field(Frame& frame, Kind kind, std::string_view text);
  /// A field that is another in each record.
  void set_value(Item& leaf, Field field, Kind kind, std::string_view text);
  /// The field whose value is read holds what nothing is kept of.
  void set_composite_field(Frame& frame) { set_field(frame, Kind::kComposite, {}); }
  std::uint8_t number_of_dtype(Text dtype);
  /// Of a tensor.
  void note_package(Text type);
  void add_null();
  void add_leaf(Frame& frame);

  // Texts.

  static Kind kind_of_number(std::string_view text);
  /// Keeps a text, which stands in the file.
  Text kept(std::string_view text);
  /// Keeps a text that occurs often once.
  Text interned(std::string_view text);
  Scalar kept_scalar(Kind kind, std::string_view text);
  std::uint32_t fitting(std::size_t number) {
    if (number > std::numeric_limits<std::uint32_t>::max()) fail("found more than can be counted in 32 bits");
    return static_cast<std::uint32_t>(number);
  }

  Trace& trace_;
  const bool is_debug_;
  InternedTexts interned_;
  Place place_ = Place::kDocument;
  std::string key_;  // of the header or the record
  bool has_data_ = false;
  int ignored_ = 0;  // open brackets of something that is of no interest

  Record record_;
  bool holds_gradients_ = false;                                // the record
  unsigned parts_seen_ = 0;                                     // of the record: a bit for each
  std::array<std::uint32_t, kPartCount> begins_of_parts_ = {};  // their first items, of those seen
  std::optional<Part> part_;  // of the record; nothing: its value is of no interest

  Frame frames_[io::kJsonDepth + 1];  // those open, the rest is kept for later
  std::size_t open_frames_ = 0;
  TensorPlacement placement_;  // that was read last
  std::string path_;
  Text last_dtype_ = {.offset = 0xffffffff};
  std::uint8_t last_dtype_number_ = Item::kNoDType;

  // A list that may be the value of a field, while no object is met in it.
  std::size_t printed_frame_ = 0;  // number of its frame; 0: none
  PrintedList printed_;
};

}  // namespace msprobe::trace
