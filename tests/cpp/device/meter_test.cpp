// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/meter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/convert.h"
#include "catch.h"
#include "device/host_device.h"
#include "device/items.h"
#include "msprobe/error.h"
#include "msprobe/stats.h"

using namespace msprobe;
using namespace msprobe::device;

namespace {

constexpr std::array kEveryDType{DType::kFloat64,    DType::kFloat32,        DType::kFloat16,
                                 DType::kBFloat16,   DType::kFloat8E4M3FN,   DType::kFloat8E4M3FNUZ,
                                 DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ, DType::kFloat8E8M0FNU,
                                 DType::kInt64,      DType::kInt32,          DType::kInt16,
                                 DType::kInt8,       DType::kUInt64,         DType::kUInt32,
                                 DType::kUInt16,     DType::kUInt8,          DType::kBool,
                                 DType::kComplex32,  DType::kComplex64,      DType::kComplex128};

std::size_t size_of_part(DType dtype) { return element_size(dtype) / (is_complex(dtype) ? 2 : 1); }

// Elements of moderate size: of floats with exponents around that of 1, of integers small ones.
std::vector<std::byte> elements(DType dtype, std::int64_t count, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  const std::size_t size = size_of_part(dtype);
  std::vector<std::byte> memory(static_cast<std::size_t>(count) * element_size(dtype));
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  const bool is_float = is_complex(dtype) || is_floating(dtype);
  for (std::size_t at = 0; at < memory.size(); at += size) {
    std::byte& top = memory[at + size - 1];
    if (dtype == DType::kBool) top &= std::byte{1};
    if (is_float) top = (top & std::byte{0x81}) | (size == 1 ? std::byte{0x38} : std::byte{0x3C});
  }
  return memory;
}

void set_all_bits(std::vector<std::byte>& memory, DType dtype, std::int64_t element) {
  std::memset(memory.data() + static_cast<std::size_t>(element) * element_size(dtype), 0xFF,
              element_size(dtype));
}

struct Case {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::int64_t from = 0;
};

TensorView view_of(const std::vector<std::byte>& memory, DType dtype, const Case& layout) {
  return {memory.data() + static_cast<std::size_t>(layout.from) * element_size(dtype), dtype, layout.shape,
          layout.strides};
}

bool is_close(double a, double b, double scale, double tolerance = 2e-6) {
  return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= tolerance * scale;
}

void check_same(const stats::Summary& found, const stats::Summary& expected, DType dtype) {
  CHECK(found.count == expected.count);
  CHECK(found.nan_count == expected.nan_count);
  CHECK(found.pos_inf_count == expected.pos_inf_count);
  CHECK(found.neg_inf_count == expected.neg_inf_count);
  const double size = std::isfinite(expected.norm) ? expected.norm * std::sqrt(expected.count) : 1;
  CHECK(is_close(found.sum, expected.sum, size));
  CHECK(is_close(found.norm, expected.norm, expected.norm));
  if (!is_complex(dtype)) {
    CHECK(is_close(*found.min, *expected.min, 0));
    CHECK(is_close(*found.max, *expected.max, 0));
  }
}

void check_sketches(const stats::Sketch& found, const stats::Sketch& expected, DType dtype) {
  CHECK(found.digest == expected.digest);
  for (std::size_t k = 0; k < stats::Sketch::kSums; ++k) {
    CHECK(is_close(found.sums[k], expected.sums[k], expected.norm));
  }
  CHECK(is_close(found.norm, expected.norm, expected.norm));
  CHECK(is_close(found.mean, expected.mean, expected.norm));
  if (!is_complex(dtype)) {
    CHECK(found.min == expected.min);
    CHECK(found.max == expected.max);
  }
}

stats::Summary measured(Meter& meter, const Request& request) {
  const std::vector<Result> results = meter.launch(nullptr, {&request, 1});
  meter.collect();
  return summary_of(results.front().words(), request.view.dtype, element_count(request.view), request.wanted);
}

std::vector<Case> layouts() {
  std::vector<Case> cases;
  for (const std::int64_t count : {1, 3, 8, 255, 1023, 1024, 1025, 4096, 70001})
    cases.push_back({{count}, {}});
  cases.push_back({{40, 25}, {}, 1});                               // not aligned
  cases.push_back({{6, 8, 40, 16}, {8 * 40 * 16, 16, 8 * 16, 1}});  // heads and rows exchanged
  cases.push_back({{64, 33}, {1, 64}});                             // transposed
  cases.push_back({{50, 20}, {60, 2}});                             // every second column
  cases.push_back({{300, 100}, {0, 1}});                            // expanded
  cases.push_back({{}, {}});
  cases.push_back({{5, 1, 7}, {7, 99, 1}});
  return cases;
}

}  // namespace

