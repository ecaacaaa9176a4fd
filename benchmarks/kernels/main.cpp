// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// How fast are stats::summarize and metrics::compare next to a plain read of the same memory by the same
// threads? Two tensors that are compared lie one after the other; their size is that of both.
//
//   msprobe_bench_kernels [--json FILE] [--markdown FILE] [--rounds N] [--quick] [--dtype NAME] [--options
//   NAME]
//
// Both are timed in turns, in rounds; what is reported is the median of the ratios within a round, which a
// machine that is faster or slower for a while does not move. Results are checked against element-by-element
// code before anything is timed.
//
// "same" measures one tensor over and over: up to some size it stays in the caches, where a plain read is so
// fast that only the arithmetic counts. "fresh" walks through tensors of together 256 MiB, so that each comes
// from memory, as the gradients of a model do.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/expected.h"
#include "kernels/report.h"
#include "kernels/samples.h"
#include "msprobe/metrics.h"
#include "msprobe/stats.h"
#include "plain_read/plain_read.h"

namespace msprobe::bench {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kPart = 256 * kKiB;   // what a thread of the plain read takes at a time
constexpr double kSampleNs = 3e5;           // a sample lasts at least about this long
constexpr double kCaseNs = 5e7;             // rounds go on for this long
constexpr std::size_t kArena = 256 * kMiB;  // well above any cache
constexpr std::array<float, 3> kBounds = {-0.01F, 0.0F, 0.01F};

struct Arguments {
  std::string json;
  std::string markdown;
  int rounds = 15;     // at the least: short cases take more
  bool quick = false;  // only 1 KiB, 1 MiB and 16 MiB
  std::string dtype;
  std::string options;
};

struct Variant {
  const char* name;
  bool signs;
  bool bounds;
  stats::SummaryOptions::Checksum checksum;
  bool pair = false;  // compare() instead of summarize()
};

constexpr std::array<Variant, 6> kVariants = {{
    {"none", false, false, stats::SummaryOptions::Checksum::kNone},
    {"signs", true, false, stats::SummaryOptions::Checksum::kNone},
    {"3 bounds", false, true, stats::SummaryOptions::Checksum::kNone},
    {"signs and 3 bounds", true, true, stats::SummaryOptions::Checksum::kNone},
    {"crc32", false, false, stats::SummaryOptions::Checksum::kFloat32},
    {"compare two", false, false, stats::SummaryOptions::Checksum::kNone, true},
}};

constexpr std::array<DType, 6> kDTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                          DType::kFloat64, DType::kInt64,    DType::kFloat8E4M3FN};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

// Keeps the compiler from dropping a computation whose result is not used.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "m"(value) : "memory");
}

double nanoseconds(const std::function<void()>& call, std::size_t times) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < times; ++i) call();
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / static_cast<double>(times);
}

using Read = void (*)(const std::byte* data, std::size_t bytes);

// float32 and float64 are summed as what they are; other dtypes as 64-bit integers, since their bytes taken
// for floats would be subnormal numbers now and then, which some processors add slowly.
Read plain_read_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return [](const std::byte* data, std::size_t bytes) {
        keep(plain_read_f32(reinterpret_cast<const float*>(data), bytes / sizeof(float)));
      };
    case DType::kFloat64:
      return [](const std::byte* data, std::size_t bytes) {
        keep(plain_read_f64(reinterpret_cast<const double*>(data), bytes / sizeof(double)));
      };
    default:
      return [](const std::byte* data, std::size_t bytes) {
        keep(plain_read_u64(reinterpret_cast<const std::uint64_t*>(data), bytes / sizeof(std::uint64_t)));
      };
  }
}

void sum_bfloat16(const std::byte* data, std::size_t bytes) {
  keep(plain_read_bf16(reinterpret_cast<const std::uint16_t*>(data), bytes / sizeof(std::uint16_t)));
}

void on_pool(ThreadPool& pool, Read read, std::span<const std::byte> tensor) {
  if (pool.size() == 1) return read(tensor.data(), tensor.size());
  pool.parallel_for((tensor.size() + kPart - 1) / kPart, [&](std::size_t part) {
    read(tensor.data() + part * kPart, std::min(kPart, tensor.size() - part * kPart));
  });
}

