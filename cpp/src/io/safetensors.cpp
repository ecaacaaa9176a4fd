// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/layout.h"
#include "io/file/mapped_file.h"
#include "io/in_quotes.h"
#include "io/zip/zip_format.h"
#include "msprobe/document.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // that of the format's own reader

struct Kind {
  std::string_view name;
  DType dtype;
};

constexpr std::array<Kind, 19> kKinds{{{"F64", DType::kFloat64},
                                       {"F32", DType::kFloat32},
                                       {"F16", DType::kFloat16},
                                       {"BF16", DType::kBFloat16},
                                       {"F8_E4M3", DType::kFloat8E4M3FN},
                                       {"F8_E4M3FNUZ", DType::kFloat8E4M3FNUZ},
                                       {"F8_E5M2", DType::kFloat8E5M2},
                                       {"F8_E5M2FNUZ", DType::kFloat8E5M2FNUZ},
                                       {"F8_E8M0", DType::kFloat8E8M0FNU},
                                       {"I64", DType::kInt64},
                                       {"I32", DType::kInt32},
                                       {"I16", DType::kInt16},
                                       {"I8", DType::kInt8},
                                       {"U64", DType::kUInt64},
                                       {"U32", DType::kUInt32},
                                       {"U16", DType::kUInt16},
                                       {"U8", DType::kUInt8},
                                       {"BOOL", DType::kBool},
                                       {"C64", DType::kComplex64}}};

std::optional<DType> dtype_of(std::string_view name) {
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [name](const Kind& kind) { return kind.name == name; });
  return found == kKinds.end() ? std::nullopt : std::optional(found->dtype);
}

// An entry of the header.
struct Entry {
  SafetensorsTensor tensor;
  std::vector<std::int64_t> offsets;
};

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "text"}}
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  void read(const Value& header) {
    const auto* const members = header.as<Value::Object>();
    if (members == nullptr) refuse({}, "found " + header.kind() + ", expected an object");
    for (const auto& [name, value] : *members) {
      const auto* const fields = value.as<Value::Object>();
      if (fields == nullptr) refuse(name, "found " + value.kind() + ", expected an object" + kFields);
      if (name == "__metadata__") {
        for (const auto& [key, text] : *fields) metadata[key] = text_of(text, name, key);
      } else {
        entries.push_back(entry_of(name, *fields));
      }
    }
  }

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

 private:
  static constexpr const char* kFields = " with dtype, shape and data_offsets for each tensor";

  [[noreturn]] void refuse(const std::string& name, const std::string& problem) const {
    throw FormatError(path_, name.empty() ? "" : in_quotes(name), problem);
  }

  std::string text_of(const Value& value, const std::string& name, const std::string& key) const {
    const auto* const text = value.as<std::string>();
    if (text == nullptr) refuse(name, in_quotes(key) + ": expected text, found " + value.kind());
    return *text;
  }

  std::vector<std::int64_t> numbers_of(const Value& value, const std::string& name,
                                       const std::string& key) const {
    const auto* const list = value.as<Value::List>();
    if (list == nullptr) refuse(name, in_quotes(key) + ": expected a list, found " + value.kind());
    if (list->size() > Layout::kMaxRank) refuse(name, in_quotes(key) + ": expected at most 64 numbers");
    std::vector<std::int64_t> numbers;
    for (const Value& one : *list) {
      const auto* const number = one.as<std::int64_t>();
      if (number == nullptr || *number < 0) {
        refuse(name, in_quotes(key) + ": expected integers from 0 to 2^63-1, found " + one.shown());
      }
      numbers.push_back(*number);
    }
    return numbers;
  }

  Entry entry_of(const std::string& name, const Value::Object& fields) const {
    Entry entry;
    entry.tensor.name = name;
    bool has_shape = false;
    for (const auto& [key, value] : fields) {
      if (key == "dtype") {
        entry.tensor.dtype_name = text_of(value, name, key);
        entry.tensor.dtype = dtype_of(entry.tensor.dtype_name);
      } else if (key == "shape") {
        entry.tensor.shape = numbers_of(value, name, key);
        has_shape = true;
      } else if (key == "data_offsets") {
        entry.offsets = numbers_of(value, name, key);
      } else {
        refuse(name, "found the key " + in_quotes(key) + ", expected dtype, shape and data_offsets");
      }
    }
    if (entry.tensor.dtype_name.empty() || !has_shape || entry.offsets.size() != 2) {
      refuse(name, "expected dtype, shape and two data_offsets");
    }
    return entry;
  }

  const std::string& path_;
};

