// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_dict.h"

#include <unordered_map>

#include "checkpoint/pieces.h"
#include "io/in_quotes.h"
#include "io/utf8.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {
namespace {

using io::PtDict;
using io::PtList;
using io::PtObject;
using io::PtTensor;
using io::PtTuple;
using io::PtValue;

constexpr std::size_t kMostParameters = 1 << 22;

class Collector {
 public:
  explicit Collector(const std::string& path) : path_(path) {}

  void add(const PtValue& value, const std::string& name) {
    if (const auto* tensor = value.as<PtTensor>()) {
      add_tensor(*tensor, name);
    } else if (const auto* dict = value.as<PtDict>()) {
      add_dict(*dict, name);
    } else if (const auto* list = value.as<PtList>()) {
      add_items(list->items, name);
    } else if (const auto* tuple = value.as<PtTuple>()) {
      add_items(tuple->items, name);
    } else if (const auto* object = value.as<PtObject>()) {
      add_object(*object, name);
    }
  }

  Collected take() { return std::move(collected_); }

 private:
  static std::string inside(const std::string& name, std::string_view key) {
    const std::size_t first = std::min(key.find_first_not_of('.'), key.size());
    key = key.substr(first, key.find_last_not_of('.') + 1 - first);
    if (name.empty() || key.empty()) return name.empty() ? std::string(key) : name;
    return std::string(name).append(1, '.').append(key);
  }

  void add_dict(const PtDict& dict, const std::string& name) {
    for (const auto& [key, value] : dict.entries) {
      if (const auto* text = key->as<std::string>()) {
        add(*value, inside(name, *text));
      } else if (const auto* number = key->as<std::int64_t>()) {
        add(*value, inside(name, std::to_string(*number)));
      }
    }
  }

  void add_items(const std::vector<const PtValue*>& items, const std::string& name) {
    for (std::size_t i = 0; i < items.size(); ++i) add(*items[i], inside(name, std::to_string(i)));
  }

  // A whole module keeps its tensors in these; of other objects the tensors that cannot be read are told.
  void add_object(const PtObject& object, const std::string& name) {
    const auto* const attributes = object.state == nullptr ? nullptr : object.state->as<PtDict>();
    if (attributes != nullptr && attributes->find("_parameters") != nullptr &&
        attributes->find("_modules") != nullptr) {
      for (const std::string_view part : {"_parameters", "_buffers", "_modules"}) {
        if (const PtValue* const value = attributes->find(part)) add(*value, name);
      }
    } else if (object.class_name.starts_with("torch._utils._rebuild") ||
               object.class_name.starts_with("torch._tensor._rebuild")) {
      leave_out(name, "a tensor of a kind that is not compared: " + io::in_quotes(object.class_name));
    }
  }

  void add_tensor(const PtTensor& tensor, const std::string& name) {
    if (tensor.conjugate || tensor.negative) {
      return leave_out(name, "a tensor that is stored as the conjugate or the negative of itself");
    }
    const auto stored = static_cast<std::int64_t>(tensor.storage->data.size() / element_size(tensor.dtype));
    if (count_of(tensor.shape) > stored) {
      return leave_out(name, "a tensor of more elements than its memory has");
    }
    add_parameter(whole(name.empty() ? "tensor" : io::with_escaped_bytes(name), tensor.view()));
  }

  void add_parameter(Parameter parameter) {
    auto& all = collected_.parameters;
    const auto [place, is_new] = places_.emplace(parameter.name, all.size());
    if (!is_new) {
      all[place->second] = std::move(parameter);
    } else if (all.size() == kMostParameters) {
      throw FormatError(path_, "", "the file has more than 4 million tensors");
    } else {
      all.push_back(std::move(parameter));
    }
  }

  void leave_out(const std::string& name, std::string reason) {
    if (collected_.left_out.size() < kMostParameters)
      collected_.left_out.push_back({io::with_escaped_bytes(name), std::move(reason)});
  }

  const std::string& path_;
  Collected collected_;
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace

Collected collect(const PtValue& value, std::string_view prefix, const std::string& path) {
  Collector collector(path);
  collector.add(value, std::string(prefix));
  return collector.take();
}

const PtValue* find(const PtValue* value, std::string_view key) noexcept {
  const auto* const dict = value == nullptr ? nullptr : value->as<PtDict>();
  return dict == nullptr ? nullptr : dict->find(key);
}

Settings::Settings(const PtValue* value) {
  if (value == nullptr) return;
  const auto* const object = value->as<PtObject>();
  if (object != nullptr) value = object->state;
  if (value != nullptr) attributes_ = value->as<PtDict>();
}

std::optional<std::int64_t> Settings::integer(std::string_view name) const {
  const PtValue* const value = attributes_ == nullptr ? nullptr : attributes_->find(name);
  const auto* const number = value == nullptr ? nullptr : value->as<std::int64_t>();
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::optional<std::int64_t> Settings::parallel_size(std::string_view kind) const {
  return integer(std::string(kind) + "_size");
}

std::optional<bool> Settings::boolean(std::string_view name) const {
  const PtValue* const value = attributes_ == nullptr ? nullptr : attributes_->find(name);
  const auto* const truth = value == nullptr ? nullptr : value->as<bool>();
  return truth == nullptr ? std::nullopt : std::optional(*truth);
}

std::optional<std::string> Settings::text(std::string_view name) const {
  const PtValue* const value = attributes_ == nullptr ? nullptr : attributes_->find(name);
  const auto* const text = value == nullptr ? nullptr : value->as<std::string>();
  return text == nullptr ? std::nullopt : std::optional(*text);
}

}  // namespace msprobe::checkpoint
