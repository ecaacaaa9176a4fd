// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "io/file/mapped_file.h"
#include "io/in_quotes.h"
#include "io/pt/pickle.h"
#include "io/pt/pt_legacy.h"
#include "io/pt/pt_objects.h"
#include "io/zip/zip_archive.h"
#include "msprobe/error.h"
#include "msprobe/pt_file.h"

namespace msprobe::io {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Files of torch.save before 0.1.12 were tar archives.
constexpr std::string_view kTarMagic = "ustar";
constexpr std::size_t kTarMagicAt = 257;

// For a file that is neither an archive nor of the old format: a message that helps.
[[noreturn]] void refuse(std::string_view text, const std::string& path) {
  if (text.size() > kTarMagicAt && text.substr(kTarMagicAt).starts_with(kTarMagic)) {
    throw UnsupportedError(path +
                           ": the file is a tar archive of torch before 0.1.12, which is not supported; load "
                           "it with torch and save it again");
  }
  throw FormatError(path, "byte 0", "expected a zip archive, as torch.save writes it");
}

}  // namespace

namespace pt {

// An archive of torch.save: all names begin with one folder.
class Archive {
 public:
  Archive(Bytes bytes, const std::string& path) : path_(path), zip_(bytes, path) {
    const std::string_view first = zip_.first_name();
    const std::size_t slash = first.find('/');
    if (slash != std::string_view::npos) folder_ = first.substr(0, slash + 1);
    if (zip_.contains(folder_ + "constants.pkl")) {
      throw UnsupportedError(path + ": the file is a TorchScript archive, expected one of torch.save");
    }
    check_version();
    check_byte_order();
  }

  const ZipArchive::Entry* find(std::string_view name) const {
    return zip_.find(folder_ + std::string(name));
  }

  Bytes description() const {
    const ZipArchive::Entry* const entry = find("data.pkl");
    if (entry == nullptr) {
      throw FormatError(path_, in_quotes(description_name()), "the archive has no entry of this name");
    }
    zip_.check(description_name(), *entry);
    return entry->data;
  }
  std::string description_name() const { return folder_ + "data.pkl"; }

  std::optional<Bytes> find_data(std::string_view key) const {
    const ZipArchive::Entry* const entry = find("data/" + std::string(key));
    if (entry == nullptr) return std::nullopt;
    return entry->data;
  }

  std::optional<std::uint32_t> checksum(std::string_view key) const {
    const ZipArchive::Entry* const entry = find("data/" + std::string(key));
    return entry != nullptr && entry->crc != 0 ? std::optional(entry->crc) : std::nullopt;
  }

  void check_data(std::string_view key) const {
    const std::string name = folder_ + "data/" + std::string(key);
    if (const ZipArchive::Entry* const entry = zip_.find(name)) zip_.check(name, *entry);
  }

 private:
  void check_version() const {
    constexpr int kNewest = 10;  // that torch itself would read; it writes 3
    const ZipArchive::Entry* const entry = find("version");
    if (entry == nullptr) return;
    const std::string_view text = as_text(entry->data);
    int version = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (error != std::errc{} || version < 1) {
      throw FormatError(path_, in_quotes(folder_ + "version"), "expected a number, found " + in_quotes(text));
    }
    if (version > kNewest) {
      throw UnsupportedError(path_ + ": the file has format version " + std::to_string(version) +
                             ", expected at most " + std::to_string(kNewest));
    }
  }

  void check_byte_order() const {
    const ZipArchive::Entry* const entry = find("byteorder");
    if (entry == nullptr || as_text(entry->data) == "little") return;  // older files do not say
    if (as_text(entry->data) == "big") {
      throw UnsupportedError(path_ + ": the data is big-endian, expected little-endian");
    }
    throw FormatError(path_, in_quotes(folder_ + "byteorder"),
                      "expected \"little\", found " + in_quotes(as_text(entry->data)));
  }

  std::string path_;
  ZipArchive zip_;
  std::string folder_;
};

}  // namespace pt

const PtValue* PtDict::find(std::string_view key) const noexcept {
  const auto found = std::find_if(entries.rbegin(), entries.rend(), [key](const auto& entry) {
    const auto* const text = entry.first->template as<std::string>();
    return text != nullptr && *text == key;
  });
  return found == entries.rend() ? nullptr : found->second;
}