// Bytes that a tensor of this shape has; nullopt where the number does not fit into 63 bits.
std::optional<std::int64_t> bytes_of(const std::vector<std::int64_t>& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(element_size(dtype));
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty |= extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

}  // namespace

struct SafetensorsFile::State {
  explicit State(const std::filesystem::path& path) : file(path) {}

  void read(const std::string& path) {
    const auto bytes = file.bytes();
    if (bytes.size() < kLengthBytes) {
      throw FormatError(
          path, "byte 0",
          "expected the length of a header in 8 bytes, found " + std::to_string(bytes.size()) + " bytes");
    }
    const auto length = zip::get<std::uint64_t>(bytes, 0);
    if (length > kLongestHeader || length > bytes.size() - kLengthBytes) {
      throw FormatError(
          path, "byte 0",
          "a header of " + std::to_string(length) + " bytes does not fit into the file, or is above 100 MB");
    }
    const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
    HeaderReader reader(path);
    reader.read(parse_json_document(header, path));
    metadata = std::move(reader.metadata);
    place(reader.entries, bytes.subspan(kLengthBytes + length), path);
  }

  void place(std::vector<Entry>& entries, std::span<const std::uint8_t> data, const std::string& path) {
    for (const Entry& entry : entries) check(entry, data.size(), path);
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
    std::int64_t next = 0;
    tensors.reserve(entries.size());
    for (Entry& entry : entries) {
      if (entry.offsets[0] != next) {
        throw FormatError(path, in_quotes(entry.tensor.name),
                          "its data begins at " + std::to_string(entry.offsets[0]) +
                              ", but that before ends at " + std::to_string(next));
      }
      next = entry.offsets[1];
      entry.tensor.data = data.subspan(static_cast<std::size_t>(entry.offsets[0]),
                                       static_cast<std::size_t>(entry.offsets[1] - entry.offsets[0]));
      tensors.push_back(std::move(entry.tensor));
    }
    if (std::cmp_not_equal(next, data.size())) {
      throw FormatError(path, "",
                        "the data of all tensors has " + std::to_string(next) + " bytes, found " +
                            std::to_string(data.size()));
    }
  }

  static void check(const Entry& entry, std::uint64_t data_bytes, const std::string& path) {
    const SafetensorsTensor& tensor = entry.tensor;
    const auto refuse = [&](const std::string& problem) {
      throw FormatError(path, in_quotes(tensor.name), problem);
    };
    if (entry.offsets[0] > entry.offsets[1] || std::cmp_greater(entry.offsets[1], data_bytes)) {
      refuse("its data is out of the file: bytes " + std::to_string(entry.offsets[0]) + " to " +
             std::to_string(entry.offsets[1]) + " of " + std::to_string(data_bytes));
    }
    if (!tensor.dtype) {
      if (!bytes_of(tensor.shape, DType::kUInt8)) refuse("the shape is too large for any memory");
      return;
    }
    if (bytes_of(tensor.shape, *tensor.dtype) != entry.offsets[1] - entry.offsets[0]) {
      refuse("its data has " + std::to_string(entry.offsets[1] - entry.offsets[0]) +
             " bytes, which is not what its shape and dtype need");
    }
  }

  MappedFile file;
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, std::string> metadata;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  auto state = std::make_unique<State>(path);
  state->read(path.string());
  return SafetensorsFile(std::move(state));
}

std::span<const SafetensorsTensor> SafetensorsFile::tensors() const noexcept { return state_->tensors; }

std::span<const std::uint8_t> SafetensorsFile::memory() const noexcept { return state_->file.bytes(); }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept {
  return state_->metadata;
}

}  // namespace msprobe::io
