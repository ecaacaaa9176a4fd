// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "msprobe/trace_reader.h"
#include "trace/json_input.h"
#include "trace/name_index.h"

// stack.json and construct.json: flat objects of which every entry is small.
namespace msprobe::trace {
namespace {

// {"0": [[name, ...], [frame, ...]], ...}
class StackHandler : public JsonHandler<StackHandler> {
 public:
  struct Entry {
    std::vector<std::string> names;
    std::vector<std::string> frames;
  };
  std::vector<Entry> entries;

  void null() { unexpected(); }
  void boolean(bool) { unexpected(); }
  void number(std::string_view) { unexpected(); }
  void key(std::string_view) {
    if (depth() == 1) {
      entries.emplace_back();
      list_ = 0;
    }
  }
  void text(std::string_view text) {
    if (depth() != 3) return unexpected();
    (list_ == 1 ? entries.back().names : entries.back().frames).emplace_back(text);
  }
  void begin(bool is_object) {
    if (is_object != (depth() == 1) || depth() > 3) return unexpected();
    if (depth() == 3 && ++list_ > 2) unexpected();
  }
  void end(bool) {}

 private:
  void unexpected() { fail("expected an object of entries [[names of records], [lines of the stack]]"); }
  int list_ = 0;  // which of the two lists of the entry is open
};

// {child: parent | null | [parent, ...], ...}
class ConstructHandler : public JsonHandler<ConstructHandler> {
 public:
  std::vector<Construct::Entry> entries;

  void null() { seen(); }
  void boolean(bool) { unexpected(); }
  void number(std::string_view) {
    if (depth() < 2) unexpected();
  }
  void key(std::string_view text) {
    entries.push_back({text, {}});
    waiting_ = true;
  }
  void text(std::string_view text) {
    if (depth() == 0) return unexpected();
    if (std::exchange(waiting_, false)) entries.back().parent = text;
  }
  void begin(bool is_object) {
    if (is_object != (depth() == 1)) unexpected();
  }
  void end(bool) { seen(); }

 private:
  void seen() {
    if (depth() == 0) unexpected();
    waiting_ = false;
  }
  void unexpected() { fail("expected an object of entries record: parent"); }
  bool waiting_ = false;  // for the parent of the last entry
};

}  // namespace

std::span<const std::string> Stacks::frames(std::string_view record) const noexcept {
  const auto found = by_record_.find(record);
  return found == by_record_.end() ? std::span<const std::string>() : stacks_[found->second];
}

Stacks read_stacks(const std::filesystem::path& path) {
  std::string content = read_json_file(path);
  StackHandler handler;
  parse_json(content, path, handler);
  Stacks stacks;
  for (StackHandler::Entry& entry : handler.entries) {
    for (std::string& name : entry.names) {
      stacks.by_record_.insert_or_assign(std::move(name), static_cast<std::uint32_t>(stacks.stacks_.size()));
    }
    stacks.stacks_.push_back(std::move(entry.frames));
  }
  return stacks;
}

std::string_view Construct::parent(std::string_view name) const noexcept {
  if (entries_.empty()) return {};
  const auto found = find_slot(slots_, name, [this](std::uint32_t i) { return entries_[i].name; });
  return found == kFreeSlot ? std::string_view() : entries_[found].parent;
}

Construct read_construct(const std::filesystem::path& path) {
  Construct construct;
  construct.file_ = read_json_file(path);
  ConstructHandler handler;
  parse_json(construct.file_, path, handler);
  construct.entries_ = std::move(handler.entries);
  construct.slots_ = make_slots(construct.entries_.size());
  for (std::uint32_t i = 0; i < construct.entries_.size(); ++i) {
    const auto name_of = [&](std::uint32_t other) { return construct.entries_[other].name; };
    find_slot(construct.slots_, construct.entries_[i].name, name_of) = i;
  }
  return construct;
}

}  // namespace msprobe::trace