std::string_view PtValue::kind() const noexcept {
  static constexpr std::array<std::string_view, std::variant_size_v<Content>> kKinds{
      "None",   "a bool",  "an integer", "a float",   "a text",   "bytes",    "a name",
      "a list", "a tuple", "a dict",     "a storage", "a tensor", "an object"};
  return kKinds[content_.index()];
}

struct PtFile::State {
  State(std::shared_ptr<const MappedFile> mapped, Bytes bytes, std::string name, const PtOptions& options)
      : path(std::move(name)),
        file(std::move(mapped)),
        objects([this](std::string_view key) { return find_data(key); }, values, options.copy_unaligned) {
    const std::string_view text = as_text(bytes);
    if (text.starts_with("PK")) {
      archive.emplace(bytes, path);
    } else if (is_legacy_pt(text)) {
      legacy = find_legacy_parts(bytes, path);
    } else {
      refuse(text, path);
    }
  }

  std::optional<Bytes> find_data(std::string_view key) const {
    if (archive) return archive->find_data(key);
    const auto found = legacy.data.find(std::string(key));
    return found == legacy.data.end() ? std::nullopt : std::optional(found->second);
  }

  void read() {
    const PickleCalls calls{[&](std::string_view name, const PtTuple& arguments) {
                              PtValue* const made = objects.call(name, arguments);
                              if (made == nullptr) note_call(name);
                              return made;
                            },
                            [&](const PtValue& id) { return objects.persistent(id); }};
    root = archive ? run_pickle(archive->description(), path, in_quotes(archive->description_name()), values,
                                calls)
                   : run_pickle(legacy.description, path,
                                "the description at byte " + std::to_string(legacy.description_at) + ",",
                                values, calls);
  }

  void note_call(std::string_view name) {
    constexpr std::size_t kMost = 1000;
    if (unknown_calls.size() < kMost &&
        std::find(unknown_calls.begin(), unknown_calls.end(), name) == unknown_calls.end()) {
      unknown_calls.emplace_back(name);
    }
  }

  std::string path;
  std::vector<std::string> unknown_calls;
  std::shared_ptr<const MappedFile> file;
  std::optional<pt::Archive> archive;  // or else
  LegacyParts legacy;
  PickleValues values;
  PtObjects objects;
  const PtValue* root = nullptr;
};

PtFile::PtFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
PtFile::PtFile(PtFile&&) noexcept = default;
PtFile& PtFile::operator=(PtFile&&) noexcept = default;
PtFile::~PtFile() = default;

PtFile PtFile::open(const std::filesystem::path& path, const PtOptions& options) {
  return open(std::make_shared<const MappedFile>(path), path.string(), 0, std::nullopt, options);
}

PtFile PtFile::open(std::shared_ptr<const MappedFile> file, const std::string& name, std::uint64_t offset,
                    std::optional<std::uint64_t> length, const PtOptions& options) {
  const Bytes all = file->bytes();
  if (offset > all.size() || length.value_or(0) > all.size() - offset) {
    throw FormatError(name, "byte " + std::to_string(offset),
                      "expected " + std::to_string(length.value_or(0)) + " bytes, but the file has " +
                          std::to_string(all.size()) + " in all");
  }
  const Bytes bytes = all.subspan(offset, length.value_or(all.size() - offset));
  auto state = std::make_unique<State>(std::move(file), bytes, name, options);
  state->read();
  return PtFile(std::move(state));
}

const PtValue& PtFile::root() const noexcept { return *state_->root; }

std::span<const std::uint8_t> PtFile::memory() const noexcept { return state_->file->bytes(); }

const std::vector<std::string>& PtFile::unknown_calls() const noexcept { return state_->unknown_calls; }

void PtFile::check(const PtStorage& storage) const {
  if (state_->archive) state_->archive->check_data(storage.key);
}

std::optional<std::uint32_t> PtFile::checksum(const PtStorage& storage) const {
  return state_->archive ? state_->archive->checksum(storage.key) : std::nullopt;
}

PtTensorFile open_pt_tensor(const std::filesystem::path& path) {
  PtFile file = PtFile::open(path);
  const auto* const tensor = file.root().as<PtTensor>();
  if (tensor == nullptr) {
    throw FormatError(path.string(), "",
                      "expected a file with one tensor, found " + std::string(file.root().kind()));
  }
  return {std::move(file), *tensor};
}

PtTensorFile read_pt_tensor(const std::filesystem::path& path) {
  PtTensorFile file = open_pt_tensor(path);
  file.check();
  return file;
}

}  // namespace msprobe::io
