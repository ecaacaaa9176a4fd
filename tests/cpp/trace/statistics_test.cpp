// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/stats.h"
#include "msprobe/trace.h"

using namespace msprobe;
using trace::measure;
using trace::Statistics;
using Form = trace::Statistics::Form;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
Statistics measured(DType dtype, const std::vector<T>& values, std::vector<std::int64_t> shape,
                    bool checksum = false) {
  return measure({values.data(), dtype, shape, {}}, {.checksum = checksum});
}

template <typename T>
Statistics measured(DType dtype, const std::vector<T>& values, bool checksum = false) {
  return measured(dtype, values, {static_cast<std::int64_t>(values.size())}, checksum);
}

std::string hexadecimal(std::optional<std::uint32_t> checksum) {
  if (!checksum) return "none";
  char text[9];
  std::snprintf(text, sizeof text, "%08x", *checksum);
  return text;
}

}  // namespace

TEST_CASE("statistics: float32 as it is") {
  const Statistics s = measured<float>(DType::kFloat32, {3, -4, 0, 12});
  CHECK(s.form == Form::kFloats);
  CHECK(s.max == 12);
  CHECK(s.min == -4);
  CHECK(s.mean == 2.75);
  CHECK(s.norm == 13);
  CHECK_FALSE(s.checksum);
}

TEST_CASE("statistics: float64 and integers are rounded to float32") {
  const Statistics f64 = measured<double>(DType::kFloat64, {0.1, 0.1});
  CHECK(f64.form == Form::kFloats);
  CHECK(f64.max == 0.10000000149011612);
  CHECK(measured<double>(DType::kFloat64, {1e300, 0}).max == kInf);

  const Statistics i64 = measured<std::int64_t>(DType::kInt64, {(1 << 24) + 1, 0});
  CHECK(i64.form == Form::kFloats);
  CHECK(i64.max == 16777216);
  CHECK(measured<std::int64_t>(DType::kInt64, {std::int64_t{1} << 40, 1}).max == 1099511627776.0);
  CHECK(measured<std::int32_t>(DType::kInt32, {-5, 3}).min == -5);
  CHECK(measured<std::int16_t>(DType::kInt16, {-5, 3}).mean == -1);
  CHECK(measured<std::int8_t>(DType::kInt8, {-128, 3}).min == -128);
  CHECK(measured<std::uint8_t>(DType::kUInt8, {255, 0}).max == 255);
  CHECK(measured<std::uint16_t>(DType::kUInt16, {65535, 0}).max == 65535);
  CHECK(measured<std::uint32_t>(DType::kUInt32, {4294967295U, 0}).max == 4294967296.0);
  CHECK(measured<std::uint64_t>(DType::kUInt64, {std::uint64_t{1} << 63, 0}).max == 9223372036854775808.0);
}

TEST_CASE("statistics: half types round in their own dtype, and overflow there") {
  // float16: 0x7bff 65504, 0x3c00 1, 0x0001 the least subnormal; bfloat16: 0x3f80 1, 0x3f81 1.0078125.
  const Statistics large = measured<std::uint16_t>(DType::kFloat16, {0x7bff, 0x7bff});
  CHECK(large.max == 65504);
  CHECK(large.mean == 65504);
  CHECK(large.norm == kInf);
  const Statistics thirds = measured<std::uint16_t>(DType::kFloat16, {0x3c00, 0, 0});
  CHECK(thirds.mean == 0.333251953125);  // the float16 next to 1/3
  const Statistics small = measured<std::uint16_t>(DType::kFloat16, {0x0001, 0x0001, 0});
  CHECK(small.mean == std::ldexp(1.0, -24));  // 2/3 of the least subnormal rounds up to it
  const Statistics brain = measured<std::uint16_t>(DType::kBFloat16, {0x3f80, 0x3f81});
  CHECK(brain.max == 1.0078125);
  CHECK(brain.mean == 1.0);  // 1.00390625 lies between two bfloat16, the even one wins
  CHECK(measured<std::uint16_t>(DType::kBFloat16, {0x7f7f, 0x7f7f}).norm == kInf);
}

