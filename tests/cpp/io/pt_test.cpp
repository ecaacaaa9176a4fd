// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "io/zip/zip_format.h"
#include "io/zip/zip_writer.h"
#include "msprobe/error.h"
#include "msprobe/pt_file.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using std::string_literals::operator""s;
using test::read_bytes;
using test::TempDir;
using test::write_bytes;

// Touches every element of every tensor: a tensor out of bounds shows under AddressSanitizer or as a signal.
std::int64_t touch(const PtValue& value) {
  if (const auto* tensor = value.as<PtTensor>()) {
    if (element_count(tensor->view()) == 0) return 1;
    std::int64_t last = 0;
    for (std::size_t d = 0; d < tensor->shape.size(); ++d)
      last += (tensor->shape[d] - 1) * tensor->strides[d];
    const auto item = static_cast<std::int64_t>(element_size(tensor->dtype));
    return tensor->data[0] + tensor->data[last * item + item - 1];
  }
  std::int64_t sum = 0;
  if (const auto* list = value.as<PtList>()) {
    for (const PtValue* item : list->items) sum += touch(*item);
  }
  if (const auto* dict = value.as<PtDict>()) {
    for (const auto& [key, item] : dict->entries) sum += touch(*key) + touch(*item);
  }
  return sum;
}

std::string pt_refusal(const TempDir& dir, const std::string& file) {
  write_bytes(dir / "x.pt", file);
  try {
    const PtFile opened = PtFile::open(dir / "x.pt");
    touch(opened.root());
  } catch (const FormatError& error) {
    return std::string(error.what()).substr((dir / "x.pt").string().size() + 2);
  } catch (const UnsupportedError&) {
    return "unsupported";
  }
  return "accepted";
}

// An archive around any pickle, with a storage "0" of 16 bytes.
std::string archive(const std::string& pickle, const std::string& data = "0123456789abcdef") {
  ZipWriter zip;
  std::string file;
  zip.add("a/data.pkl", "\x80\x02" + pickle + ".", file);
  zip.add("a/data/0", data, file);
  zip.finish(file);
  return file;
}

std::string text(const std::string& value) {
  std::string pickle = "X";
  zip::put(pickle, static_cast<std::uint32_t>(value.size()));
  return pickle + value;
}

std::string integer(std::int64_t value) {
  std::string pickle = "\x8A\x08";
  zip::put(pickle, static_cast<std::uint64_t>(value));
  return pickle;
}

std::string integers(const std::vector<std::int64_t>& values) {
  std::string pickle = "(";
  for (const std::int64_t value : values) pickle += integer(value);
  return pickle + "t";
}

std::string storage(const std::string& class_name, std::int64_t elements, const std::string& key = "0") {
  return "(" + text("storage") + "c" + class_name + "\n" + text(key) + text("cpu") + integer(elements) + "tQ";
}

std::string tensor(const std::string& storage, std::int64_t offset, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(offset) + integers(shape) +
         integers(strides) + "\x89NtR";
}

const std::string kFloats = storage("torch\nFloatStorage", 4);

TEST_CASE("write_pt and read_pt_tensor: every dtype") {
  const TempDir dir;
  std::array<std::uint8_t, 96> memory{};
  std::iota(memory.begin(), memory.end(), std::uint8_t{1});
  const std::array<std::int64_t, 2> shape{2, 3};
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    write_pt(dir / "a.pt", {memory.data(), dtype, shape, {}});
    const PtTensorFile read = read_pt_tensor(dir / "a.pt");
    CHECK(read.tensor().dtype == dtype);
    CHECK(read.tensor().shape == std::vector<std::int64_t>{2, 3});
    CHECK(read.tensor().strides == std::vector<std::int64_t>{3, 1});
    CHECK_FALSE(read.tensor().requires_grad);
    CHECK(std::memcmp(read.view().data, memory.data(), 6 * element_size(dtype)) == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(read.view().data) % 64 == 0);
  }
}

