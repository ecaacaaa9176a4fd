// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/free_benchmark.h"
#include "temp_dir.h"

using namespace msprobe::perturb;
using msprobe::DType;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// float16 by its bits, exactly.
double half(std::uint16_t word) {
  const double sign = (word & 0x8000) != 0 ? -1 : 1;
  const int exponent = (word >> 10) & 31;
  const double mantissa = word & 0x3FF;
  if (exponent == 31) return mantissa != 0 ? kNaN : sign * static_cast<double>(kInf);
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

double bfloat(std::uint16_t word) { return std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16); }

Ratios of_floats(const std::vector<float>& original, const std::vector<float>& perturbed,
                 double floor = 1e-4) {
  return ratios(DType::kFloat32, original.data(), DType::kFloat32, perturbed.data(), original.size(), floor);
}

std::string text_of(const std::filesystem::path& path) { return msprobe::test::read_bytes(path); }

}  // namespace

TEST_CASE("perturb: names of modes go both ways") {
  for (const char* name :
       {"improve_precision", "add_noise", "bit_noise", "change_value", "no_change", "to_cpu"}) {
    REQUIRE(mode_named(name).has_value());
    CHECK(mode_name(*mode_named(name)) == name);
  }
  CHECK_FALSE(mode_named("").has_value());
}

TEST_CASE("perturb: noise is added where an element is larger than its root") {
  std::vector<float> x = {0.0F, 1e-4F, 2e-4F, -3e-4F, 1.0F, kInf, kNaN};
  std::vector<float> y(x.size());
  CHECK(add_noise(DType::kFloat32, x.data(), y.data(), x.size()) == static_cast<double>(kInf));
  CHECK(y[0] == 0.0F);
  CHECK(y[1] == 1e-4F);  // not above 1e-4
  CHECK(y[2] == 2e-4F + 1e-8F);
  CHECK(y[3] == -3e-4F + 1e-8F);
  CHECK(y[4] == 1.0F);  // the noise is below its rounding
  CHECK(y[5] == kInf);
  CHECK(std::isnan(y[6]));
}

TEST_CASE("perturb: noise of 16-bit floats is rounded to the nearest, for every number") {
  std::vector<std::uint16_t> all(0x10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const auto& [dtype, noise, value] :
       {std::tuple(DType::kFloat16, 1e-6, &half), std::tuple(DType::kBFloat16, 1e-4, &bfloat)}) {
    std::vector<std::uint16_t> changed(all.size());
    add_noise(dtype, all.data(), changed.data(), all.size());
    const double root = std::sqrt(noise);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double x = value(all[i]);
      const double y = value(changed[i]);
      if (std::isnan(x)) {
        REQUIRE(std::isnan(y));
        continue;
      }
      if (!(std::abs(x) > root)) {
        REQUIRE(y == x);
        continue;
      }
      // As float arithmetic has the sum, no representable number is nearer.
      const double sum = static_cast<float>(x) + static_cast<float>(noise);
      const double up = value(static_cast<std::uint16_t>(changed[i] + 1));
      const double down = value(static_cast<std::uint16_t>(changed[i] - 1));
      if (!std::isfinite(sum) || !std::isfinite(y)) continue;
      if (std::isfinite(up)) REQUIRE(std::abs(sum - y) <= std::abs(sum - up));
      if (std::isfinite(down)) REQUIRE(std::abs(sum - y) <= std::abs(sum - down));
    }
  }
}