TEST_CASE("arithmetic: each part has the value that the processor's conversion gives it") {
  for (const DType dtype : kEveryDType) {
    const std::size_t size = size_of_part(dtype);
    std::mt19937_64 random(3);
    const std::size_t count = size == 1 ? 256 : 65536;
    for (std::size_t i = 0; i < count; ++i) {
      Long bits = size <= 2 ? i : random() >> (64 - 8 * size);
      if (dtype == DType::kBool) bits &= 1;
      const std::array<Long, 2> element{size == 8 ? bits : bits | bits << (8 * size), bits};
      std::array<double, 2> expected{};
      convert_to_double(element.data(), dtype, 1, expected.data());
      const double found = value_of(static_cast<Word>(dtype), bits);
      if (!(std::isnan(found) && std::isnan(expected[0])) && found != expected[0]) {
        FAIL(dtype_name(dtype) << " " << bits << ": " << found << ", expected " << expected[0]);
      }
    }
  }
}

TEST_CASE("arithmetic: a division by multiplication is right below 2^31") {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    const Word extent = i < 2000 ? static_cast<Word>(i) + 2 : random() % 0x7FFFFFFE + 1;
    const std::vector<std::int64_t> shape{2, extent};
    const std::vector<std::int64_t> strides{std::int64_t{3} * extent, 2};
    const Item item = item_of({.view = {nullptr, DType::kInt8, shape, strides}}, 8);
    if (extent == 1) continue;
    const Dimension& last = item.dimensions[item.rank - 1];
    for (const Word n : {0U, extent - 1, extent, 0x7FFFFFFFU, 0x7FFFFFFFU / extent * extent,
                         static_cast<Word>(random() >> 1)}) {
      if (n < 0x80000000U && quotient(n, last) != n / extent) FAIL(n << " / " << extent);
    }
  }
}

TEST_CASE("meter: statistics, sketch and digest are those of the processor, for every dtype and layout") {
  Meter meter(host_device());
  for (const DType dtype : kEveryDType) {
    const std::vector<std::byte> memory = elements(dtype, 80000);
    for (const Case& layout : layouts()) {
      const TensorView view = view_of(memory, dtype, layout);
      stats::SummaryOptions options;
      options.sketch = true;
      const stats::Summary expected = stats::summarize(view, options);
      INFO(dtype_name(dtype) << ", " << element_count(view) << " elements in " << layout.shape.size()
                             << " dimensions");
      const stats::Summary found = measured(meter, {.view = view, .wanted = kSketches});
      check_same(found, expected, dtype);
      check_sketches(*found.sketch, *expected.sketch, dtype);
    }
  }
}

TEST_CASE("meter: NaN and infinities in every place are counted, and left out of sums") {
  Meter meter(host_device());
  constexpr std::int64_t count = 5000;
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                            DType::kFloat8E5M2, DType::kComplex64}) {
    for (const std::int64_t place : {0, 1, 7, 8, 1023, 1024, 4095, 4096, 4998, 4999}) {
      std::vector<std::byte> memory = elements(dtype, count);
      set_all_bits(memory, dtype, place);
      const std::vector<std::int64_t> shape{count};
      const TensorView view{memory.data(), dtype, shape, {}};
      stats::SummaryOptions options;
      options.sketch = true;
      const stats::Summary found = measured(meter, {.view = view, .wanted = kSketches});
      const stats::Summary expected = stats::summarize(view, options);
      REQUIRE(found.nan_count == 1);
      check_same(found, expected, dtype);
      check_sketches(*found.sketch, *expected.sketch, dtype);
    }
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [first, second] : {std::pair{infinity, 1.0F}, {-infinity, 1.0F}, {infinity, -infinity}}) {
    std::vector<float> values(3000, 0.5F);
    values[17] = first;
    values[2999] = second;
    const std::vector<std::int64_t> shape{3000};
    const TensorView view{values.data(), DType::kFloat32, shape, {}};
    check_same(measured(meter, {.view = view, .wanted = kSketches}), stats::summarize(view), DType::kFloat32);
  }
}

