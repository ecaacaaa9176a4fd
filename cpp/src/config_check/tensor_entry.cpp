// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "config_check/tensor_entry.h"

#include <algorithm>

#include "io/document/json_input.h"

namespace msprobe::config_check {
namespace {

constexpr std::array<std::string_view, 4> kStatisticNames{"max", "min", "mean", "norm"};
constexpr const char* kNoObject = "expected a JSON object";

// Reads a tree of objects. An object of exactly the four statistics, all numbers, is a tensor.
class LeafHandler : public io::JsonHandler<LeafHandler> {
 public:
  explicit LeafHandler(bool nested) : nested_(nested) {}

  Leaves take() { return std::move(leaves_); }

  void null() { value(std::nullopt); }
  void boolean(bool on) { value(on ? 1.0 : 0.0); }
  void number(std::string_view text) { value(io::number_value(text)); }
  void text(std::string_view) { value(std::nullopt); }
  void key(std::string_view text) {
    if (in_list_ == 0) open_.back().key = text;
  }

  void begin(bool is_object) {
    if (in_list_ > 0 || !is_object) {
      if (open_.empty()) return fail(kNoObject);
      ++in_list_;
      return;
    }
    open_.push_back({});
  }

  void end(bool) {
    if (in_list_ > 0) {
      if (--in_list_ == 0) value(std::nullopt);
      return;
    }
    Object object = std::move(open_.back());
    open_.pop_back();
    if (open_.empty()) return publish("", object);
    open_.back().set(
        Member{open_.back().key, object.statistics(), std::make_unique<Object>(std::move(object))});
  }

 private:
  struct Member;
  struct Object {
    std::string key;  // of the value that comes next
    std::vector<Member> members;

    // Of a key that stands there twice the last value counts, at the first place.
    void set(Member member);
    std::optional<Statistics> statistics() const;
  };
  struct Member {
    std::string key;
    std::optional<Statistics> statistics;
    std::unique_ptr<Object> object = nullptr;
    std::optional<double> number = std::nullopt;
  };

  void value(std::optional<double> number) {
    if (in_list_ > 0) return;
    if (open_.empty()) return fail(kNoObject);
    open_.back().set(Member{open_.back().key, std::nullopt, nullptr, number});
  }

  void publish(const std::string& prefix, Object& object) {
    for (Member& member : object.members) {
      std::string name = prefix.empty() ? std::move(member.key) : prefix + "." + member.key;
      if (nested_ && member.object && !member.statistics) {
        publish(name, *member.object);
      } else {
        leaves_.add(std::move(name), member.statistics);
      }
    }
  }

  const bool nested_;
  int in_list_ = 0;  // lists around the present value, which is nothing to us
  std::vector<Object> open_;
  Leaves leaves_;
};

void LeafHandler::Object::set(Member member) {
  // Objects of many members are those of names, which Leaves makes unique.
  constexpr std::size_t kFew = 8;
  if (members.size() <= kFew) {
    for (Member& known : members) {
      if (known.key == member.key) {
        known = std::move(member);
        return;
      }
    }
  }
  members.push_back(std::move(member));
}

std::optional<Statistics> LeafHandler::Object::statistics() const {
  if (members.size() != kStatisticNames.size()) return std::nullopt;
  Statistics result{};
  for (const Member& member : members) {
    const auto place = std::find(kStatisticNames.begin(), kStatisticNames.end(), member.key);
    if (place == kStatisticNames.end() || !member.number) return std::nullopt;
    result[static_cast<std::size_t>(place - kStatisticNames.begin())] = *member.number;
  }
  return result;
}

// A text in a way that no other text has, whatever is in it.
std::string whole(std::string_view text) { return std::to_string(text.size()).append("\"").append(text); }

// Keeps the value of each name as text, and that of an object by its members.
class FingerprintHandler : public io::JsonHandler<FingerprintHandler> {
 public:
  Fingerprints take() { return std::move(prints_); }

  void null() { add("null"); }
  void boolean(bool on) { add(on ? "true" : "false"); }
  void number(std::string_view text) { add(text); }
  void text(std::string_view text) { add(whole(text)); }
  void key(std::string_view text) {
    if (depth() == 1) {
      name_ = text;
      print_.clear();
    } else if (depth() == 2 && is_object_) {
      member_ = text;
    } else {
      add(whole(text) + ":");
    }
  }
  void begin(bool is_object) {
    if (depth() == 1 && !is_object) return fail(kNoObject);
    if (depth() == 2) is_object_ = is_object;
    if (depth() > 2 || (depth() == 2 && !is_object)) add(is_object ? "{" : "[");
  }
  void end(bool is_object) {
    if (depth() > 2 || (depth() == 2 && !is_object)) add(is_object ? "}" : "]");
    if (depth() == 2) publish();
  }

 private:
  void add(std::string_view text) {
    if (depth() == 0) return fail(kNoObject);
    if (depth() == 1) member_.clear();
    print_[member_].append(text).append(" ");
    if (depth() == 1) publish();
  }
  void publish() {
    Fingerprint sorted(print_.begin(), print_.end());
    std::sort(sorted.begin(), sorted.end());
    prints_[name_] = std::move(sorted);
    print_.clear();
    member_.clear();
  }

  std::string name_, member_;
  bool is_object_ = true;
  std::unordered_map<std::string, std::string> print_;
  Fingerprints prints_;
};

}  // namespace

void Leaves::add(std::string name, std::optional<Statistics> statistics) {
  const auto [place, is_new] = places_.emplace(name, all_.size());
  if (is_new) {
    all_.push_back({std::move(name), statistics});
  } else {
    all_[place->second].statistics = statistics;
  }
}

const Leaf* Leaves::find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &all_[place->second];
}

Leaves read_leaves(std::string content, const std::string& entry, bool nested) {
  LeafHandler handler(nested);
  io::parse_json(content, entry, handler);
  return handler.take();
}

Fingerprints read_fingerprints(std::string content, const std::string& entry) {
  FingerprintHandler handler;
  io::parse_json(content, entry, handler);
  return handler.take();
}

}  // namespace msprobe::config_check
