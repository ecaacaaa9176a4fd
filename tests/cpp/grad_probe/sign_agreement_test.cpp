// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/sign_agreement.h"

#include <string>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/tensor_file.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

using test::TempDir;
using test::write_bytes;

std::string file_of(std::vector<std::int64_t> shape, const std::string& bytes, bool fortran_order = false) {
  return io::npy_header(DType::kBool, fortran_order, shape) + bytes;
}

std::string random_bytes(std::int64_t count, unsigned seed) {
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    bytes += static_cast<char>(seed >> 31);
  }
  return bytes;
}

std::int64_t equal_by_hand(const std::string& a, const std::string& b, std::size_t begin, std::size_t end) {
  std::int64_t equal = 0;
  for (std::size_t i = begin; i < end; ++i) equal += (a[i] != 0) == (b[i] != 0);
  return equal;
}

DirectionPair pair_in(const TempDir& dir) {
  return {signs_of_npy(dir / "a.npy"), signs_of_npy(dir / "b.npy")};
}

std::int64_t count_equal(const TempDir& dir) {
  SignBuffers buffers;
  return pair_in(dir).count_equal(buffers, [] {});
}

TEST_CASE("DirectionPair: counts equal elements for any size") {
  const TempDir dir;
  // Around a vector, around 255 rows of vectors and around the chunks of 256 KiB.
  for (const std::int64_t count :
       {0, 1, 15, 16, 17, 4079, 4080, 4081, 262015, 262016, 262017, 262144, 600000}) {
    const std::string a = random_bytes(count, 1);
    const std::string b = random_bytes(count, 2);
    write_bytes(dir / "a.npy", file_of({count}, a));
    write_bytes(dir / "b.npy", file_of({count}, b));
    CHECK(count_equal(dir) == equal_by_hand(a, b, 0, a.size()));
    SignBuffers buffers;
    const DirectionPair pair = pair_in(dir);
    CHECK(pair.count() == count);
    CHECK(pair.count_equal(count / 3, count, buffers, [] {}) ==
          equal_by_hand(a, b, static_cast<std::size_t>(count) / 3, a.size()));
  }
}

TEST_CASE("DirectionPair: everything different and everything equal") {
  const TempDir dir;
  constexpr std::int64_t kCount = 300000;
  write_bytes(dir / "a.npy", file_of({kCount}, std::string(kCount, '\0')));
  write_bytes(dir / "b.npy", file_of({kCount}, std::string(kCount, '\1')));
  CHECK(count_equal(dir) == 0);
  write_bytes(dir / "b.npy", file_of({kCount}, std::string(kCount, '\0')));
  CHECK(count_equal(dir) == kCount);
}

TEST_CASE("DirectionPair: every byte other than 0 counts as true") {
  const TempDir dir;
  std::string a(256, '\1');
  std::string b;
  for (int i = 0; i < 256; ++i) b += static_cast<char>(i);
  write_bytes(dir / "a.npy", file_of({256}, a));
  write_bytes(dir / "b.npy", file_of({256}, b));
  CHECK(count_equal(dir) == 255);
}

TEST_CASE("DirectionPair: headers of different length compare the same elements") {
  const TempDir dir;
  const std::string bytes = random_bytes(500000, 3);
  std::string header = "{'descr': '|b1', 'fortran_order': False, 'shape': (500000,), }\n";
  std::string other("\x93NUMPY\x01\x00", 8);
  other += {static_cast<char>(header.size()), '\0'};
  write_bytes(dir / "a.npy", file_of({500000}, bytes));
  write_bytes(dir / "b.npy", other + header + bytes);
  CHECK(count_equal(dir) == 500000);
}

// The bytes of C order in column-major order.
std::string to_fortran(const std::string& bytes, std::size_t n0, std::size_t n1, std::size_t n2) {
  std::string result(bytes.size(), '\0');
  for (std::size_t i = 0; i < n0; ++i) {
    for (std::size_t j = 0; j < n1; ++j) {
      for (std::size_t k = 0; k < n2; ++k) result[(k * n1 + j) * n0 + i] = bytes[(i * n1 + j) * n2 + k];
    }
  }
  return result;
}

TEST_CASE("DirectionPair: files of different order compare logical elements") {
  const TempDir dir;
  const std::string a = random_bytes(61 * 73 * 89, 4);
  const std::string b = random_bytes(61 * 73 * 89, 5);
  const std::vector<std::int64_t> shape{61, 73, 89};
  const std::int64_t expected = equal_by_hand(a, b, 0, a.size());
  REQUIRE(expected != equal_by_hand(a, to_fortran(b, 61, 73, 89), 0, a.size()));
  write_bytes(dir / "a.npy", file_of(shape, a));
  write_bytes(dir / "b.npy", file_of(shape, to_fortran(b, 61, 73, 89), true));
  CHECK(count_equal(dir) == expected);
  write_bytes(dir / "a.npy", file_of(shape, to_fortran(a, 61, 73, 89), true));
  CHECK(count_equal(dir) == expected);
  write_bytes(dir / "b.npy", file_of(shape, b));
  CHECK(count_equal(dir) == expected);
}

TEST_CASE("DirectionPair: the order does not matter with at most one extent above 1") {
  const TempDir dir;
  SignBuffers buffers;
  const std::string bytes = random_bytes(50, 6);
  write_bytes(dir / "a.npy", file_of({1, 50, 1}, bytes));
  write_bytes(dir / "b.npy", file_of({1, 50, 1}, bytes, true));
  const DirectionPair pair = pair_in(dir);
  CHECK(pair.same_order());
  CHECK(pair.count_equal(buffers, [] {}) == 50);
  write_bytes(dir / "a.npy", file_of({}, "\1"));
  write_bytes(dir / "b.npy", file_of({}, "\1", true));
  CHECK(count_equal(dir) == 1);
}

TEST_CASE("DirectionPair: other shapes, other dtypes and damaged files are told apart") {
  const TempDir dir;
  const auto open = [&] { pair_in(dir); };
  write_bytes(dir / "a.npy", file_of({2, 3}, "\1\1\1\1\1\1"));
  write_bytes(dir / "b.npy", file_of({6}, "\1\1\1\1\1\1"));
  CHECK_THROWS_WITH(open(), "tensor shape is not equal: [2, 3], [6]");
  const std::vector<std::int64_t> shape{2, 3};
  write_bytes(dir / "b.npy", io::npy_header(DType::kUInt8, false, shape) + "\1\1\1\1\1\1");
  CHECK_THROWS_WITH(open(), "tensor type is not bool: " + (dir / "b.npy").string());
  write_bytes(dir / "b.npy", file_of({2, 3}, "\1\1\1\1\1"));
  CHECK_THROWS_AS(open(), FormatError);
  std::filesystem::remove(dir / "b.npy");
  CHECK_THROWS_AS(open(), IoError);
}

TEST_CASE("DirectionPair: pause() is called while a large file is read and may stop it") {
  const TempDir dir;
  SignBuffers buffers;
  constexpr std::int64_t kCount = 2 << 20;
  write_bytes(dir / "a.npy", file_of({kCount}, std::string(kCount, '\1')));
  const DirectionPair pair(signs_of_npy(dir / "a.npy"), signs_of_npy(dir / "a.npy"));
  int pauses = 0;
  CHECK_THROWS_AS(pair.count_equal(buffers,
                                   [&] {
                                     if (++pauses == 3) throw InvalidArgument("stop");
                                   }),
                  InvalidArgument);
  CHECK(pauses == 3);
}

}  // namespace
}  // namespace msprobe::grad_probe