TEST_CASE("meter: squares that float cannot hold are added in double") {
  Meter meter(host_device());
  for (const float size : {1e-30F, 1e-25F, 1e25F, 3e38F}) {
    std::vector<float> values(2500);
    std::mt19937 random(2);
    for (float& value : values) value = size * (static_cast<float>(random() % 1000) / 1000);
    values[7] = 0;
    const std::vector<std::int64_t> shape{2500};
    const TensorView view{values.data(), DType::kFloat32, shape, {}};
    stats::SummaryOptions options;
    options.powers = true;
    const stats::Summary expected = stats::summarize(view, options);
    const stats::Summary found = measured(meter, {.view = view, .wanted = kPowers});
    check_same(found, expected, DType::kFloat32);
    CHECK(*found.sum_abs == Approx(*expected.sum_abs).epsilon(1e-6));
    CHECK(*found.fourth_powers == Approx(*expected.fourth_powers).epsilon(1e-6));
  }
}

TEST_CASE("meter: powers, small elements and bounds are those of the processor") {
  Meter meter(host_device());
  const std::array<float, 4> bounds{-0.5F, 0, 0.01F, 1};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                            DType::kInt32, DType::kFloat8E4M3FN}) {
    std::vector<std::byte> memory = elements(dtype, 9000);
    std::memset(memory.data() + 40 * element_size(dtype), 0, 300 * element_size(dtype));
    const std::vector<std::int64_t> shape{8997};
    const TensorView view{memory.data(), dtype, shape, {}};
    stats::SummaryOptions options;
    options.powers = true;
    options.small = 0.1;
    options.bounds = bounds;
    const stats::Summary expected = stats::summarize(view, options);
    const double limit = dtype == DType::kFloat64 || dtype == DType::kInt32 ? 0.1 : 0.1F;
    const Request request{.view = view, .wanted = kPowers | kCounts, .small = limit, .bounds = bounds};
    const std::vector<Result> results = meter.launch(nullptr, {&request, 1});
    meter.collect();
    const auto words = results.front().words();
    const stats::Summary found = summary_of(words, dtype, 8997, request.wanted);
    INFO(dtype_name(dtype));
    check_same(found, expected, dtype);
    CHECK(found.zero_count == expected.zero_count);
    CHECK(found.small_count == expected.small_count);
    CHECK(*found.sum_abs == Approx(*expected.sum_abs).epsilon(1e-6));
    CHECK(*found.fourth_powers == Approx(*expected.fourth_powers).epsilon(1e-6));
    std::int64_t above = 8997;
    for (std::size_t b = 0; b < bounds.size(); ++b) {
      above -= expected.interval_counts[b];
      CHECK(static_cast<std::int64_t>(words[kAbove + b]) == above);
    }
  }
}

TEST_CASE("meter: two tensors beside each other") {
  Meter meter(host_device());
  std::vector<float> x(5000), y(5000);
  std::mt19937 random(4);
  std::normal_distribution<float> draw;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = draw(random);
    y[i] = x[i] + 0.1F * draw(random);
  }
  const std::vector<std::int64_t> shape{100, 50}, transposed{1, 100};
  for (const auto& strides : {std::vector<std::int64_t>{}, transposed}) {
    const TensorView left{x.data(), DType::kFloat32, shape, {}},
        right{y.data(), DType::kFloat32, shape, strides};
    const stats::Pair pair{left, right};
    const stats::PairSums expected = stats::pair_sums({&pair, 1}).front();
    const Request request{.view = left, .wanted = kPairs, .small = 0.01, .other = &right};
    const std::vector<Result> results = meter.launch(nullptr, {&request, 1});
    meter.collect();
    const auto words = results.front().words();
    CHECK(as_double(words[kLeftSquares]) == Approx(expected.left_squares));
    CHECK(as_double(words[kRightSquares]) == Approx(expected.right_squares));
    CHECK(as_double(words[kDot]) == Approx(expected.dot));
    CHECK(as_double(words[kDistance]) == Approx(expected.squared_distance));
    CHECK(static_cast<std::int64_t>(words[kAgree] - words[kDisagree]) == expected.sign_balance);
    CHECK(words[kLeftNotFinite] == 0);
  }
  const TensorView one{x.data(), DType::kFloat32, shape, {}};
  const Request alone{.view = one, .wanted = kPairs};
  CHECK_THROWS_AS(meter.launch(nullptr, {&alone, 1}), InvalidArgument);
}

