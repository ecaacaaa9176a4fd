// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/safetensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <unordered_set>

#include "io/in_quotes.h"
#include "io/json_input.h"
#include "io/mapped_file.h"
#include "io/zip_format.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // that of the format's own reader
constexpr std::size_t kMostDimensions = 64;

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

// An entry of the header as it is written.
struct Entry {
  SafetensorsTensor tensor;
  std::vector<std::int64_t> offsets;
  bool has_shape = false;
};

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "text"}}
class HeaderHandler : public JsonHandler<HeaderHandler> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  void null() { unexpected("null"); }
  void boolean(bool) { unexpected("true or false"); }

  void number(std::string_view text) {
    if (depth() != 3 || !in_list_ || skipped_) return unexpected("a number");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
      return fail(where() + "expected integers from 0 to 2^63-1, found " + in_quotes(text));
    }
    std::vector<std::int64_t>& list =
        field_ == "shape" ? entries.back().tensor.shape : entries.back().offsets;
    if (list.size() == kMostDimensions) return fail(where() + "expected at most 64 numbers");
    list.push_back(value);
  }

  void text(std::string_view text) {
    if (depth() != 2) return unexpected("a text");
    if (in_metadata_) {
      metadata[field_] = text;
    } else if (field_ == "dtype") {
      entries.back().tensor.dtype_name = text;
      entries.back().tensor.dtype = dtype_of(text);
    } else {
      unexpected("a text");
    }
  }

  void key(std::string_view name) {
    if (depth() == 2) {
      field_ = name;
      return;
    }
    in_metadata_ = name == "__metadata__";
    if (!names_.emplace(name).second) return fail("the header names " + in_quotes(name) + " twice");
    if (!in_metadata_) entries.emplace_back().tensor.name = name;
  }

  void begin(bool is_object) {
    if (depth() <= 2) {
      if (!is_object) unexpected("a list");
      return;
    }
    if (is_object || in_metadata_ || depth() > 3) return unexpected("brackets");
    in_list_ = true;
    skipped_ = field_ != "shape" && field_ != "data_offsets";
    if (skipped_) return unexpected("a list");
    Entry& entry = entries.back();
    const bool is_second = field_ == "shape" ? entry.has_shape : !entry.offsets.empty();
    if (is_second) return fail(where() + "stands twice");
    if (field_ == "shape") entry.has_shape = true;
  }

  void end(bool) { in_list_ = false; }

 private:
  std::string where() const {
    return entries.empty() ? "" : in_quotes(entries.back().tensor.name) + ": " + in_quotes(field_) + ": ";
  }
  void unexpected(const std::string& what) {
    fail(where() + "found " + what +
         ", expected an object with dtype, shape and data_offsets for each tensor");
  }

  std::unordered_set<std::string> names_;
  std::string field_;
  bool in_metadata_ = false;
  bool in_list_ = false;
  bool skipped_ = false;
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
    std::string header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
    HeaderHandler handler;
    parse_json(header, path, handler);
    metadata = std::move(handler.metadata);
    place(handler.entries, bytes.subspan(kLengthBytes + length), path);
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
    if (static_cast<std::uint64_t>(next) != data.size()) {
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
    if (tensor.dtype_name.empty() || !entry.has_shape || entry.offsets.size() != 2) {
      refuse("expected dtype, shape and two data_offsets");
    }
    if (entry.offsets[0] > entry.offsets[1] || static_cast<std::uint64_t>(entry.offsets[1]) > data_bytes) {
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

const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept {
  return state_->metadata;
}

}  // namespace msprobe::io
