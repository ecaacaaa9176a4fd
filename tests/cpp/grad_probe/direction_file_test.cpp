// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/direction_file.h"

#include <set>

#include "catch.h"
#include "msprobe/tensor_file.h"
#include "temp_dir.h"

namespace msprobe::grad_probe {
namespace {

using test::TempDir;

TEST_CASE("direction_file_name: ordinary names stay as they are") {
  CHECK(direction_file_name("blocks.0.weight") == "blocks.0.weight.npy");
  CHECK(direction_file_name("0.10") == "0.10.npy");
  CHECK(direction_file_name("a:b c\xC3\xBC") == "a:b c\xC3\xBC.npy");
  CHECK(direction_file_name("") == ".npy");
}

TEST_CASE("direction_file_name: what cannot stand in a file name is escaped and cannot leave the directory") {
  CHECK(direction_file_name("a/b") == "a%2Fb.npy");
  CHECK(direction_file_name("../../etc/passwd") == "..%2F..%2Fetc%2Fpasswd.npy");
  CHECK(direction_file_name("..") == "...npy");
  CHECK(direction_file_name("100%") == "100%25.npy");
  CHECK(direction_file_name(std::string("a\0b\n\x7F", 5)) == "a%00b%0A%7F.npy");
}

TEST_CASE("direction_file_name: no two names share a file") {
  const std::string prefix(251, 'x');
  const std::set<std::string> files{direction_file_name("a/b"),        direction_file_name("a%2Fb"),
                                    direction_file_name("a%252Fb"),    direction_file_name(prefix),
                                    direction_file_name(prefix + "y"), direction_file_name(prefix + "z"),
                                    direction_file_name(prefix + "/")};
  CHECK(files.size() == 7);
}

TEST_CASE("direction_file_name: long names are cut to 255 bytes at a character and get a hash") {
  CHECK(direction_file_name(std::string(251, 'x')) == std::string(251, 'x') + ".npy");
  const std::string cut = direction_file_name(std::string(252, 'x'));
  CHECK(cut.size() == 255);
  CHECK(cut.substr(0, 235) == std::string(233, 'x') + "%~");

  std::string umlauts;
  for (int i = 0; i < 200; ++i) umlauts += "\xC3\xBC";
  const std::string name = direction_file_name("x" + umlauts);
  CHECK(name.size() <= 255);
  const std::string kept = name.substr(1, name.find("%~") - 1);
  CHECK(kept.size() % 2 == 0);
  CHECK(kept == umlauts.substr(0, kept.size()));
}

Measurement measurement_of(std::vector<std::int64_t> shape, bool fortran_order) {
  Measurement m;
  m.name = "w";
  m.shape = std::move(shape);
  m.fortran_order = fortran_order;
  m.summary.count = 1;
  for (const std::int64_t extent : m.shape) m.summary.count *= extent;
  m.signs.resize(stats::sign_bytes(m.summary.count));
  for (std::int64_t i = 0; i < m.summary.count; ++i) {
    if (i * i % 7 < 3) m.signs[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>(1U << i % 8);
  }
  return m;
}

TEST_CASE("write_direction_file: one byte per element after NumPy's header, for any size") {
  const TempDir dir;
  std::vector<std::uint8_t> buffer;
  // Around the chunk of 256 KiB, and numbers that do not fill the last byte of bits.
  for (const std::int64_t count : {0, 1, 7, 8, 9, 262143, 262144, 262145, 600001}) {
    const Measurement m = measurement_of({count}, false);
    write_direction_file(dir / "w.npy", m, buffer);
    const std::string file = test::read_bytes(dir / "w.npy");
    std::string expected = io::npy_header(DType::kBool, false, m.shape);
    for (std::int64_t i = 0; i < count; ++i) expected += static_cast<char>(i * i % 7 < 3);
    CHECK(file.size() == expected.size());
    CHECK((file == expected));
  }
}

TEST_CASE("write_direction_file: the order goes into the header, the bits stay as they are") {
  const TempDir dir;
  std::vector<std::uint8_t> buffer;
  const Measurement m = measurement_of({3, 5}, true);
  write_direction_file(dir / "w.npy", m, buffer);
  const io::NpyHeader header = io::read_npy_header(dir / "w.npy");
  CHECK(header.fortran_order);
  CHECK(header.shape == m.shape);
  CHECK(header.data_offset == 128);
}

}  // namespace
}  // namespace msprobe::grad_probe