TEST_CASE("statistics: bool has any and all, and nothing else") {
  const Statistics mixed = measured<std::uint8_t>(DType::kBool, {0, 1, 0});
  CHECK(mixed.form == Form::kBool);
  CHECK(mixed.max == 1);
  CHECK(mixed.min == 0);
  CHECK(measured<std::uint8_t>(DType::kBool, {1, 1}).min == 1);
  CHECK(measured<std::uint8_t>(DType::kBool, {0, 0}).max == 0);
  CHECK(measured<std::uint8_t>(DType::kBool, {1}, std::vector<std::int64_t>{}).form == Form::kBool);
}

TEST_CASE("statistics: a 0-d tensor is its value, four times") {
  const Statistics f32 = measured<float>(DType::kFloat32, {-1.5}, std::vector<std::int64_t>{});
  CHECK(f32.form == Form::kFloats);
  CHECK(f32.max == -1.5);
  CHECK(f32.norm == -1.5);  // with its sign
  const Statistics f64 = measured<double>(DType::kFloat64, {0.1}, std::vector<std::int64_t>{});
  CHECK(f64.form == Form::kDoubles);
  CHECK(f64.norm == 0.1);
  const Statistics i64 =
      measured<std::int64_t>(DType::kInt64, {(std::int64_t{1} << 60) + 1}, std::vector<std::int64_t>{});
  CHECK(i64.form == Form::kInteger);
  CHECK(i64.integer == (std::int64_t{1} << 60) + 1);
  CHECK(measured<std::int8_t>(DType::kInt8, {-3}, std::vector<std::int64_t>{}).integer == -3);
  CHECK(measured<std::uint8_t>(DType::kUInt8, {200}, std::vector<std::int64_t>{}).integer == 200);
  CHECK(measured<std::uint32_t>(DType::kUInt32, {4294967295U}, std::vector<std::int64_t>{}).integer ==
        4294967295);
  const Statistics u64 =
      measured<std::uint64_t>(DType::kUInt64, {std::uint64_t{1} << 63}, std::vector<std::int64_t>{});
  CHECK(u64.form == Form::kUnsigned);
  CHECK(static_cast<std::uint64_t>(u64.integer) == std::uint64_t{1} << 63);
}

TEST_CASE("statistics: complex numbers by their absolute values, in the precision of the parts") {
  const Statistics c64 = measured<std::complex<float>>(DType::kComplex64, {{3, 4}, {0, -1}});
  CHECK(c64.form == Form::kNoNorm);
  CHECK(c64.max == 5);
  CHECK(c64.min == 1);
  CHECK(c64.mean == 3);
  const Statistics c128 = measured<std::complex<double>>(DType::kComplex128, {{0.1, 0}});
  CHECK(c128.max == 0.1);
  CHECK(measured<std::complex<float>>(DType::kComplex64, {{0.1F, 0}}).max == 0.10000000149011612);
  const Statistics nan = measured<std::complex<float>>(
      DType::kComplex64, {{1, std::numeric_limits<float>::quiet_NaN()}, {1, 0}});
  CHECK(std::isnan(nan.max));
  CHECK(std::isnan(nan.mean));
  CHECK(nan.nan_count == 1);
  CHECK(measured<std::complex<float>>(DType::kComplex64, {{1, 1}}, std::vector<std::int64_t>{}).form ==
        Form::kNoNorm);
  CHECK(measured<std::uint32_t>(DType::kComplex32, {0x3c003c00}).form == Form::kNone);
}

TEST_CASE("statistics: complex numbers behind strides") {
  const std::vector<std::complex<float>> values{{1, 0}, {9, 0}, {2, 0}, {9, 0}};
  const std::int64_t shape[] = {2};
  const std::int64_t strides[] = {2};
  const Statistics s = measure({values.data(), DType::kComplex64, shape, strides}, {});
  CHECK(s.max == 2);
  CHECK(s.mean == 1.5);
  const std::int64_t turned[] = {-2};
  CHECK(measure({values.data() + 2, DType::kComplex64, shape, turned}, {}).mean == 1.5);
}

