// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file/file_name.h"

#include <set>
#include <string>

#include "catch.h"

using msprobe::io::file_name_of;

TEST_CASE("a name of plain characters stays as it is") {
  CHECK(file_name_of("layer.0.weight", ".npy") == "layer.0.weight.npy");
  CHECK(file_name_of("a b:c\\ü") == "a b:c\\ü");
}

TEST_CASE("what leads elsewhere or breaks a line is written in hexadecimal") {
  CHECK(file_name_of("a/b", ".npy") == "a%2Fb.npy");
  CHECK(file_name_of("100%") == "100%25");
  CHECK(file_name_of(std::string("a\n\0b\x7F", 5)) == "a%0A%00b%7F");
  CHECK(file_name_of(".") == "%2E");
  CHECK(file_name_of("..") == "%2E%2E");
  CHECK(file_name_of("..", ".npy") == "...npy");
  CHECK(file_name_of("") == "%");
}

TEST_CASE("different names have different files, however long") {
  std::set<std::string> names;
  for (const char last : {'a', 'b', '/'}) {
    for (const std::size_t length : {10U, 255U, 256U, 4000U}) {
      std::string name(length, 'x');
      name.back() = last;
      names.insert(file_name_of(name, ".npy"));
      CHECK(file_name_of(name, ".npy").size() <= 255);
    }
  }
  CHECK(names.size() == 12);
}

TEST_CASE("a long name is not cut inside of a character") {
  std::string name;
  for (int i = 0; i < 200; ++i) name += "ü";
  const std::string file = file_name_of(name);
  CHECK(file.size() <= 255);
  CHECK(file.substr(0, file.find('%')).size() % 2 == 0);
}
