// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/packed_step.h"

#include <array>
#include <limits>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::read_bytes;
using test::TempDir;
using test::write_bytes;

using Files = std::vector<std::pair<std::string, std::string>>;

const std::string kLong(100000, 'a');
const Files kFiles{{"dump.json", kLong + "{}"}, {"summary.json", "{}"}, {"empty.json", ""}};

std::string text_of(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  return text;
}

TEST_CASE("packed step: its files are read by their own paths") {
  const TempDir folder;
  write_packed_step(folder.path(), kFiles);
  CHECK(test::entries_below(folder.path()) == std::vector<std::string>{"step.zip"});
  CHECK(std::filesystem::file_size(folder / "step.zip") < 2000);
  for (const auto& [name, content] : kFiles) {
    CHECK(is_there(folder / name));
    CHECK(text_of(folder / name) == content);
  }
  CHECK_FALSE(is_there(folder / "stack.json"));
  CHECK_FALSE(read_packed(folder / "stack.json"));
  CHECK_THROWS_AS(InputFile(folder / "stack.json"), IoError);
}

TEST_CASE("packed step: a file beside it stands before the one in it") {
  const TempDir folder;
  write_packed_step(folder.path(), kFiles);
  write_bytes(folder / "summary.json", "[]");
  CHECK(text_of(folder / "summary.json") == "[]");
}

TEST_CASE("packed step: a part of a file, and what lies behind its end") {
  const TempDir folder;
  write_packed_step(folder.path(), kFiles);
  const InputFile file(folder / "dump.json");
  std::array<std::uint8_t, 4> bytes{};
  file.read(kLong.size() - 2, bytes);
  CHECK(std::string(bytes.begin(), bytes.end()) == "aa{}");
  CHECK_THROWS_AS(file.read(kLong.size(), bytes), FormatError);
  CHECK_THROWS_AS(file.read(std::numeric_limits<std::uint64_t>::max(), bytes), FormatError);
}

TEST_CASE("packed step: one that is cut anywhere is said to be, and never half read") {
  const TempDir folder;
  write_packed_step(folder.path(), kFiles);
  const std::string whole = read_bytes(folder / "step.zip");
  for (std::size_t length = 0; length < whole.size(); length += 37) {
    write_bytes(folder / "step.zip", whole.substr(0, length));
    CHECK(is_there(folder / "dump.json"));
    CHECK_THROWS_AS(read_packed(folder / "dump.json"), FormatError);
  }
}

TEST_CASE("packed step: a byte that was changed is noticed") {
  const TempDir folder;
  write_packed_step(folder.path(), kFiles);
  const std::string whole = read_bytes(folder / "step.zip");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    write_bytes(folder / "step.zip", changed);
    try {
      const auto found = read_packed(folder / "dump.json");
      CHECK((!found || *found == kFiles[0].second));
    } catch (const FormatError&) {
      SUCCEED();
    }
  }
}

TEST_CASE("packed step: its files are written elsewhere, and a name that leads elsewhere is not") {
  const TempDir folder;
  write_packed_step(folder.path(), kFiles);
  const auto names = unpack_step(folder / "step.zip", folder / "out/deep");
  CHECK(names == std::vector<std::string>{"dump.json", "empty.json", "summary.json"});
  for (const auto& [name, content] : kFiles) CHECK(read_bytes(folder / ("out/deep/" + name)) == content);
  write_packed_step(folder.path(), Files{{"a.json", "{}"}, {"../b.json", "{}"}});
  CHECK_THROWS_AS(unpack_step(folder / "step.zip", folder / "other"), FormatError);
  CHECK_FALSE(std::filesystem::exists(folder / "other"));
}

}  // namespace
}  // namespace msprobe::io
