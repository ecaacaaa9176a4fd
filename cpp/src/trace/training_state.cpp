// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/training_state.h"

#include <algorithm>
#include <cmath>

#include "io/document/json_input.h"
#include "msprobe/error.h"

namespace msprobe::trace {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1}
                                     << 30;  // the file grows with the parameters, not with the calls

const Json& nothing() {
  static const Json none;
  return none;
}

}  // namespace

std::optional<double> Json::number() const noexcept {
  if (kind_ == Kind::kBool) return text_ == "true" ? 1 : 0;
  if (kind_ != Kind::kNumber) return std::nullopt;
  return io::number_value(text_);
}

const Json* Json::find(std::string_view key) const noexcept {
  // From the end: of a key that occurs twice the last counts.
  for (std::size_t i = keys_.size(); i-- > 0;) {
    if (keys_[i] == key) return &items_[i];
  }
  return nullptr;
}

const Json& Json::operator[](std::string_view key) const noexcept {
  const Json* const found = find(key);
  return found == nullptr ? nothing() : *found;
}

void Json::rename(const std::map<std::string, std::string>& names) {
  const auto rename_one = [&](std::string& name) {
    if (const auto found = names.find(name); found != names.end()) name = found->second;
  };
  // A file may be nested deeper than this thread has a stack.
  for (std::vector<Json*> open = {this}; !open.empty();) {
    Json& one = *open.back();
    open.pop_back();
    if (one.kind_ == Kind::kText) rename_one(one.text_);
    for (std::string& key : one.keys_) rename_one(key);
    for (Json& item : one.items_) open.push_back(&item);
  }
}

void Json::rename(std::string_view key, const std::map<std::string, std::string>& names) {
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  if (found != keys_.end()) items_[static_cast<std::size_t>(found - keys_.begin())].rename(names);
}

bool operator==(const Json& a, const Json& b) noexcept {
  const auto is_plain = [](const Json& json) {
    return json.kind_ == Json::Kind::kNumber || json.kind_ == Json::Kind::kBool;
  };
  if (is_plain(a) && is_plain(b)) {
    const double x = a.number().value_or(0), y = b.number().value_or(0);
    return x == y || (std::isnan(x) && std::isnan(y));
  }
  if (a.kind_ != b.kind_ || a.text_ != b.text_) return false;
  if (a.kind_ != Json::Kind::kObject) return a.items_ == b.items_;
  const auto contains = [](const Json& all, const Json& one) {
    return std::all_of(one.keys_.begin(), one.keys_.end(), [&](const std::string& key) {
      const Json* const found = all.find(key);
      return found != nullptr && *found == one[key];
    });
  };
  return contains(a, b) && contains(b, a);
}

class JsonBuilder : public io::JsonHandler<JsonBuilder> {
 public:
  Json take() noexcept { return std::move(root_); }

 private:
  friend class io::JsonHandler<JsonBuilder>;
  using Kind = Json::Kind;

  void key(std::string_view text) { key_ = text; }
  void null() { add(Kind::kNull, {}); }
  void boolean(bool value) { add(Kind::kBool, value ? "true" : "false"); }
  void number(std::string_view text) { add(Kind::kNumber, text); }
  void text(std::string_view text) { add(Kind::kText, text); }
  void begin(bool is_object) { open_.push_back(&add(is_object ? Kind::kObject : Kind::kList, {})); }
  void end(bool /*is_object*/) { open_.pop_back(); }

  // A place does not move while it is open: its parent gets no further entry meanwhile.
  Json& add(Kind kind, std::string_view text) {
    Json* place = &root_;
    if (!open_.empty()) {
      Json& parent = *open_.back();
      if (parent.kind_ == Kind::kObject) parent.keys_.push_back(key_);
      place = &parent.items_.emplace_back();
    }
    place->kind_ = kind;
    place->text_ = text;
    return *place;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
};

TrainingState read_training_state(const std::filesystem::path& path) {
  JsonBuilder builder;
  io::JsonScanner scanner(path);
  if (scanner.size() > kLargestFile) throw FormatError(path.string(), "", "expected at most 1 GiB");
  io::parse_json(scanner, builder);
  TrainingState state{path, builder.take()};
  if (!state.root.is_object()) throw FormatError(path.string(), "", "expected an object");
  return state;
}

}  // namespace msprobe::trace
