// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

/// Files of torch.save, written and read without torch. Format: docs/formats/pt.md.
namespace msprobe::io {

// ---- Writing

/// Writes one tensor as `torch.save(tensor, path)` does; torch.load reads it, also with weights_only=True and
/// with mmap=True. Every dtype and every layout; a tensor with strides is written without gaps, in C order.
/// `requires_grad` is not kept for fp8 and complex32: torch would refuse to load such a file.
///
/// The file is complete or absent (AtomicFile). Memory is read once; a tensor of any size needs less than a
/// MiB beside it. Thread-safe. Throws InvalidArgument for a bad shape, IoError.
MSPROBE_API void write_pt(const std::filesystem::path& path, const TensorView& view,
                          bool requires_grad = false);

/// The bytes of that file. For a tensor that will have changed by the time it is written: this copy is the
/// only one, and whoever writes it needs one OutputFile::write. Thread-safe. Throws InvalidArgument for a bad
/// shape.
MSPROBE_API std::string pt_bytes(const TensorView& view, bool requires_grad = false);

// ---- Reading: what a file holds

class PtValue;

/// Bytes and bytearray.
struct PtBytes {
  std::string bytes;
};

/// A class, function or constant by its full name, not called: "torch.float32", "collections.OrderedDict".
struct PtName {
  std::string name;
};

struct PtList {
  std::vector<const PtValue*> items;
};

/// tuple and torch.Size.
struct PtTuple {
  std::vector<const PtValue*> items;
};

/// dict, OrderedDict and defaultdict, in the order of the file. A key can be any value. A key that occurs
/// twice stands here twice; Python keeps the last.
struct PtDict {
  std::vector<std::pair<const PtValue*, const PtValue*>> entries;
  const PtValue* attributes =
      nullptr;  // of the object itself, such as `_metadata` of a state dict; may be null

  /// The last value with this text as its key; null where there is none. Takes time with the number of
  /// entries.
  MSPROBE_API const PtValue* find(std::string_view key) const noexcept;
};

/// Memory that tensors share.
struct PtStorage {
  std::string_view key;                // names the entry of the archive: "0" is data/0
  std::string_view location;           // device it was saved from: "cpu", "cuda:0", "npu:0"
  std::optional<DType> dtype;          // nullopt: torch.UntypedStorage, the tensors know
  std::span<const std::uint8_t> data;  // aligned for every dtype, see PtOptions
};

/// A tensor, checked: every element lies within its storage.
struct PtTensor {
  const PtStorage* storage = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;     // the product fits into 63 bits
  std::vector<std::int64_t> strides;   // in elements, 0 or more, as many as extents. 0: expanded, so the
                                       // number of elements can be far above the size of the file
  std::int64_t offset = 0;             // of the first element in the storage, in elements
  const std::uint8_t* data = nullptr;  // the first element; valid as long as its PtFile
  bool requires_grad = false;
  bool conjugate = false;  // the tensor is the complex conjugate of what its memory holds
  bool negative = false;   // the tensor is what its memory holds times -1
  std::string_view class_name = "torch.Tensor";  // or "torch.nn.parameter.Parameter", or a class of one's own
  const PtValue* state = nullptr;                // attributes of an object of such a class; may be null

  /// The memory of the tensor; valid as long as its PtFile.
  TensorView view() const noexcept { return {data, dtype, shape, strides}; }
};

/// An object that is none of the above: what the file says about it, nothing of which has been run.
/// set and frozenset are objects "builtins.set" and "builtins.frozenset" with a list as their one argument;
/// an integer of more than 64 bits is "builtins.int" with its bytes (two's complement, little endian); a
/// value that holds itself has "(cycle)" in that place.
struct PtObject {
  std::string_view class_name;         // or function that makes it: "argparse.Namespace", "torch.device"
  const PtValue* arguments = nullptr;  // of the call, usually a PtTuple; null where there was none
  const PtValue* keywords = nullptr;   // of the call; null where there was none
  const PtValue* state = nullptr;      // usually a PtDict of attributes; null where there was none
  PtList items;                        // appended: an object that is also a list
  PtDict entries;                      // set by key: an object that is also a dict
};

/// One value of the tree in a file. Values are shared where the file shares them, so a walk may meet one more
/// than once; but none contains itself, no path is longer than kPtDepth, and a walk that goes into every
/// value each time it meets it ends after at most 2^24 steps or as many as the description in the file has
/// bytes.
class PtValue {
 public:
  struct None {};
  using Content = std::variant<None, bool, std::int64_t, double, std::string, PtBytes, PtName, PtList,
                               PtTuple, std::unique_ptr<PtDict>, std::unique_ptr<PtStorage>,
                               std::unique_ptr<PtTensor>, std::unique_ptr<PtObject>>;

  explicit PtValue(Content content) : content_(std::move(content)) {}