TEST_CASE("perturb: the last bit is flipped above the smallest normal number") {
  const float smallest = std::numeric_limits<float>::min();
  std::vector<float> x = {1.5F, -2.0F, 0.0F, smallest, smallest * 2, smallest / 2, kNaN, -0.0F, kInf};
  std::vector<float> y(x.size());
  CHECK(flip_last_bits(DType::kFloat32, x.data(), y.data(), x.size()) == static_cast<double>(kInf));
  for (const std::size_t i : {0U, 1U, 4U}) CHECK(bits(y[i]) == (bits(x[i]) ^ 1U));
  for (const std::size_t i : {2U, 3U, 5U, 6U, 7U, 8U}) CHECK(bits(y[i]) == bits(x[i]));
  flip_last_bits(DType::kFloat32, y.data(), y.data(), y.size());
  CHECK(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
}

TEST_CASE("perturb: the last bit of 16-bit floats is flipped, for every number") {
  std::vector<std::uint16_t> all(0x10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const auto& [dtype, smallest, value] :
       {std::tuple(DType::kFloat16, 0x1p-14, &half), std::tuple(DType::kBFloat16, 0x1p-126, &bfloat)}) {
    std::vector<std::uint16_t> changed(all.size());
    flip_last_bits(dtype, all.data(), changed.data(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double size = std::abs(value(all[i]));
      const bool flips = std::isfinite(size) && size > smallest;
      REQUIRE(changed[i] == (all[i] ^ (flips ? 1 : 0)));
    }
  }
}

TEST_CASE("perturb: random units in the last place") {
  std::mt19937 random(1);
  std::vector<double> x(1000);
  for (double& value : x) value = std::normal_distribution<double>()(random);
  x[0] = 0.0;
  x[1] = std::numeric_limits<double>::infinity();
  x[2] = std::numeric_limits<double>::max();
  std::vector<double> y(x.size());
  add_random_ulps(DType::kFloat64, x.data(), y.data(), x.size(), 7);
  CHECK((y[0] == 0.0 && y[1] == x[1] && y[2] == x[2]));
  int up = 0;
  for (std::size_t i = 3; i < x.size(); ++i) {
    const bool is_up = std::abs(y[i]) > std::abs(x[i]);
    up += is_up ? 1 : 0;
    const double away = std::copysign(std::numeric_limits<double>::infinity(), x[i]);
    REQUIRE(y[i] == std::nextafter(x[i], is_up ? away : 0.0));
  }
  CHECK(up > 400);
  CHECK(up < 600);
  std::vector<double> pieces(x.size());
  add_random_ulps(DType::kFloat64, x.data(), pieces.data(), 400, 7);
  add_random_ulps(DType::kFloat64, x.data() + 400, pieces.data() + 400, 600, 7, 400);
  CHECK(pieces == y);
  std::vector<double> other(x.size());
  add_random_ulps(DType::kFloat64, x.data(), other.data(), x.size(), 8);
  CHECK(other != y);
}

TEST_CASE("perturb: other dtypes are refused") {
  std::int32_t number = 1;
  CHECK_THROWS_AS(add_noise(DType::kInt32, &number, &number, 1), msprobe::InvalidArgument);
  CHECK_THROWS_AS(flip_last_bits(DType::kFloat8E4M3FN, &number, &number, 1), msprobe::InvalidArgument);
  CHECK_THROWS_AS(ratios(DType::kFloat64, &number, DType::kFloat32, &number, 0, 0), msprobe::InvalidArgument);
}

TEST_CASE("ratios: of every length, what a plain loop gives") {
  std::mt19937 random(2);
  for (std::size_t count = 0; count < 70; ++count) {
    std::vector<float> a(count);
    std::vector<float> b(count);
    float largest = 1;
    float smallest = 1;
    float product = 0;
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = std::normal_distribution<float>()(random);
      b[i] = a[i] * std::normal_distribution<float>(1, 0.1F)(random);
      const float ratio = std::max(std::abs(a[i]), 1e-4F) / std::max(std::abs(b[i]), 1e-4F);
      largest = std::max(largest, ratio);
      smallest = std::min(smallest, ratio);
      product = std::min(product, a[i] * b[i]);
    }
    const Ratios found = of_floats(a, b);
    CHECK(found.largest == static_cast<double>(largest));
    CHECK(found.smallest == static_cast<double>(smallest));
    CHECK(found.least_product == static_cast<double>(product));
    CHECK(found.one_sided_nan == 0);
  }
}

TEST_CASE("ratios: NaN counts as 1 and is told of when it is on one side; Inf is the largest number") {
  const Ratios found = of_floats({kNaN, 1, kNaN, 2, kInf, kInf}, {1, kNaN, kNaN, 2, kInf, 1});
  CHECK(found.one_sided_nan == 2);
  CHECK(found.largest == static_cast<double>(std::numeric_limits<float>::max()));
  CHECK(found.smallest == 1);
  CHECK(of_floats({1}, {kInf}).smallest == 0);
  CHECK(std::isinf(of_floats({1}, {kInf}).either_way()));
}

TEST_CASE("ratios: float16 divides in float16") {
  const std::uint16_t one = 0x3C00;    // 1
  const std::uint16_t three = 0x4200;  // 3
  const Ratios found = ratios(DType::kFloat16, &one, DType::kFloat16, &three, 1, 1e-3);
  CHECK(found.smallest == 1365.0 / 4096);  // 1/3 in 11 bits
  const float in_float = 3;
  CHECK(ratios(DType::kFloat16, &one, DType::kFloat32, &in_float, 1, 1e-3).smallest ==
        static_cast<double>(1.0F / 3.0F));
}

TEST_CASE("free benchmark: signs that flip come before the ratio") {
  const Finding flips = judge(of_floats({1, -1}, {1, 1}), DType::kFloat32, false, 1.0002);
  CHECK(flips.kind == Finding::Kind::kSymbolFlipping);
  CHECK(flips.max_rel() == "symbol_flipping");
  // Around zero signs do not matter.
  CHECK(judge(of_floats({1e-5F}, {-1e-5F}), DType::kFloat32, false, 1.0002).is_consistent());
  const Finding far = judge(of_floats({3}, {2}), DType::kFloat32, false, 1.0002);
  CHECK(far.max_rel() == "0.5");
  CHECK(judge(of_floats({1}, {1}), DType::kFloat32, false, 1).is_consistent());
  CHECK(judge(of_floats({kNaN}, {1}), DType::kFloat32, false, 1.0002).max_rel() == "nan");
}

TEST_CASE("free benchmark: against the CPU") {
  const auto found = [](float original, double cpu) {
    const Distance distance_of = distance(DType::kFloat32, &original, DType::kFloat64, &cpu, 1);
    return judge(distance_of, DType::kFloat32);
  };
  CHECK(found(0.5F, 0.5 + 0x1p-15).is_consistent());
  CHECK_FALSE(found(0.5F, 0.5 + 0x1p-13).is_consistent());
  CHECK(found(1024.0F, 1024.0).is_consistent());
  CHECK_FALSE(found(1024.0F, 1025.0).is_consistent());
  CHECK(found(kInf, 70000.0).kind == Finding::Kind::kFar);
  CHECK(found(kInf, 70000.0).max_rel().empty());
  CHECK(found(kNaN, 1.0).kind == Finding::Kind::kFar);
  CHECK(found(1.0F, static_cast<double>(kInf)).is_consistent());  // the CPU's is none to go by
}

TEST_CASE("preheat: thresholds move with what the CPU says") {
  Preheat preheat(3, 20, Mode::kAddNoise);
  CHECK(preheat.only_counts());
  for (const char* const api : {"Torch.exp", "Torch.log"}) {
    for (int i = 0; i < 5; ++i) CHECK_FALSE(preheat.begin_call(api));
  }
  preheat.end_step();
  CHECK_FALSE(preheat.only_counts());
  struct Said {
    DType dtype;
    double ratio;
    bool is_right;
  };
  const auto compared = [&](const char* api, const std::vector<Said>& said) {
    std::vector<int> numbers;
    for (int i = 1; i <= 6; ++i) {
      if (!preheat.begin_call(api)) continue;
      const Said& one = said.at(numbers.size());
      preheat.note(api, one.dtype, one.ratio, one.is_right);
      numbers.push_back(i);
    }
    return numbers;
  };
  const auto threshold = [&](const char* api, DType dtype) { return preheat.threshold(api, dtype); };
  constexpr DType k32 = DType::kFloat32, k16 = DType::kFloat16;
  CHECK(threshold("Torch.exp", k32) == 2.05);
  // ceil(5 / 3) of them
  CHECK(compared("Torch.exp", {{k32, 3, true}, {k16, 1.1, true}}) == std::vector<int>{1, 4});
  CHECK(threshold("Torch.exp", k32) == 1 + 2 * (2.05 - 1));
  CHECK(threshold("Torch.exp", k16) == 1 + (2.05 - 1) / 2);
  CHECK(compared("Torch.log", {{k32, 1.8, false}, {k32, 1.9, false}}) == std::vector<int>{1, 4});
  CHECK(threshold("Torch.log", k32) == 1.8);
  preheat.end_step();
  // A ratio that was wrong below one that was right teaches nothing.
  CHECK(compared("Torch.exp", {{k32, 1.5, false}, {k32, 1.6, true}}) == std::vector<int>{2, 5});
  CHECK(threshold("Torch.exp", k32) == 1 + 2 * (2.05 - 1));
  CHECK(compared("Torch.log", {{k32, 1.2, false}, {k16, 1.0001, false}}) == std::vector<int>{2, 5});
  CHECK(threshold("Torch.log", k32) == 1.8);    // for good
  CHECK(threshold("Torch.log", k16) == 1.002);  // not below the default
  preheat.end_step();
  CHECK(compared("Torch.exp", {}).empty());  // over
}

TEST_CASE("free benchmark: the file") {
  const msprobe::test::TempDir folder;
  const auto path = folder.path() / "free_benchmark.csv";
  {
    RowFile file(path, 3, Mode::kBitNoise, true, 7);
    CHECK_FALSE(std::filesystem::exists(path));
    file.add({"Torch.matmul.0.backward", {Finding::Kind::kRatio, 1.5}, DType::kFloat16, {3, 4}, 1});
    file.add({"a,\"b\"\n/../c", {Finding::Kind::kFar, 1}, DType::kFloat32, {}, {}});
    CHECK(file.rows() == 2);
    CHECK(text_of(path) ==
          "rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index\r\n"
          "3,bit_noise,backward,7,Torch.matmul.0.backward,0.5,torch.float16,\"torch.Size([3, 4])\",1\r\n"
          "3,bit_noise,backward,7,\"a,\"\"b\"\"\n/../c\",,torch.float32,torch.Size([]),\r\n");
  }
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/null", path);
  RowFile linked(path, 0, Mode::kBitNoise, false, 0);
  CHECK_THROWS_AS(linked.add({}), msprobe::IoError);
  RowFile nowhere(folder.path() / "missing" / "x.csv", 0, Mode::kBitNoise, false, 0);
  CHECK_THROWS_AS(nowhere.add({}), msprobe::IoError);
}
