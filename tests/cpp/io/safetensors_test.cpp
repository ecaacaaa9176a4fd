// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/safetensors.h"

#include <string>

#include "catch.h"
#include "io/zip/zip_format.h"
#include "msprobe/error.h"
#include "temp_dir.h"

namespace msprobe::io {
namespace {

using test::TempDir;
using test::write_bytes;

std::string file_of(const std::string& header, const std::string& data) {
  std::string file;
  zip::put(file, static_cast<std::uint64_t>(header.size()));
  return file + header + data;
}

TEST_CASE("SafetensorsFile: tensors in the order of their data") {
  const TempDir dir;
  write_bytes(dir / "x.safetensors", file_of(R"({"__metadata__": {"format": "pt"},
                          "b": {"dtype": "BF16", "shape": [3], "data_offsets": [4, 10]},
                          "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
                          "none": {"dtype": "F8_E4M3", "shape": [0, 5], "data_offsets": [10, 10]},
                          "odd": {"dtype": "F4", "shape": [4], "data_offsets": [10, 12]}})",
                                             "0123456789ab"));
  const SafetensorsFile file = SafetensorsFile::open(dir / "x.safetensors");
  const auto tensors = file.tensors();
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].shape.empty());
  CHECK(tensors[0].dtype == DType::kFloat32);
  CHECK(tensors[1].name == "b");
  CHECK(tensors[1].dtype == DType::kBFloat16);
  CHECK(tensors[1].data.front() == '4');
  CHECK(tensors[1].data.size() == 6);
  CHECK(tensors[2].data.empty());
  CHECK_FALSE(tensors[3].dtype);
  CHECK(tensors[3].dtype_name == "F4");
  CHECK(file.metadata().at("format") == "pt");
}

TEST_CASE("SafetensorsFile: what does not fit is refused") {
  const TempDir dir;
  const auto refusal = [&](const std::string& header, const std::string& data) {
    write_bytes(dir / "x.safetensors", file_of(header, data));
    try {
      SafetensorsFile::open(dir / "x.safetensors");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using Catch::Matchers::Contains;
  CHECK(refusal("{}", "") == "accepted");
  CHECK_THAT(refusal("{}", "x"), Contains("the data of all tensors has 0 bytes, found 1"));
  CHECK_THAT(refusal(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", "0123"),
             Contains("\"a\": its data has 4 bytes, which is not what its shape and dtype need"));
  CHECK_THAT(refusal(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})", "012"),
             Contains("begins at 1, but that before ends at 0"));
  CHECK_THAT(refusal(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})", "0"),
             Contains("out of the file"));
  CHECK_THAT(refusal(R"({"a": 1})", ""), Contains("\"a\": found a number, expected an object with dtype"));
  CHECK_THAT(refusal(R"({"a": {}, "a": {}})", ""), Contains("\"a\": the key stands twice in one object"));
  CHECK_THAT(refusal(R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", "0123"),
             Contains("\"a\": \"shape\": expected integers from 0 to 2^63-1, found -1"));
  CHECK_THAT(
      refusal(R"({"a": {"dtype": "F32", "shape": [9223372036854775808], "data_offsets": [0, 4]}})", "0123"),
      Contains("\"shape\": expected integers from 0"));
  CHECK_THAT(refusal(R"({"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}})", "0123"),
             Contains("\"shape\": expected a list, found a number"));
  CHECK_THAT(refusal(R"({"a": {"dtype": 1, "shape": [1], "data_offsets": [0, 4]}})", "0123"),
             Contains("\"dtype\": expected text, found a number"));
  CHECK_THAT(refusal(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "b": 1}})", "0123"),
             Contains("found the key \"b\""));
  CHECK_THAT(refusal(R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", "0123"),
             Contains("expected dtype, shape and two data_offsets"));
  CHECK_THAT(refusal(R"({"__metadata__": {"a": 1}})", ""), Contains("expected text, found a number"));
  CHECK_THAT(refusal("[]", ""), Contains("found a list, expected an object"));
  CHECK_THAT(refusal("{", ""), Contains("line 1, column 2: expected JSON"));
  CHECK_THROWS_AS(SafetensorsFile::open(dir.path()), IoError);
}

}  // namespace
}  // namespace msprobe::io