TEST_CASE("write_pt: same bytes as pt_bytes, large and small, with strides and without") {
  const TempDir dir;
  std::vector<float> memory(300000);
  std::iota(memory.begin(), memory.end(), 0.0F);
  const std::array<std::int64_t, 3> shape{100, 50, 60};
  const std::array<std::int64_t, 3> transposed{60, 50, 100};
  const std::array<std::int64_t, 3> strides{1, 60, 3000};
  const std::array<std::int64_t, 3> backwards{-3000, 60, 1};
  const TensorView views[] = {{memory.data(), DType::kFloat32, shape, {}},
                              {memory.data(), DType::kFloat32, transposed, strides},
                              {memory.data() + 297000, DType::kFloat32, shape, backwards},
                              {memory.data(), DType::kUInt8, {}, {}}};
  for (const TensorView& view : views) {
    write_pt(dir / "a.pt", view, true);
    CHECK((read_bytes(dir / "a.pt") == pt_bytes(view, true)));
    CHECK(read_pt_tensor(dir / "a.pt").tensor().requires_grad);
  }
  write_pt(dir / "a.pt", views[1]);
  const PtTensorFile read = read_pt_tensor(dir / "a.pt");
  const auto* const elements = static_cast<const float*>(read.view().data);
  bool equal = true;
  for (std::int64_t i = 0, n = 0; i < 60; ++i) {
    for (std::int64_t j = 0; j < 50; ++j) {
      for (std::int64_t k = 0; k < 100; ++k, ++n) equal &= elements[n] == memory[i + 60 * j + 3000 * k];
    }
  }
  CHECK(equal);
  CHECK(test::entries_below(dir.path()) == std::vector<std::string>{"a.pt"});
}

TEST_CASE("write_pt: shapes that cannot be") {
  const TempDir dir;
  const std::array<std::int64_t, 2> negative{-1, 2};
  const std::array<std::int64_t, 2> huge{INT64_MAX, 2};
  const std::array<std::int64_t, 3> empty{0, INT64_MAX, 2};
  const std::array<std::int64_t, 1> one{1};
  const std::vector<std::int64_t> many(65, 1);
  CHECK_THROWS_AS(write_pt(dir / "a.pt", {nullptr, DType::kInt8, negative, {}}), InvalidArgument);
  CHECK_THROWS_AS(write_pt(dir / "a.pt", {nullptr, DType::kInt8, huge, {}}), InvalidArgument);
  CHECK_THROWS_AS(write_pt(dir / "a.pt", {nullptr, DType::kInt8, empty, {}}), InvalidArgument);
  CHECK_THROWS_AS(write_pt(dir / "a.pt", {nullptr, DType::kInt8, huge, one}), InvalidArgument);
  CHECK_THROWS_AS(write_pt(dir / "a.pt", {nullptr, DType::kInt8, many, {}}), InvalidArgument);
  CHECK(test::entries_below(dir.path()).empty());
}

TEST_CASE("PtFile: a file of torch cut short anywhere is refused") {
  const TempDir dir;
  for (const char* name :
       {"Functional.linear.0.forward.input.2.pt", "Tensor.bfloat16.0.forward.output.0.pt"}) {
    const std::string file = read_bytes(std::string(MSPROBE_TEST_DATA "/io/") + name);
    REQUIRE(pt_refusal(dir, file) == "accepted");
    for (std::size_t n = 0; n < file.size(); ++n) CHECK(pt_refusal(dir, file.substr(0, n)) != "accepted");
  }
}

TEST_CASE("PtFile: changed bytes are refused or give a value") {
  const TempDir dir;
  const std::string good = read_bytes(MSPROBE_TEST_DATA "/io/Functional.linear.0.forward.input.2.pt");
  std::mt19937 random(1);  // NOLINT: the same every time
  for (int i = 0; i < 5000; ++i) {
    std::string file = good;
    for (std::uint32_t n = 1 + random() % 3; n > 0; --n)
      file[random() % file.size()] = static_cast<char>(random());
    pt_refusal(dir, file);
  }
  // The description alone, with a checksum that fits, as a hostile writer would have it.
  const std::string pickle = "}(" + text("w") + tensor(kFloats, 0, {2, 2}, {2, 1}) + text("n") + "K\x05u";
  REQUIRE(pt_refusal(dir, archive(pickle)) == "accepted");
  int accepted = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string damaged = pickle;
    for (std::uint32_t n = 1 + random() % 3; n > 0; --n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    accepted += pt_refusal(dir, archive(damaged)) == "accepted" ? 1 : 0;
  }
  CHECK(accepted > 100);
}

