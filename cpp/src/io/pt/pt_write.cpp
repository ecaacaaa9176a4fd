// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32.h"
#include "base/layout.h"
#include "io/pt/pt_names.h"
#include "io/zip/zip_format.h"
#include "io/zip/zip_writer.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/pt_file.h"

namespace msprobe::io {
namespace {

// Data passes through the checksum and on to the file in blocks that stay in the cache between the two.
constexpr std::size_t kBlockBytes = 256 << 10;

std::size_t data_bytes(const TensorView& view) {
  (void)Layout(view, false);  // checks shape and strides
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(view), static_cast<std::int64_t>(element_size(view.dtype)),
                             &bytes)) {
    throw InvalidArgument("tensor view: the number of bytes does not fit into 63 bits");
  }
  return static_cast<std::size_t>(bytes);
}

// ---- data.pkl

// The opcodes of pickle protocol 2 that a tensor needs. As Python's pickler does, every tuple, text and name
// gets the next number of the memo, so that the bytes are those of torch.save.
class Pickle {
 public:
  Pickle() { put(0x80).put(2); }

  Pickle& name(std::string_view module, std::string_view name) {
    put('c');
    text_.append(module).append(1, '\n').append(name).append(1, '\n');
    return memoize();
  }
  Pickle& text(std::string_view value) {
    put('X');
    zip::put(text_, static_cast<std::uint32_t>(value.size()));
    text_ += value;
    return memoize();
  }
  Pickle& boolean(bool value) { return put(value ? 0x88 : 0x89); }
  Pickle& integer(std::int64_t value) {  // 0 or more: extents, strides, counts
    const auto number = static_cast<std::uint64_t>(value);
    if (number <= 0xFF) return put('K').put(static_cast<int>(number));
    if (number <= 0xFFFF) {
      put('M');
      zip::put(text_, static_cast<std::uint16_t>(number));
    } else if (number <= 0x7FFFFFFF) {
      put('J');
      zip::put(text_, static_cast<std::uint32_t>(number));
    } else {  // LONG1: as many bytes as a signed number needs
      int bytes = 5;
      while (bytes < 8 && number >> (8 * bytes - 1) != 0) ++bytes;
      put(0x8A).put(bytes);
      for (int i = 0; i < bytes; ++i) put(static_cast<int>(number >> (8 * i) & 0xFF));
    }
    return *this;
  }
  Pickle& integers(const std::vector<std::int64_t>& values) {
    if (values.empty()) return put(')');
    if (values.size() > 3) put('(');
    for (const std::int64_t value : values) integer(value);
    if (values.size() > 3) return tuple();
    return put(0x84 + static_cast<int>(values.size())).memoize();
  }
  Pickle& mark() { return put('('); }
  Pickle& tuple() { return put('t').memoize(); }
  Pickle& persistent() { return put('Q'); }
  Pickle& empty_ordered_dict() { return name("collections", "OrderedDict").put(')').call(); }
  Pickle& call() { return put('R').memoize(); }
  std::string finish() {
    put('.');
    return std::move(text_);
  }

 private:
  Pickle& put(int byte) {
    text_ += static_cast<char>(byte);
    return *this;
  }
  Pickle& memoize() { return put('q').put(memo_++); }

  std::string text_;
  int memo_ = 0;
};

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[d], 1), &step)) {
      // Only an empty tensor can come here: its number of elements does fit.
      throw InvalidArgument("tensor shape: a stride does not fit into 63 bits");
    }
  }
  return strides;
}

// The call torch.load makes: _rebuild_tensor_v2, or _v3 with the dtype for those without a storage class.
std::string describe(const TensorView& view, std::size_t bytes, bool requires_grad) {
  const std::string_view storage = storage_class(view.dtype);
  Pickle pickle;
  pickle.name("torch._utils", storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2").mark();
  pickle.mark().text("storage");
  if (storage.empty()) {
    pickle.name("torch.storage", "UntypedStorage");
  } else {
    pickle.name("torch", storage);
  }
  pickle.text("0").text("cpu");
  pickle.integer(static_cast<std::int64_t>(storage.empty() ? bytes : bytes / element_size(view.dtype)));
  pickle.tuple().persistent();
  pickle.integer(0);  // offset in the storage
  pickle.integers({view.shape.begin(), view.shape.end()}).integers(contiguous_strides(view.shape));
  // torch (2.13) saves v3 with requires_grad, and then cannot load it.
  pickle.boolean(requires_grad && !storage.empty()).empty_ordered_dict();  // of hooks
  if (storage.empty()) pickle.name("torch", dtype_name(view.dtype));
  return pickle.tuple().call().finish();
}

// ---- data/0

// Hands the elements to `sink(data, bytes)` in blocks, returns their CRC-32.
template <typename Sink>
std::uint32_t pass_data(const TensorView& view, std::size_t bytes, const Sink& sink) {
  std::uint32_t crc = 0;
  const auto pass = [&](const void* data, std::size_t n) {
    crc = crc32(crc, data, n);
    sink(data, n);
  };
  const Layout layout(view, /*any_order=*/false);
  if (layout.contiguous()) {
    for (std::size_t done = 0; done < bytes; done += kBlockBytes) {
      pass(static_cast<const std::byte*>(view.data) + done, std::min(kBlockBytes, bytes - done));
    }
    return crc;
  }
  std::vector<std::byte> block(std::min(kBlockBytes, bytes));
  for (std::size_t done = 0; done < bytes; done += block.size()) {
    const std::size_t n = std::min(block.size(), bytes - done);  // both are multiples of the element size
    const std::size_t item = element_size(view.dtype);
    layout.gather(static_cast<std::int64_t>(done / item), n / item, block.data());
    pass(block.data(), n);
  }
  return crc;
}

// ---- the archive

// Hands the whole file to `sink(data, bytes)`, front to back.
template <typename Sink>
void pass_file(const TensorView& view, std::size_t bytes, bool requires_grad, const Sink& sink) {
  ZipWriter zip;
  std::string text;
  zip.add("archive/data.pkl", describe(view, bytes, requires_grad), text);
  zip.add("archive/.format_version", "1", text);
  zip.add("archive/.storage_alignment", "64", text);
  zip.add("archive/byteorder", "little", text);
  zip.add("archive/version", "3\n", text);
  zip.begin("archive/data/0", bytes, text);
  sink(text.data(), text.size());
  const std::uint32_t crc = pass_data(view, bytes, sink);
  text.clear();
  zip.end(crc, text);
  zip.finish(text);
  sink(text.data(), text.size());
}

}  // namespace

std::string pt_bytes(const TensorView& view, bool requires_grad) {
  constexpr std::size_t kAroundData = 4096;  // is less than 2 KiB up to some hundred dimensions
  const std::size_t bytes = data_bytes(view);
  std::string file;
  file.reserve(bytes + kAroundData);
  pass_file(view, bytes, requires_grad,
            [&](const void* data, std::size_t n) { file.append(static_cast<const char*>(data), n); });
  return file;
}

void write_pt(const std::filesystem::path& path, const TensorView& view, bool requires_grad) {
  const std::size_t bytes = data_bytes(view);
  AtomicFile file(path);
  if (bytes <= kBlockBytes) {  // copying costs less than two more system calls
    file.write(pt_bytes(view, requires_grad));
  } else {
    pass_file(view, bytes, requires_grad, [&](const void* data, std::size_t n) { file.write(data, n); });
  }
  file.commit();
}

}  // namespace msprobe::io
