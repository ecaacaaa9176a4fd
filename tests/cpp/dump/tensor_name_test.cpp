// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "dump/tensor_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "catch.h"
#include "msprobe/error.h"
#include "temp_dir.h"

using namespace msprobe::dump;

TEST_CASE("tensor names: record, position and ending") {
  CHECK(tensor_file_name("Functional.linear.0.forward", "input.0", ".pt") ==
        "Functional.linear.0.forward.input.0.pt");
  CHECK(tensor_file_name("Module.h.Head.forward.0", "output.0.aux.1", ".npy") ==
        "Module.h.Head.forward.0.output.0.aux.1.npy");
}

TEST_CASE("tensor names: none leads out of its folder") {
  CHECK(tensor_file_name("../../etc/passwd", "input.0", ".pt") == "_._.._etc_passwd.input.0.pt");
  CHECK(tensor_file_name("/root", "input.0", ".pt") == "_root.input.0.pt");
  CHECK(tensor_file_name("..", "", ".pt") == "_..pt");
  CHECK(tensor_file_name(std::string_view("a\0b", 3), "c", ".pt") == "a_b.c.pt");
}

TEST_CASE("tensor names: a long one is cut to what file systems take, and stays unique") {
  const std::string common(300, 'n');
  const std::string one = tensor_file_name(common + "1", "input.0", ".pt");
  const std::string other = tensor_file_name(common + "2", "input.0", ".pt");
  CHECK(one.size() == 255);
  CHECK(one.ends_with(".pt"));
  CHECK(one != other);
  CHECK(one == tensor_file_name(common + "1", "input.0", ".pt"));
  CHECK(tensor_file_name(std::string(244, 'n'), "input.0", ".pt").size() == 255);
  CHECK(tensor_file_name(std::string(244, 'n'), "input.0", ".pt")
            .starts_with(std::string(244, 'n') + ".input.0"));
}

TEST_CASE("faults: entries are appended one after the other, with the record and the reason") {
  const msprobe::test::TempDir folder;
  append_fault(folder / "errors.log", "Torch.add.0.forward", "nothing to read");
  append_fault(folder / "errors.log", "Torch.add.1.forward", "two\nlines");
  const std::string text = msprobe::test::read_bytes(folder / "errors.log");
  const std::string pid = ", pid=" + std::to_string(::getpid()) + "\n";
  const std::size_t first =
      text.find("] [ERROR] recording failed: name=Torch.add.0.forward" + pid + "nothing to read\n\n");
  const std::size_t second =
      text.find("] [ERROR] recording failed: name=Torch.add.1.forward" + pid + "two\nlines\n\n");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  CHECK(first < second);
  CHECK(text.starts_with("[20"));
  CHECK(text.substr(first - 5, 5) == "+0800");
}

TEST_CASE("faults: a folder that is gone is an error") {
  CHECK_THROWS_AS(append_fault("/nonexistent/errors.log", "a", "b"), msprobe::IoError);
}

TEST_CASE("faults: neither a link nor a pipe is written to") {
  const msprobe::test::TempDir folder;
  msprobe::test::write_bytes(folder / "elsewhere", "kept");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "link");
  CHECK_THROWS_AS(append_fault(folder / "link", "a", "b"), msprobe::IoError);
  CHECK(msprobe::test::read_bytes(folder / "elsewhere") == "kept");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(append_fault(folder / "pipe", "a", "b"), msprobe::IoError);  // does not wait for a reader
}