  /// The value if it is a T, else null. T: bool, std::int64_t, double, std::string (text, UTF-8 unless the
  /// file is odd), and the structs above.
  template <typename T>
  const T* as() const noexcept {
    if constexpr (kBoxed<T>) {
      const auto* box = std::get_if<std::unique_ptr<T>>(&content_);
      return box == nullptr ? nullptr : box->get();
    } else {
      return std::get_if<T>(&content_);
    }
  }
  template <typename T>
  T* as() noexcept {
    return const_cast<T*>(std::as_const(*this).as<T>());
  }
  bool is_none() const noexcept { return std::holds_alternative<None>(content_); }

  /// For messages: "a number", "a tensor".
  MSPROBE_API std::string_view kind() const noexcept;

 private:
  // The large ones stand apart, so that a list of a million numbers stays small.
  template <typename T>
  static constexpr bool kBoxed = std::is_same_v<T, PtDict> || std::is_same_v<T, PtStorage> ||
                                 std::is_same_v<T, PtTensor> || std::is_same_v<T, PtObject>;

  Content content_;
};

class MappedFile;

struct PtOptions {
  /// Data that does not begin at a multiple of 16 in memory (files of torch before 1.6, odd writers) is
  /// copied, so that every tensor is aligned. Without it memory stays small for files of any size, and
  /// whoever reads the tensors sees to it.
  bool copy_unaligned = true;
};

/// Longest path from the root of a file to a value.
inline constexpr int kPtDepth = 1000;

// ---- Reading: the file

/// A file of torch.save, mapped into memory; tensors point into the mapping.
///
/// Nothing in the file is run: it is a program for a machine that can call anything, and here a fixed table
/// of names is understood (tensors, parameters, storages, ordered dictionaries, sizes, bytes) and every other
/// call becomes a PtObject. Sizes, offsets and shapes are checked before they are used; memory stays below 2
/// GiB and a small multiple of the file's description (tensor data is mapped, not copied, but for what
/// PtOptions says).
///
/// As with every mapping, a file that is cut short while it is open ends the process when the missing part is
/// read; a file that is replaced by rename, as all writers of msprobe do, is safe.
///
/// Reading from several threads is safe. Can be moved; values stay where they are.
class MSPROBE_API PtFile {
 public:
  /// Reads the zip archives of today and the format before torch 1.6. Throws IoError; FormatError for a file
  /// that is damaged, hostile or another one, with the place in it; UnsupportedError for valid files of
  /// another kind: the tar archives before torch 0.1.12, TorchScript, big-endian data. The checksum of the
  /// description is verified; for that of the data see check().
  static PtFile open(const std::filesystem::path& path, const PtOptions& options = {});

  /// The same for a part of a file, or with nullopt all that follows `offset`: distributed checkpoints have
  /// many small archives in one file. `name` is for messages. For code inside the library: MappedFile is not
  /// public.
  static PtFile open(std::shared_ptr<const MappedFile> file, const std::string& name, std::uint64_t offset,
                     std::optional<std::uint64_t> length, const PtOptions& options = {});

  PtFile(PtFile&&) noexcept;
  PtFile& operator=(PtFile&&) noexcept;
  ~PtFile();

  const PtValue& root() const noexcept;

  /// The whole file as it is mapped, whatever part of it was opened.
  std::span<const std::uint8_t> memory() const noexcept;

  /// Functions and classes that the description calls and that are not understood here, by their full names,
  /// each once, at most 1000. Loading the file with torch might run them.
  const std::vector<std::string>& unknown_calls() const noexcept;

  /// Reads all of a storage and compares its checksum. Throws FormatError where they differ. A file without
  /// checksums (torch.serialization.set_crc32_options, or before torch 1.6) passes.
  void check(const PtStorage& storage) const;

  /// The checksum (CRC-32) that the file gives for a storage; nullopt: none. For those who read all of it
  /// anyway.
  std::optional<std::uint32_t> checksum(const PtStorage& storage) const;

 private:
  struct State;
  explicit PtFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A file with one tensor, as the dump writes them.
class MSPROBE_API PtTensorFile {
 public:
  PtTensorFile(PtFile file, const PtTensor& tensor) : file_(std::move(file)), tensor_(&tensor) {}

  const PtTensor& tensor() const noexcept { return *tensor_; }
  TensorView view() const noexcept { return tensor_->view(); }
  /// The memory that the checksum is of: the tensor lies in it.
  std::span<const std::uint8_t> storage() const noexcept { return tensor_->storage->data; }
  /// As PtFile::memory().
  std::span<const std::uint8_t> memory() const noexcept { return file_.memory(); }
  std::optional<std::uint32_t> checksum() const { return file_.checksum(*tensor_->storage); }
  /// As PtFile::check().
  void check() const { file_.check(*tensor_->storage); }

 private:
  PtFile file_;
  const PtTensor* tensor_;
};

/// Opens a file whose root is a tensor and verifies the checksum of its data. Throws what PtFile::open and
/// PtFile::check do, and FormatError when the root is something else.
MSPROBE_API PtTensorFile read_pt_tensor(const std::filesystem::path& path);
/// The same without looking at the data: the checksum is up to the caller.
MSPROBE_API PtTensorFile open_pt_tensor(const std::filesystem::path& path);

}  // namespace msprobe::io
