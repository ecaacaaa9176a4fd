// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "io/document/json_input.h"
#include "msprobe/trace_reader.h"
#include "trace/name_index.h"
#include "trace/rank_numbers.h"

// stack.json and construct.json: flat objects of which every entry is small.
namespace msprobe::trace {

// {"0": [[name, ...], [frame, ...]], ...}, or of old releases {name: [frame, ...], ...}
class StackHandler : public io::JsonHandler<StackHandler> {
 public:
  struct Entry {
    std::vector<std::string> names;
    std::vector<std::string> frames;
  };
  std::vector<Entry> entries;

  static Stacks build(io::JsonScanner& scanner);

  void null() { unexpected(); }
  void boolean(bool) { unexpected(); }
  void number(std::string_view) { unexpected(); }
  void key(std::string_view text) {
    entries.emplace_back();
    entry_ = text;
    list_ = 0;
  }
  void text(std::string_view text) {
    const bool is_number = entry_.find_first_not_of("0123456789") == std::string_view::npos;
    if (depth() == 2 && list_ == 0 && !is_number) {  // the old form
      Entry& entry = entries.back();
      if (entry.names.empty()) entry.names.emplace_back(entry_);
      entry.frames.emplace_back(text);
      return;
    }
    if (depth() != 3) return unexpected();
    (list_ == 1 ? entries.back().names : entries.back().frames).emplace_back(text);
  }
  void begin(bool is_object) {
    if (is_object != (depth() == 1) || depth() > 3) return unexpected();
    if (depth() == 3 && ++list_ > 2) unexpected();
  }
  void end(bool) {}

 private:
  void unexpected() {
    const std::string entry = entry_.empty() ? "" : io::in_quotes(entry_) + ": ";
    fail(entry + "expected [[names of records], [lines of the stack]]");
  }
  std::string entry_;  // whose value is read
  int list_ = 0;       // which of the two lists of the entry is open
};

// {child: parent | null | [parent | null, micro step], ...}
class ConstructHandler : public io::JsonHandler<ConstructHandler> {
 public:
  static Construct build(io::JsonScanner& scanner);

  void null() { value({}); }
  void boolean(bool) { other(); }
  void number(std::string_view text) {
    if (is_count_) {
      const auto last = countable(text);
      if (!last || *last < 0) return unexpected();
      construct_.micro_steps_ = *last + 1;
      return;
    }
    if (depth() == 2 && !waiting_) construct_.entries_.back().micro_step = countable(text).value_or(0);
    other();
  }
  void key(std::string_view text) {
    is_count_ = text == kMicroSteps;
    if (is_count_) return;
    construct_.entries_.push_back({kept(text), {}});
    waiting_ = true;
  }
  void text(std::string_view text) { value(text); }
  void begin(bool is_object) {
    if (is_object != (depth() == 1) || depth() > 2 || is_count_) unexpected();
  }
  void end(bool) {}

 private:
  static constexpr std::string_view kMicroSteps = "megatron_micro_step_number";

  // A number that one more can be counted after.
  static std::optional<std::int32_t> countable(std::string_view text) {
    const auto number = whole_number(text);
    return number < std::numeric_limits<std::int32_t>::max() ? number : std::nullopt;
  }
  void value(std::string_view parent) {
    if (depth() == 0 || is_count_) return unexpected();
    if (!std::exchange(waiting_, false)) return;
    if (parent != parent_) parent_ = kept(parent);  // the last one is mostly the next one
    construct_.entries_.back().parent = parent_;
  }
  // Only behind the parent, in its list.
  void other() {
    if (depth() < 2 || waiting_) unexpected();
  }
  void unexpected() {
    if (is_count_) return fail(io::in_quotes(kMicroSteps) + ": expected a whole number from 0 on");
    const auto& entries = construct_.entries_;
    const std::string entry = entries.empty() ? "" : io::in_quotes(entries.back().name) + ": ";
    fail(entry + "expected the name of a parent, null, or a list that begins with one of them");
  }
  // There is room for all texts of the document, so that none moves.
  std::string_view kept(std::string_view text) {
    std::string& texts = construct_.texts_;
    texts += text;
    return std::string_view(texts).substr(texts.size() - text.size());
  }
  void index_names();

  Construct construct_;
  std::string_view parent_;
  bool waiting_ = false;   // for the parent of the last entry
  bool is_count_ = false;  // the value that is read is that of kMicroSteps
};

std::span<const std::string> Stacks::frames(std::string_view record) const noexcept {
  const auto found = by_record_.find(record);
  return found == by_record_.end() ? std::span<const std::string>() : stacks_[found->second];
}

Stacks StackHandler::build(io::JsonScanner& scanner) {
  StackHandler handler;
  io::parse_json(scanner, handler);
  Stacks stacks;
  for (StackHandler::Entry& entry : handler.entries) {
    for (std::string& name : entry.names) {
      stacks.by_record_.insert_or_assign(std::move(name), static_cast<std::uint32_t>(stacks.stacks_.size()));
    }
    stacks.stacks_.push_back(std::move(entry.frames));
  }
  return stacks;
}

Stacks read_stacks(const std::filesystem::path& path) {
  io::JsonScanner scanner(path);
  return StackHandler::build(scanner);
}

Stacks parse_stacks(std::string content, const std::filesystem::path& path) {
  io::JsonScanner scanner(content, path);
  return StackHandler::build(scanner);
}

const Construct::Entry* Construct::find(std::string_view name) const noexcept {
  if (entries_.empty()) return nullptr;
  const auto found = find_slot(slots_, name, [this](std::uint32_t i) { return entries_[i].name; });
  return found == kFreeSlot ? nullptr : &entries_[found];
}

std::string_view Construct::parent(std::string_view name) const noexcept {
  const Entry* const entry = find(name);
  return entry == nullptr ? std::string_view() : entry->parent;
}

Construct ConstructHandler::build(io::JsonScanner& scanner) {
  constexpr std::size_t kBytesOfEntry = 48;  // a usual one has more; what is not used takes no memory
  ConstructHandler handler;
  handler.construct_.texts_.reserve(scanner.size() + sizeof(std::string));
  handler.construct_.entries_.reserve(scanner.size() / kBytesOfEntry);
  io::parse_json(scanner, handler);
  handler.index_names();
  return std::move(handler.construct_);
}

void ConstructHandler::index_names() {
  auto& entries = construct_.entries_;
  construct_.slots_ = make_slots(entries.size());
  std::uint32_t kept = 0;
  for (const Construct::Entry& entry : entries) {
    const auto name_of = [&](std::uint32_t other) { return entries[other].name; };
    std::uint32_t& slot = find_slot(construct_.slots_, entry.name, name_of);
    if (slot == kFreeSlot) slot = kept++;
    entries[slot] = entry;  // as Python's dict: the last value, in the first place
  }
  entries.resize(kept);
}

Construct read_construct(const std::filesystem::path& path) {
  io::JsonScanner scanner(path);
  return ConstructHandler::build(scanner);
}

Construct parse_construct(std::string content, const std::filesystem::path& path) {
  io::JsonScanner scanner(content, path);
  return ConstructHandler::build(scanner);
}

}  // namespace msprobe::trace
