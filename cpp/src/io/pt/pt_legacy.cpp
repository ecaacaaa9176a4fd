// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/pt/pt_legacy.h"

#include <algorithm>
#include <array>
#include <optional>

#include "io/in_quotes.h"
#include "io/pt/pickle.h"
#include "io/pt/pt_names.h"
#include "io/zip/zip_format.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

// The first pickle is this number, the second the version of the protocol.
constexpr std::string_view kLegacyMagic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
constexpr std::int64_t kProtocolVersion = 1001;

// Kinds of storages that tensors here cannot have; their bytes must be skipped all the same.
constexpr std::array<std::pair<std::string_view, std::size_t>, 6> kOtherStorages{{{"UntypedStorage", 1},
                                                                                  {"QInt8Storage", 1},
                                                                                  {"QUInt8Storage", 1},
                                                                                  {"QUInt4x2Storage", 1},
                                                                                  {"QUInt2x4Storage", 1},
                                                                                  {"QInt32Storage", 4}}};

std::optional<std::size_t> item_size(std::string_view class_name) {
  const std::string_view name = class_name.substr(class_name.rfind('.') + 1);
  if (const auto dtype = dtype_of_storage_class(name)) return element_size(*dtype);
  for (const auto& [other, size] : kOtherStorages) {
    if (name == other) return size;
  }
  return std::nullopt;
}

class LegacyReader {
 public:
  LegacyReader(std::span<const std::uint8_t> file, const std::string& path) : file_(file), path_(path) {}

  LegacyParts run() {
    pickle("the magic number", {});
    const auto* const version = pickle("the version", {})->as<std::int64_t>();
    if (version == nullptr || *version != kProtocolVersion) fail("expected protocol version 1001");
    check_byte_order(*pickle("the description of the system", {}));
    LegacyParts parts;
    parts.description = file_.subspan(position_);
    parts.description_at = position_;
    pickle("the description", [this](const PtValue& id) { return note_storage(id); });
    const auto* const keys = pickle("the list of storages", {})->as<PtList>();
    if (keys == nullptr) fail("expected a list of storages after the description");
    for (const PtValue* key : keys->items) {
      const auto* const text = key->as<std::string>();
      if (text == nullptr) fail("expected texts in the list of storages");
      if (!parts.data.emplace(*text, storage(*text)).second) {
        fail("storage " + in_quotes(*text) + " stands twice in the list of storages");
      }
    }
    return parts;
  }

 private:
  using Persistent = std::function<PtValue*(const PtValue&)>;

  const PtValue* pickle(const std::string& what, const Persistent& persistent) {
    const PickleCalls calls{[](std::string_view, const PtTuple&) -> PtValue* { return nullptr; },
                            [&](const PtValue& id) -> PtValue* {
                              if (!persistent)
                                throw PickleError{"found the name of a storage, expected plain values"};
                              return persistent(id);
                            }};
    std::size_t length = 0;
    const PtValue* const value =
        run_pickle(file_.subspan(position_), path_, what + " at byte " + std::to_string(position_) + ",",
                   values_, calls, &length);
    position_ += length;
    return value;
  }

  void check_byte_order(const PtValue& system) const {
    const auto* const dict = system.as<PtDict>();
    const PtValue* const little = dict == nullptr ? nullptr : dict->find("little_endian");
    const bool* const is_little = little == nullptr ? nullptr : little->as<bool>();
    if (is_little == nullptr) fail("expected whether the data is little-endian");
    if (!*is_little) throw UnsupportedError(path_ + ": the data is big-endian, expected little-endian");
  }

  // ("storage", class, key, location, number of elements, part of another storage or None)
  PtValue* note_storage(const PtValue& id) {
    const auto* const tuple = id.as<PtTuple>();
    const auto* const kind =
        tuple == nullptr || tuple->items.empty() ? nullptr : tuple->items[0]->as<std::string>();
    if (kind == nullptr) throw PickleError{"expected a tuple that names a storage"};
    if (*kind != "storage") return values_.add(PtValue::None{});
    const auto* const name = tuple->items.size() > 4 ? tuple->items[1]->as<PtName>() : nullptr;
    const auto* const key = name == nullptr ? nullptr : tuple->items[2]->as<std::string>();
    if (key == nullptr) throw PickleError{"expected the class and the key of a storage"};
    if (tuple->items.size() > 5 && !tuple->items[5]->is_none()) {
      throw UnsupportedError(
          path_ + ": storage " + in_quotes(*key) +
          " is a part of another one, as torch before 0.4 wrote it, which is not supported");
    }
    const std::optional<std::size_t> size = item_size(name->name);
    if (!size) throw PickleError{"found a storage of the unknown class " + in_quotes(name->name)};
    if (!item_sizes_.emplace(*key, *size).second && item_sizes_[*key] != *size) {
      throw PickleError{"storage " + in_quotes(*key) + " has two classes"};
    }
    return values_.add(PtValue::None{});
  }

  // The number of elements, then these.
  std::span<const std::uint8_t> storage(const std::string& key) {
    const auto size = item_sizes_.find(key);
    if (size == item_sizes_.end()) fail("the description does not name storage " + in_quotes(key));
    const std::uint64_t left = file_.size() - position_;
    if (left < sizeof(std::uint64_t)) fail("the file ends before storage " + in_quotes(key));
    const auto count = zip::get<std::uint64_t>(file_, position_);
    position_ += sizeof(count);
    if (count > (left - sizeof(count)) / size->second) {
      fail("storage " + in_quotes(key) + " should have " + std::to_string(count) + " elements of " +
           std::to_string(size->second) + " bytes, which is more than the file has: it is cut short");
    }
    const auto data = file_.subspan(position_, count * size->second);
    position_ += data.size();
    return data;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw FormatError(path_, "byte " + std::to_string(position_), problem);
  }

  std::span<const std::uint8_t> file_;
  const std::string& path_;
  std::uint64_t position_ = 0;
  PickleValues values_;
  std::unordered_map<std::string, std::size_t> item_sizes_;  // bytes of an element, by key
};

}  // namespace

bool is_legacy_pt(std::string_view head) noexcept {
  return head.size() > 2 && head[0] == '\x80' && head.substr(2).starts_with(kLegacyMagic);
}

LegacyParts find_legacy_parts(std::span<const std::uint8_t> file, const std::string& path) {
  return LegacyReader(file, path).run();
}

}  // namespace msprobe::io
