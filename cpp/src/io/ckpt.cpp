// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/crc32.h"
#include "base/layout.h"
#include "io/file/mapped_file.h"
#include "io/in_quotes.h"
#include "io/utf8.h"
#include "msprobe/ckpt_file.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kLongestName = 1 << 16;

struct CkptType {
  std::string_view name;
  DType dtype;
};

constexpr std::array<CkptType, 13> kCkptTypes{{{"Float64", DType::kFloat64},
                                               {"Float32", DType::kFloat32},
                                               {"Float16", DType::kFloat16},
                                               {"BFloat16", DType::kBFloat16},
                                               {"Int64", DType::kInt64},
                                               {"Int32", DType::kInt32},
                                               {"Int16", DType::kInt16},
                                               {"Int8", DType::kInt8},
                                               {"UInt64", DType::kUInt64},
                                               {"UInt32", DType::kUInt32},
                                               {"UInt16", DType::kUInt16},
                                               {"UInt8", DType::kUInt8},
                                               {"Bool", DType::kBool}}};

std::optional<DType> dtype_of_ckpt(std::string_view name) {
  const auto* const found = std::find_if(kCkptTypes.begin(), kCkptTypes.end(),
                                         [name](const CkptType& type) { return type.name == name; });
  return found == kCkptTypes.end() ? std::nullopt : std::optional(found->dtype);
}

enum class Wire : std::uint8_t { kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };

struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::kVarint;
  std::uint64_t value = 0;  // of a varint
  Bytes bytes;              // of kBytes
};

// The fields of one message. https://protobuf.dev/programming-guides/encoding
class Message {
 public:
  Message(Bytes bytes, const std::uint8_t* begin_of_file, const std::string& path)
      : rest_(bytes), begin_(begin_of_file), path_(path) {}

  bool ended() const { return rest_.empty(); }

  Field next() {
    const std::uint64_t key = varint();
    Field field{.number = key >> 3U, .wire = static_cast<Wire>(key & 7U), .value = 0, .bytes = {}};
    switch (field.wire) {
      case Wire::kVarint: field.value = varint(); return field;
      case Wire::kEightBytes: take(8); return field;
      case Wire::kFourBytes: take(4); return field;
      case Wire::kBytes: field.bytes = take(varint()); return field;
    }
    refuse("found a field of kind " + std::to_string(key & 7U));
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) refuse("found the end within a number");
      const std::uint8_t byte = rest_.front();
      rest_ = rest_.subspan(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80U) return value;
    }
    refuse("found a number of more than 10 bytes");
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    const std::uint8_t* const at = rest_.data() == nullptr ? begin_ : rest_.data();
    throw FormatError(path_, "byte " + std::to_string(at - begin_),
                      "expected the parameters of a .ckpt that is not encrypted, " + problem);
  }

 private:
  Bytes take(std::uint64_t size) {
    if (size > rest_.size()) {
      refuse("found a field of " + std::to_string(size) + " bytes where " + std::to_string(rest_.size()) +
             " are left");
    }
    const Bytes taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  Bytes rest_;
  const std::uint8_t* begin_;
  const std::string& path_;
};

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Elements of the shape times their size; nullopt where 63 bits do not hold it.
std::optional<std::int64_t> size_of(const std::vector<std::int64_t>& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(element_size(dtype));
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

// The last field is "crc_num" and the CRC-32 of all before it, in 10 bytes, the highest first.
constexpr std::string_view kChecksum = "crc_num";
constexpr std::size_t kChecksumBytes = kChecksum.size() + 10;

}  // namespace

struct CkptFile::State {
  explicit State(const std::filesystem::path& path_) : file(path_), path(path_.string()) {}

  void read() {
    const Bytes all = file.bytes();
    Message messages(without_checksum(all), all.data(), path);
    while (!messages.ended()) {
      const Field field = messages.next();
      if (field.number != 1 || field.wire != Wire::kBytes) {
        messages.refuse("found field " + std::to_string(field.number));
      }
      read_parameter(Message(field.bytes, all.data(), path));
    }
    finish();
    if (tensors.empty()) throw FormatError(path, "", "expected the parameters of a .ckpt, found none");
  }