TEST_CASE("PtFile: tensors share a storage, at offsets and with strides") {
  const TempDir dir;
  write_bytes(dir / "a.pt",
              archive("](" + tensor(kFloats, 0, {2, 2}, {1, 2}) + tensor(kFloats, 3, {}, {}) +
                      tensor(kFloats, 1, {1000, 3}, {0, 1}) + tensor(kFloats, 4, {0, 7}, {7, 1}) + "e"));
  const PtFile file = PtFile::open(dir / "a.pt");
  const auto& items = file.root().as<PtList>()->items;
  REQUIRE(items.size() == 4);
  const auto* const first = items[0]->as<PtTensor>();
  CHECK(first->strides == std::vector<std::int64_t>{1, 2});
  CHECK(std::memcmp(first->data, "0123", 4) == 0);
  CHECK(std::memcmp(items[1]->as<PtTensor>()->data, "cdef", 4) == 0);
  CHECK(items[2]->as<PtTensor>()->shape[0] == 1000);
  CHECK(items[1]->as<PtTensor>()->storage == first->storage);
  CHECK(first->storage->location == "cpu");
  file.check(*first->storage);
}

TEST_CASE("PtFile: tensors that do not fit their storage") {
  const TempDir dir;
  const auto refused = [&](std::int64_t offset, const std::vector<std::int64_t>& shape,
                           const std::vector<std::int64_t>& strides) {
    return pt_refusal(dir, archive(tensor(kFloats, offset, shape, strides)));
  };
  REQUIRE(refused(0, {4}, {1}) == "accepted");
  CHECK(refused(1, {4}, {1})
            .find("_rebuild_tensor_v2: the tensor needs elements 1 to 1 + 3 of storage \"0\", "
                  "which has 4") != std::string::npos);
  CHECK(refused(0, {2, 2}, {3, 1}).find("the tensor needs elements") != std::string::npos);
  CHECK(refused(4, {}, {}).find("the tensor needs elements") != std::string::npos);
  CHECK(refused(-1, {2}, {1}).find("must be 0 or more") != std::string::npos);
  CHECK(refused(3, {2}, {-1}).find("expected integers that are 0 or more") != std::string::npos);
  CHECK(refused(0, {-2}, {1}).find("expected integers that are 0 or more") != std::string::npos);
  CHECK(refused(INT64_MAX, {2}, {1}).find("the tensor needs elements") != std::string::npos);
  CHECK(refused(0, {2}, {INT64_MAX}).find("too large for any memory") != std::string::npos);
  CHECK(refused(0, {INT64_MAX}, {0}).find("too large for any memory") != std::string::npos);
  CHECK(refused(0, {1 << 30, 1 << 30, 1 << 30}, {0, 0, 0}).find("too large for any memory") !=
        std::string::npos);
  CHECK(refused(0, {2, 2}, {1}).find("expected as many strides as extents (2), found 1") !=
        std::string::npos);
  CHECK(refused(0, std::vector<std::int64_t>(65, 1), {1}).find("at most 64 dimensions") != std::string::npos);
  CHECK(refused(9, {0}, {1}) == "accepted");  // has no element that could be outside
}