TEST_CASE("meter: one launch measures all tensors of a call, and many hundreds take a few") {
  Meter meter(host_device());
  std::vector<std::vector<std::byte>> memories;
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::int64_t i = 0; i < 3000; ++i) {
    shapes.push_back({i % 97 + 1});
    memories.push_back(elements(DType::kFloat32, i % 97 + 1, static_cast<unsigned>(i)));
  }
  std::vector<Request> requests;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    requests.push_back({.view = {memories[i].data(), DType::kFloat32, shapes[i], {}}, .wanted = kSketches});
  }
  const std::vector<Result> few = meter.launch(nullptr, std::span(requests).first(7));
  CHECK(meter.work().launches == 1);
  const std::vector<Result> all = meter.launch(nullptr, requests);
  CHECK(meter.work().launches <= 6);
  CHECK(meter.work().tensors == 3007);
  meter.collect();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    stats::SummaryOptions options;
    options.sketch = true;
    const auto expected = stats::summarize(requests[i].view, options);
    const auto found = summary_of(all[i].words(), DType::kFloat32, shapes[i][0], kSketches);
    if (found.sketch->digest != expected.sketch->digest) FAIL("tensor " << i);
  }
  CHECK(few[6].words() == all[6].words());
}

TEST_CASE("meter: results are read after they were collected, and streams are bounded") {
  Meter meter(host_device());
  const float value = 2;
  const Request request{.view = {&value, DType::kFloat32, {}, {}}, .wanted = kSketches};
  const std::vector<Result> results = meter.launch(nullptr, {&request, 1});
  CHECK_THROWS_AS(results.front().words(), UnsupportedError);
  meter.collect();
  CHECK(as_double(results.front().words()[kSum]) == 2);
  std::array<char, 9> streams;
  std::size_t taken = 0;
  for (char& stream : streams) {
    if (!meter.takes_stream(&stream)) continue;
    ++taken;
    (void)meter.launch(&stream, {&request, 1});
  }
  CHECK(taken == 7);
}

TEST_CASE("meter: the bits of a number come with its value") {
  Meter meter(host_device());
  const std::int64_t value = (std::int64_t{1} << 62) + 1;
  const Request request{.view = {&value, DType::kInt64, {}, {}}, .wanted = kSketches | kRaw};
  const std::vector<Result> results = meter.launch(nullptr, {&request, 1});
  meter.collect();
  CHECK(results.front().words()[kRawBits] == static_cast<Long>(value));
}

namespace {

// A device whose streams can be captured: then all but the question is an error, as it is for the driver.
class Capturing final : public Device {
 public:
  explicit Capturing(const bool& captures) : captures_(captures) {}
  std::string name() const override { return within_->name(); }
  unsigned blocks_at_once() const override { return within_->blocks_at_once(); }
  bool is_capturing(Stream) override { return captures_; }
  std::shared_ptr<void> memory(Stream stream, std::size_t bytes) override {
    check();
    return within_->memory(stream, bytes);
  }
  std::shared_ptr<void> host_memory(std::size_t bytes) override {
    check();
    return within_->host_memory(bytes);
  }
  void launch(Stream stream, const Table& table, unsigned blocks) override {
    check();
    within_->launch(stream, table, blocks);
  }
  void copy_to_host(Stream stream, void* to, const void* from, std::size_t bytes) override {
    check();
    within_->copy_to_host(stream, to, from, bytes);
  }
  std::unique_ptr<Mark> mark(Stream stream) override {
    check();
    return within_->mark(stream);
  }

 private:
  void check() const { REQUIRE_FALSE(captures_); }

  const bool& captures_;
  std::unique_ptr<Device> within_ = host_device();
};

}  // namespace

TEST_CASE("meter: nothing is launched, copied or allocated while the stream is captured") {
  bool captures = false;
  Meter meter(std::make_unique<Capturing>(captures));
  const float value = 2;
  const Request request{.view = {&value, DType::kFloat32, {}, {}}, .wanted = kSketches};
  const std::vector<Result> before = meter.launch(nullptr, {&request, 1});
  captures = true;
  CHECK_THROWS_AS(meter.launch(nullptr, {&request, 1}), UnsupportedError);
  CHECK_THROWS_AS(meter.bring_to_host(nullptr, nullptr, [](const ToHost::Add&) {}), UnsupportedError);
  CHECK_THROWS_AS(meter.bring_signs(nullptr, {}), UnsupportedError);
  meter.collect();
  CHECK_THROWS_AS(before.front().words(), UnsupportedError);
  captures = false;
  meter.collect();
  CHECK(as_double(before.front().words()[kSum]) == 2);
  CHECK(meter.work().launches == 1);
}