TEST_CASE("statistics: an empty tensor has none, and its checksum is 0") {
  const std::vector<std::int64_t> shape{2, 0};
  for (const DType dtype :
       {DType::kFloat32, DType::kInt64, DType::kBool, DType::kComplex64, DType::kFloat8E5M2}) {
    const Statistics s = measure({nullptr, dtype, shape, {}}, {.checksum = true});
    CHECK(s.form == Form::kNone);
    CHECK(hexadecimal(s.checksum) == "00000000");
  }
}

TEST_CASE("statistics: fp8 goes by its values in float32") {
  const Statistics e5m2 = measured<std::uint8_t>(DType::kFloat8E5M2, {0x3c, 0xc0});  // 1, -2
  CHECK(e5m2.form == Form::kFloats);
  CHECK(e5m2.max == 1);
  CHECK(e5m2.min == -2);
  CHECK(e5m2.mean == -0.5);
  CHECK(e5m2.norm == static_cast<float>(std::sqrt(5.0)));
  CHECK(measured<std::uint8_t>(DType::kFloat8E4M3FN, {0x38, 0x38}).mean == 1);
}

TEST_CASE("statistics: NaN makes all four NaN, infinities take part") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Statistics with_nan = measured<float>(DType::kFloat32, {1, nan, 2});
  CHECK(std::isnan(with_nan.max));
  CHECK(std::isnan(with_nan.min));
  CHECK(std::isnan(with_nan.mean));
  CHECK(std::isnan(with_nan.norm));
  CHECK(with_nan.nan_count == 1);
  const Statistics with_inf = measured<float>(DType::kFloat32, {1, std::numeric_limits<float>::infinity()});
  CHECK(with_inf.max == kInf);
  CHECK(with_inf.min == 1);
  CHECK(with_inf.mean == kInf);
  CHECK(with_inf.norm == kInf);
  CHECK(with_inf.inf_count == 1);
}

TEST_CASE("statistics: the checksum is the CRC-32 of the elements, of float32 ones for bfloat16 and fp8") {
  // Python: zlib.crc32(struct.pack("<2f", 1.0, -2.0)) and so on.
  const Statistics f32 = measured<float>(DType::kFloat32, {1, -2}, true);
  CHECK(hexadecimal(f32.checksum) == "c3872656");
  CHECK(measured<std::uint16_t>(DType::kBFloat16, {0x3f80, 0xc000}, true).checksum == f32.checksum);
  CHECK(measured<std::uint8_t>(DType::kFloat8E5M2, {0x3c, 0xc0}, true).checksum == f32.checksum);
  CHECK(hexadecimal(measured<std::uint16_t>(DType::kFloat16, {0x3c00, 0xc000}, true).checksum) == "97510158");
  CHECK(hexadecimal(measured<std::uint8_t>(DType::kBool, {1, 0}, true).checksum) == "58c223be");
  CHECK(hexadecimal(measured<std::complex<float>>(DType::kComplex64, {{1, -2}}, true).checksum) ==
        hexadecimal(f32.checksum));
}

TEST_CASE("statistics: strides do not change a checksum") {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const std::vector<float> transposed{1, 4, 2, 5, 3, 6};
  const std::int64_t shape[] = {3, 2};
  const std::int64_t strides[] = {1, 3};
  CHECK(measure({values.data(), DType::kFloat32, shape, strides}, {.checksum = true}).checksum ==
        measured<float>(DType::kFloat32, transposed, true).checksum);
}

TEST_CASE("statistics: a summary from a device gives the same numbers") {
  const std::vector<std::uint16_t> values{0x3c00, 0x0001, 0xc000};
  const std::int64_t shape[] = {3};
  const TensorView view{values.data(), DType::kFloat16, shape, {}};
  const Statistics here = measure(view, {});
  const Statistics there = trace::statistics_of(stats::summarize(view), DType::kFloat16);
  CHECK(here.max == there.max);
  CHECK(here.mean == there.mean);
  CHECK(here.norm == there.norm);
  CHECK(here.form == there.form);
}