// Tensors of one size in one piece of memory, given out in turn.
class Tensors {
 public:
  Tensors(const Memory& memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::size_t bytes() const { return bytes_; }
  bool same() const { return memory_.size() == bytes_; }

  std::span<const std::byte> next() {
    if (at_ + bytes_ > memory_.size()) at_ = 0;
    at_ += bytes_;
    return {memory_.data() + at_ - bytes_, bytes_};
  }

 private:
  const Memory& memory_;
  std::size_t bytes_;
  std::size_t at_ = 0;
};

// What is measured of one tensor; checked first, where that does not take too long.
std::function<void()> summarizing(Tensors& tensors, DType dtype, const Variant& variant,
                                  ThreadPool* threads) {
  const auto count = static_cast<std::int64_t>(tensors.bytes() / element_size(dtype));
  const auto summarize = [=, &tensors, signs = std::vector<std::uint8_t>()](bool checked) mutable {
    const std::array<std::int64_t, 1> shape = {count};
    signs.resize(variant.signs ? stats::sign_bytes(count) : 0);
    stats::SummaryOptions options;
    options.checksum = variant.checksum;
    if (variant.bounds) options.bounds = kBounds;
    options.signs = signs;
    const TensorView view{tensors.next().data(), dtype, shape, {}};
    const stats::Summary summary = stats::summarize(view, options, threads);
    if (checked) check(view, summary, options.bounds, signs);
    keep(summary);
  };
  auto call = summarize;
  call(tensors.bytes() <= kMiB);
  return [call]() mutable { call(false); };
}

std::function<void()> comparing(Tensors& tensors, DType dtype, ThreadPool* threads) {
  const std::size_t half = tensors.bytes() / 2;
  const auto compare = [=, &tensors](bool checked) {
    const std::array<std::int64_t, 1> shape = {static_cast<std::int64_t>(half / element_size(dtype))};
    const std::byte* const data = tensors.next().data();
    const TensorView target{data, dtype, shape, {}};
    const TensorView reference{data + half, dtype, shape, {}};
    const metrics::PairMetrics found = metrics::compare(target, reference, {}, threads);
    if (checked) check(target, reference, found);
    keep(found);
  };
  compare(tensors.bytes() <= kMiB);
  return [compare] { compare(false); };
}

Result measure(Tensors tensors, DType dtype, const Variant& variant, ThreadPool& pool, int rounds) {
  ThreadPool* const threads = pool.size() > 1 ? &pool : nullptr;
  const std::function<void()> ours =
      variant.pair ? comparing(tensors, dtype, threads) : summarizing(tensors, dtype, variant, threads);
  const std::function<void()> plain = [&] { on_pool(pool, plain_read_of(dtype), tensors.next()); };
  const std::function<void()> sum = [&] { on_pool(pool, sum_bfloat16, tensors.next()); };
  const bool with_sum = dtype == DType::kBFloat16;
  const auto times_of = [](const std::function<void()>& call) {
    call();
    return static_cast<std::size_t>(kSampleNs / std::max(nanoseconds(call, 3), 1.0)) + 1;
  };
  const std::size_t ours_times = times_of(ours);
  const std::size_t plain_times = times_of(plain);
  std::vector<double> ours_ns;
  std::vector<double> plain_ns;
  std::vector<double> ratios;
  std::vector<double> sum_ratios;
  double spent = 0;
  for (int round = 0; round < rounds || spent < kCaseNs; ++round) {
    // The order changes from round to round, so that neither always finds what the other left in the caches.
    const bool ours_first = round % 2 == 0;
    const double first = nanoseconds(ours_first ? ours : plain, ours_first ? ours_times : plain_times);
    const double second = nanoseconds(ours_first ? plain : ours, ours_first ? plain_times : ours_times);
    ours_ns.push_back(ours_first ? first : second);
    plain_ns.push_back(ours_first ? second : first);
    ratios.push_back(plain_ns.back() / ours_ns.back());
    spent += first * static_cast<double>(ours_first ? ours_times : plain_times) +
             second * static_cast<double>(ours_first ? plain_times : ours_times);
    if (with_sum) sum_ratios.push_back(nanoseconds(sum, plain_times) / ours_ns.back());
  }
  Result result{std::string(dtype_name(dtype)),
                tensors.bytes(),
                pool.size(),
                variant.name,
                tensors.same() ? "same" : "fresh",
                median(ours_ns),
                median(plain_ns),
                median(ratios),
                std::nullopt};
  if (with_sum) result.speed_of_sum = median(sum_ratios);
  return result;
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--quick") {
      arguments.quick = true;
      continue;
    }
    if (i + 1 == count) throw std::invalid_argument(word + ": unknown, or its value is missing");
    const std::string value = words[++i];
    if (word == "--json") {
      arguments.json = value;
    } else if (word == "--markdown") {
      arguments.markdown = value;
    } else if (word == "--rounds") {
      arguments.rounds = std::max(1, std::stoi(value));
    } else if (word == "--dtype") {
      arguments.dtype = value;
    } else if (word == "--options") {
      arguments.options = value;
    } else {
      throw std::invalid_argument(word + ": unknown option");
    }
  }
  return arguments;
}