  MappedFile file;
  std::string path;
  std::vector<SafetensorsTensor> tensors;
  std::deque<std::vector<std::uint8_t>> joined;  // what stands in the file in parts

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& problem) const {
    throw FormatError(path, in_quotes(name), problem);
  }

  Bytes without_checksum(Bytes all) const {
    if (all.size() < kChecksumBytes) return all;
    const Bytes end = all.last(kChecksumBytes);
    if (text_of(end.first(kChecksum.size())) != kChecksum) return all;
    std::uint64_t written = 0;
    for (const std::uint8_t byte : end.subspan(kChecksum.size())) written = (written << 8U) | byte;
    const Bytes before = all.first(all.size() - kChecksumBytes);
    Crc32 checksum;
    checksum.add(before.data(), before.size());
    const std::uint64_t found = checksum.value();
    if (found != written) {
      throw FormatError(path, in_quotes(kChecksum),
                        "the content has the checksum " + std::to_string(found) + ", expected " +
                            std::to_string(written) + ": the file is damaged");
    }
    return before;
  }

  void read_parameter(Message message) {
    std::string name;
    std::optional<Bytes> tensor;
    bool is_table = false;
    while (!message.ended()) {
      const Field field = message.next();
      if (field.wire != Wire::kBytes) continue;
      if (field.number == 1) {
        if (field.bytes.size() > kLongestName) message.refuse("found a name of more than 65,536 bytes");
        name = with_escaped_bytes(text_of(field.bytes));
      } else if (field.number == 2) {
        tensor = field.bytes;
      } else if (field.number == 3) {
        is_table = true;
      }
    }
    if (is_table) return add({.name = name, .dtype_name = "MapTensor", .dtype = {}, .shape = {}, .data = {}});
    if (!tensor || name.empty()) message.refuse("found a parameter without a name or a tensor");
    read_tensor(name, Message(*tensor, file.bytes().data(), path));
  }

  void read_tensor(const std::string& name, Message message) {
    SafetensorsTensor tensor{.name = name, .dtype_name = {}, .dtype = {}, .shape = {}, .data = {}};
    while (!message.ended()) {
      const Field field = message.next();
      if (field.number == 1 && field.wire == Wire::kVarint) {
        add_extent(tensor, field.value);
      } else if (field.number == 1 && field.wire == Wire::kBytes) {
        for (Message extents(field.bytes, file.bytes().data(), path); !extents.ended();) {
          add_extent(tensor, extents.varint());
        }
      } else if (field.number == 2 && field.wire == Wire::kBytes) {
        tensor.dtype_name = text_of(field.bytes.first(std::min<std::size_t>(field.bytes.size(), 64)));
      } else if (field.number == 3 && field.wire == Wire::kBytes) {
        tensor.data = field.bytes;
      }
    }
    if (tensor.dtype_name == "str") return;  // a setting that the training wrote beside its parameters
    tensor.dtype = dtype_of_ckpt(tensor.dtype_name);
    // A scalar is written as the shape [0].
    if (tensor.shape == std::vector<std::int64_t>{0} && !tensor.data.empty()) tensor.shape.clear();
    add(std::move(tensor));
  }

  void add_extent(SafetensorsTensor& tensor, std::uint64_t extent) const {
    if (tensor.shape.size() == Layout::kMaxRank) refuse(tensor.name, "expected at most 64 dimensions");
    if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse(tensor.name, "expected extents from 0 to 2^63-1, found " + std::to_string(extent));
    }
    tensor.shape.push_back(static_cast<std::int64_t>(extent));
  }

  // Parts of one parameter follow each other under one name, each with the whole shape.
  void add(SafetensorsTensor tensor) {
    if (!tensors.empty() && tensors.back().name == tensor.name && tensors.back().dtype && tensor.dtype) {
      SafetensorsTensor& whole = tensors.back();
      if (whole.dtype != tensor.dtype || whole.shape != tensor.shape) {
        refuse(tensor.name, "its parts have different shapes or dtypes");
      }
      if (joined.empty() || joined.back().data() != whole.data.data()) {
        joined.emplace_back(whole.data.begin(), whole.data.end());
      }
      std::vector<std::uint8_t>& bytes = joined.back();
      bytes.insert(bytes.end(), tensor.data.begin(), tensor.data.end());
      whole.data = bytes;
      return;
    }
    finish();
    tensors.push_back(std::move(tensor));
  }

  // The last tensor is whole.
  void finish() const {
    if (tensors.empty() || !tensors.back().dtype) return;
    const SafetensorsTensor& tensor = tensors.back();
    const std::optional<std::int64_t> expected = size_of(tensor.shape, *tensor.dtype);
    if (!expected || std::cmp_not_equal(*expected, tensor.data.size())) {
      refuse(tensor.name, "its data has " + std::to_string(tensor.data.size()) +
                              " bytes, which is not what its shape and dtype need");
    }
  }
};

CkptFile::CkptFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
CkptFile::CkptFile(CkptFile&&) noexcept = default;
CkptFile& CkptFile::operator=(CkptFile&&) noexcept = default;
CkptFile::~CkptFile() = default;

CkptFile CkptFile::open(const std::filesystem::path& path) {
  auto state = std::make_unique<State>(path);
  state->read();
  return CkptFile(std::move(state));
}

std::span<const SafetensorsTensor> CkptFile::tensors() const noexcept { return state_->tensors; }

std::span<const std::uint8_t> CkptFile::memory() const noexcept { return state_->file.bytes(); }

}  // namespace msprobe::io
