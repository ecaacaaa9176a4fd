// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "io/in_quotes.h"
#include "io/mapped_file.h"
#include "io/pickle.h"
#include "io/pt_objects.h"
#include "io/zip_archive.h"
#include "msprobe/error.h"
#include "msprobe/pt_file.h"

namespace msprobe::io {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Files of torch.save before 1.6 begin with a pickle of this number; those before 0.1.12 were tar archives.
constexpr std::string_view kLegacyMagic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
constexpr std::string_view kTarMagic = "ustar";
constexpr std::size_t kTarMagicAt = 257;

// The bytes of a file, unless it is no zip archive: tells apart the kinds, for a message that helps.
Bytes zip_bytes(const MappedFile& file, const std::string& path) {
  const std::string_view text = as_text(file.bytes());
  if (text.starts_with("PK")) return file.bytes();
  const bool legacy = text.size() > 2 && text[0] == '\x80' && text.substr(2).starts_with(kLegacyMagic);
  const bool tar = text.size() > kTarMagicAt && text.substr(kTarMagicAt).starts_with(kTarMagic);
  if (legacy || tar) {
    throw UnsupportedError(path +
                           ": the file has the format of torch before 1.6 (no zip archive), which is not "
                           "supported; load it with torch and save it again");
  }
  throw FormatError(path, "byte 0", "expected a zip archive, as torch.save writes it");
}

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

}  // namespace

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
  explicit State(const std::filesystem::path& name)
      : path(name.string()), file(name), archive(zip_bytes(file, path), path) {}

  std::string path;
  MappedFile file;
  Archive archive;
  PickleValues values;
  PtObjects objects{[this](std::string_view key) { return archive.find_data(key); }, values};
  const PtValue* root = nullptr;
};

PtFile::PtFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
PtFile::PtFile(PtFile&&) noexcept = default;
PtFile& PtFile::operator=(PtFile&&) noexcept = default;
PtFile::~PtFile() = default;

PtFile PtFile::open(const std::filesystem::path& path) {
  auto state = std::make_unique<State>(path);
  PtObjects& objects = state->objects;
  const PickleCalls calls{
      [&](std::string_view name, const PtTuple& arguments) { return objects.call(name, arguments); },
      [&](const PtValue& id) { return objects.persistent(id); }};
  state->root = run_pickle(state->archive.description(), state->path,
                           in_quotes(state->archive.description_name()), state->values, calls);
  return PtFile(std::move(state));
}

const PtValue& PtFile::root() const noexcept { return *state_->root; }

void PtFile::check(const PtStorage& storage) const { state_->archive.check_data(storage.key); }

PtTensorFile read_pt_tensor(const std::filesystem::path& path) {
  PtFile file = PtFile::open(path);
  const auto* const tensor = file.root().as<PtTensor>();
  if (tensor == nullptr) {
    throw FormatError(path.string(), "",
                      "expected a file with one tensor, found " + std::string(file.root().kind()));
  }
  file.check(*tensor->storage);
  return {std::move(file), *tensor};
}

}  // namespace msprobe::io
