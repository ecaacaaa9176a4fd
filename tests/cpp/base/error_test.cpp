// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/error.h"

#include <cerrno>

#include "catch.h"

using namespace msprobe;

TEST_CASE("FormatError: says the file, the place and the problem") {
  const FormatError e("a/b.npy", "byte 10", "expected a dictionary");
  CHECK(std::string(e.what()) == "a/b.npy: byte 10: expected a dictionary");
  CHECK(e.path() == "a/b.npy");
  CHECK(std::string(FormatError("x", "", "is empty").what()) == "x: is empty");
}

TEST_CASE("IoError: says what was tried and what the system answered") {
  const IoError e("cannot write", "out/x", ENOSPC);
  CHECK(std::string(e.what()) == "cannot write out/x: No space left on device");
  CHECK(e.error_number() == ENOSPC);
}

TEST_CASE("all errors are msprobe::Error") {
  CHECK_THROWS_AS(throw InvalidArgument("x"), Error);
  CHECK_THROWS_AS(throw UnsupportedError("x"), Error);
  CHECK_THROWS_AS(throw InternalError("x"), Error);
}