std::vector<Result> measure_dtype(const Arguments& arguments, DType dtype) {
  const std::vector<std::size_t> sizes =
      arguments.quick ? std::vector<std::size_t>{kKiB, kMiB, 16 * kMiB}
                      : std::vector<std::size_t>{kKiB, 64 * kKiB, kMiB, 16 * kMiB, kArena};
  std::vector<Result> results;
  ThreadPool one(1);
  ThreadPool two(2);
  const Memory arena(kArena);
  fill(arena, dtype);
  for (const std::size_t size : sizes) {
    const Memory alone(size);
    std::copy_n(arena.data(), size, alone.data());
    for (const Variant& variant : kVariants) {
      if (!arguments.options.empty() && arguments.options != variant.name) continue;
      for (const Memory* memory : {&alone, &arena}) {
        // 1 KiB from memory would measure its latency; the largest size is no different when fresh.
        if (memory == &arena && (size == kKiB || size == kArena)) continue;
        const Tensors tensors(*memory, size);
        results.push_back(measure(tensors, dtype, variant, one, arguments.rounds));
        // Smaller tensors are not split.
        if (size >= kMiB && std::thread::hardware_concurrency() > 1) {
          results.push_back(measure(tensors, dtype, variant, two, arguments.rounds));
        }
      }
    }
  }
  return results;
}

std::vector<Result> measure_all(const Arguments& arguments) {
  std::vector<Result> results;
  for (const DType dtype : kDTypes) {
    if (!arguments.dtype.empty() && arguments.dtype != dtype_name(dtype)) continue;
    const std::vector<Result> some = measure_dtype(arguments, dtype);
    results.insert(results.end(), some.begin(), some.end());
  }
  // Tables are by option first.
  std::stable_sort(results.begin(), results.end(), [](const Result& a, const Result& b) {
    const auto rank = [](const Result& r) {
      return std::find_if(kVariants.begin(), kVariants.end(),
                          [&](const Variant& v) { return r.options == v.name; }) -
             kVariants.begin();
    };
    return std::tuple(rank(a), a.threads, b.where) < std::tuple(rank(b), b.threads, a.where);
  });
  return results;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  if (!(out << text)) throw std::runtime_error(path + ": cannot be written");
}

int run(int count, char** words) {
  const Arguments arguments = parse(count, words);
  const std::vector<Result> results = measure_all(arguments);
  const Machine machine{std::thread::hardware_concurrency(), std::string(stats::instruction_set()),
                        plain_read_vector_bytes()};
  if (!arguments.json.empty()) write(arguments.json, to_json(machine, results));
  const std::string markdown = to_markdown(machine, results);
  if (!arguments.markdown.empty()) write(arguments.markdown, markdown);
  std::cout << markdown;
  return 0;
}

}  // namespace
}  // namespace msprobe::bench

int main(int count, char** words) {
  try {
    return msprobe::bench::run(count, words);
  } catch (const std::exception& error) {
    std::cerr << "msprobe_bench_kernels: " << error.what() << "\n";
    return 1;
  }
}