TEST_CASE("PtFile: storages that are not what they say") {
  const TempDir dir;
  const auto refused = [&](const std::string& pickle) { return pt_refusal(dir, archive(pickle)); };
  CHECK(refused(storage("torch\nFloatStorage", 4)) == "accepted");
  CHECK(refused(storage("torch.storage\nUntypedStorage", 16)) == "accepted");
  CHECK(refused(storage("torch.cuda\nHalfStorage", 8)) == "accepted");
  CHECK(
      refused(storage("torch\nFloatStorage", 5)).find("should have 5 elements of 4 bytes, found 16 bytes") !=
      std::string::npos);
  CHECK(refused(storage("torch\nFloatStorage", INT64_MIN)).find("found 16 bytes") != std::string::npos);
  CHECK(refused(storage("torch\nFloatStorage", std::int64_t{1} << 62)).find("found 16 bytes") !=
        std::string::npos);
  CHECK(refused(storage("torch\nFloatStorage", 4, "1")).find("storage \"1\" has no data in the file") !=
        std::string::npos);
  CHECK(refused(storage("torch\nFloatStorage", 4, "../data.pkl")).find("has no data") != std::string::npos);
  CHECK(refused("NQ").find("expected a tuple that names a storage") != std::string::npos);
  CHECK(refused(")Q").find("argument 0: expected \"storage\", found none") != std::string::npos);
  // A class msprobe does not have: a description, and so is the tensor.
  CHECK(refused(tensor(storage("torch\nQInt8Storage", 16), 0, {16}, {1})) == "accepted");
  CHECK(refused(tensor(storage("torch.storage\nUntypedStorage", 16), 0, {4}, {1}))
            .find("found an untyped one") != std::string::npos);
  CHECK(refused(tensor("N", 0, {4}, {1})).find("argument 0: expected a storage, found None") !=
        std::string::npos);
}

TEST_CASE("PtFile: calls within calls end in an error, not on the stack") {
  const TempDir dir;
  std::string pickle =
      "ctorch._tensor\n_rebuild_from_type_v2\nq\x01"
      "0ca\nB\nq\x03"
      "0)q\x04"
      "0";
  // Each time: (_rebuild_from_type_v2, class, the arguments made before, None).
  for (int i = 0; i < 100000; ++i)
    pickle +=
        "(h\x01h\x03h\x04Ntq\x04"
        "0";
  CHECK(pt_refusal(dir, archive(pickle + "h\x01h\x04R")).find("calls are nested too deep") !=
        std::string::npos);
}

TEST_CASE("read_pt_tensor: a file with something else, and damaged data") {
  const TempDir dir;
  write_bytes(dir / "x.pt", archive("}"));
  CHECK_THROWS_WITH(read_pt_tensor(dir / "x.pt"),
                    Catch::Matchers::EndsWith("x.pt: expected a file with one tensor, found a dict"));
  std::string file = archive(tensor(kFloats, 0, {4}, {1}));
  file[file.find("0123456789abcdef")] = '1';
  write_bytes(dir / "x.pt", file);
  CHECK_THROWS_WITH(read_pt_tensor(dir / "x.pt"),
                    Catch::Matchers::EndsWith("\"a/data/0\": the data is damaged: its checksum differs"));
}

TEST_CASE("PtFile: archives that lack something, and other formats") {
  const TempDir dir;
  const auto with = [&](const std::string& name, const std::string& content) {
    ZipWriter zip;
    std::string file;
    zip.add("a/data.pkl", "\x80\x02N.", file);
    zip.add(name, content, file);
    zip.finish(file);
    return pt_refusal(dir, file);
  };
  CHECK(with("a/version", "3\n") == "accepted");
  CHECK(with("a/version", "11\n") == "unsupported");
  CHECK(with("a/version", "x") == "\"a/version\": expected a number, found \"x\"");
  CHECK(with("a/byteorder", "little") == "accepted");
  CHECK(with("a/byteorder", "big") == "unsupported");
  CHECK(with("a/byteorder", "middle") == "\"a/byteorder\": expected \"little\", found \"middle\"");
  CHECK(with("a/constants.pkl", "") == "unsupported");
  ZipWriter zip;
  std::string empty;
  zip.finish(empty);
  CHECK(pt_refusal(dir, empty) == "\"data.pkl\": the archive has no entry of this name");
  CHECK(pt_refusal(dir, std::string(257, '\0') + "ustar" + std::string(250, '\0')) == "unsupported");
  CHECK(pt_refusal(dir, "") == "byte 0: expected a zip archive, as torch.save writes it");
  CHECK_THROWS_AS(PtFile::open(dir.path()), IoError);
  CHECK_THROWS_AS(PtFile::open(dir / "missing.pt"), IoError);
}

}  // namespace
}  // namespace msprobe::io
