// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "catch.h"
#include "msprobe/ckpt_file.h"
#include "msprobe/error.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::TempDir;
using test::write_bytes;

std::string bytes_field(char number, const std::string& content) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
}

// Its lengths are below 128, so each is one byte.
std::string ckpt_parameter(const std::string& name, const std::string& shape, const std::string& dtype,
                           const std::string& data) {
  std::string tensor;
  for (const char extent : shape) tensor += std::string("\x08") + extent;
  tensor += bytes_field(2, dtype) + bytes_field(3, data);
  return bytes_field(1, bytes_field(1, name) + bytes_field(2, tensor));
}

TEST_CASE("CkptFile: parameters in the order of the file, those in parts put together, no texts") {
  const TempDir dir;
  write_bytes(dir / "x.ckpt", ckpt_parameter("a", "\x03", "Int16", "012") +
                                  ckpt_parameter("a", "\x03", "Int16", "345") +
                                  ckpt_parameter("author", "\x01", "str", "x") +
                                  ckpt_parameter("b", std::string(1, '\0'), "BFloat16", "xy") +
                                  ckpt_parameter("odd", "\x02", "Int4", "x"));
  const CkptFile file = CkptFile::open(dir / "x.ckpt");
  const auto tensors = file.tensors();
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].dtype == DType::kInt16);
  CHECK(std::string(tensors[0].data.begin(), tensors[0].data.end()) == "012345");
  CHECK(tensors[1].shape.empty());
  CHECK(tensors[1].dtype == DType::kBFloat16);
  CHECK_FALSE(tensors[2].dtype);
  CHECK(tensors[2].dtype_name == "Int4");
}

TEST_CASE("CkptFile: what does not fit is refused") {
  const TempDir dir;
  const auto refusal = [&](const std::string& content) {
    write_bytes(dir / "x.ckpt", content);
    try {
      CkptFile::open(dir / "x.ckpt");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal(""), Contains("found none"));
  CHECK_THAT(refusal(ckpt_parameter("a", "\x02", "Int8", "0")), Contains("\"a\": its data has 1 bytes"));
  CHECK_THAT(refusal("\x0A\x7F"), Contains("byte 2").operator&&(Contains("127 bytes where 0 are left")));
  CHECK_THAT(refusal("\x12\x01x"), Contains("found field 2"));
  CHECK_THAT(refusal(ckpt_parameter("a", "\x01", "Int8", "0") + "crc_num0123456789"),
             Contains("\"crc_num\": the content has the checksum"));
}

}  // namespace
}  // namespace msprobe::io