TEST_CASE("to host: pieces come one behind the other, also after one that was refused") {
  Meter meter(host_device());
  std::vector<std::byte> memory = elements(DType::kFloat32, 3'000'000);
  std::vector<std::byte> found(memory.size());
  const auto bring = [&](std::size_t each) {
    std::fill(found.begin(), found.end(), std::byte{0});
    meter.bring_to_host(nullptr, found.data(), [&](const ToHost::Add& add) {
      for (std::size_t at = 0; at < memory.size(); at += each) {
        add(memory.data() + at, std::min(each, memory.size() - at));
      }
    });
  };
  for (const std::size_t each : {ToHost::kBytes, std::size_t{1000}, std::size_t{999'983}}) {
    bring(each);
    CHECK(found == memory);
  }
  CHECK_THROWS_AS(bring(ToHost::kBytes + 1), InvalidArgument);
  bring(ToHost::kBytes);
  CHECK(found == memory);
}

TEST_CASE("meter: signs are those of the processor, of many tensors and of one that takes several pieces") {
  Meter meter(host_device());
  const std::vector<std::byte> memory = elements(DType::kBFloat16, 40'000'000);
  const std::vector<std::byte> wide = elements(DType::kFloat64, 3000);
  std::vector<Case> cases{
      {{40'000'000}, {}}, {{0}, {}}, {{1}, {}}, {{37, 21}, {1, 37}}, {{1000, 33}, {99, 3}}};
  for (std::int64_t i = 0; i < 30; ++i) cases.push_back({{i + 1}, {}, i});
  std::vector<TensorView> views;
  for (const Case& one : cases) views.push_back(view_of(memory, DType::kBFloat16, one));
  const Case of_wide{{3000}, {}};
  views.push_back(view_of(wide, DType::kFloat64, of_wide));
  std::vector<std::vector<std::uint8_t>> found, expected;
  std::vector<Signs> asked;
  found.reserve(views.size());
  for (const TensorView& view : views) {
    const std::size_t bytes = stats::sign_bytes(element_count(view));
    asked.push_back({view, found.emplace_back(bytes)});
    stats::SummaryOptions options;
    options.signs = expected.emplace_back(bytes);
    (void)stats::summarize(view, options);
  }
  meter.bring_signs(nullptr, asked)->finish();
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (found[i] != expected[i]) FAIL("tensor " << i);
  }
  CHECK(meter.work().launches <= 6);
}

TEST_CASE("signs: more than the host's memory holds come all the same, and who begins waits for the first") {
  const auto device = host_device();
  const auto waits = std::make_shared<Waits>();
  SignsToHost to_host(waits, SignsToHost::kBytes);
  const std::vector<std::byte> memory = elements(DType::kInt8, 68'003);
  const Case layout{{1000, 68'003}, {0, 1}};  // the same row again and again
  const TensorView view = view_of(memory, DType::kInt8, layout);
  std::vector<std::uint8_t> found(stats::sign_bytes(element_count(view))), expected(found.size());
  const Signs asked{view, found};
  std::size_t launches = 0;
  const auto coming = to_host.begin(*device, nullptr, {&asked, 1}, launches);
  CHECK(launches == (found.size() + SignsToHost::kBytes - 1) / SignsToHost::kBytes);
  coming->finish();
  stats::SummaryOptions options;
  options.signs = expected;
  (void)stats::summarize(view, options);
  CHECK((found == expected));
}

TEST_CASE("signs: what was begun and is not waited for leaves no trace in what comes next") {
  Meter meter(host_device());
  const std::vector<std::byte> memory = elements(DType::kFloat32, 5000);
  const Case layout{{5000}, {}};
  const TensorView view = view_of(memory, DType::kFloat32, layout);
  std::vector<std::uint8_t> first(stats::sign_bytes(5000)), second(first.size()), expected(first.size());
  const Signs to_first{view, first};
  const Signs to_second{view, second};
  meter.bring_signs(nullptr, {&to_first, 1});
  meter.bring_signs(nullptr, {&to_second, 1})->finish();
  stats::SummaryOptions options;
  options.signs = expected;
  (void)stats::summarize(view, options);
  CHECK((second == expected));
  CHECK((first == std::vector<std::uint8_t>(first.size())));
}

TEST_CASE("meter: results that are read behind later work are not waited for") {
  Meter meter(host_device());
  const float value = 3;
  const Request request{.view = {&value, DType::kFloat32, {}, {}}};
  const std::vector<Result> first = meter.launch(nullptr, {&request, 1});
  meter.collect();
  const std::vector<Result> second = meter.launch(nullptr, {&request, 1});
  meter.collect();
  CHECK(as_double(first.front().words()[kSum]) == 3);
  CHECK(meter.work().waits == 0);
  CHECK(as_double(second.front().words()[kSum]) == 3);
  CHECK(meter.work().waits == 1);
}
