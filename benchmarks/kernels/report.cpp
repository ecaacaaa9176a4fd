// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/report.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

namespace msprobe::bench {
namespace {

constexpr std::size_t kKiB = 1024;

template <typename... Arguments>
std::string text(const char* format, Arguments... arguments) {
  char buffer[256];
  const int length = std::snprintf(buffer, sizeof buffer, format, arguments...);
  return {buffer, static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(sizeof buffer) - 1))};
}

std::string size_name(std::size_t bytes) {
  return bytes < kKiB * kKiB ? std::to_string(bytes / kKiB) + " KiB"
                             : std::to_string(bytes / kKiB / kKiB) + " MiB";
}

template <typename T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

std::string cell(const Result* result) {
  if (result == nullptr) return "";
  if (result->bytes < 64 * kKiB) return text("%.0f ns (%.2f)", result->ours_ns, result->speed);
  if (result->speed_of_sum) return text("%.2f (%.2f)", result->speed, *result->speed_of_sum);
  return text("%.2f", result->speed);
}

}  // namespace

std::string to_json(const Machine& machine, const std::vector<Result>& results) {
  std::string out =
      text("{\"cores\": %u, \"instruction_set\": \"%s\", \"plain_vector_bytes\": %u,\n \"results\": [",
           machine.cores, machine.instruction_set.c_str(), machine.plain_vector_bytes);
  const char* separator = "\n  ";
  for (const Result& r : results) {
    out += separator;
    out +=
        text("{\"dtype\": \"%s\", \"bytes\": %zu, \"threads\": %u, \"options\": \"%s\", \"where\": \"%s\", ",
             r.dtype.c_str(), r.bytes, r.threads, r.options.c_str(), r.where.c_str());
    out += text("\"ours_ns\": %.1f, \"plain_ns\": %.1f, \"speed\": %.4f", r.ours_ns, r.plain_ns, r.speed);
    if (r.speed_of_sum) out += text(", \"speed_of_sum\": %.4f", *r.speed_of_sum);
    out += "}";
    separator = ",\n  ";
  }
  return out + "\n ]}\n";
}

std::string to_markdown(const Machine& machine, const std::vector<Result>& results) {
  std::vector<std::tuple<std::string, unsigned, std::string>> rows;
  std::vector<std::string> dtypes;
  std::vector<std::size_t> sizes;
  for (const Result& r : results) {
    add_once(rows, {r.options, r.threads, r.where});
    add_once(dtypes, r.dtype);
    add_once(sizes, r.bytes);
  }
  std::string out = text("%u cores, kernels: %s, plain read: vectors of %u bytes.\n\n", machine.cores,
                         machine.instruction_set.c_str(), machine.plain_vector_bytes);
  out += "| options | threads | tensor | dtype |";
  for (const std::size_t size : sizes) out += text(" %s |", size_name(size).c_str());
  out += "\n|---|---|---|---|";
  for (std::size_t i = 0; i < sizes.size(); ++i) out += "---|";
  out += "\n";
  for (const auto& [options, threads, where] : rows) {
    for (const std::string& dtype : dtypes) {
      std::string line =
          text("| %s | %u | %s | %s |", options.c_str(), threads, where.c_str(), dtype.c_str());
      bool any = false;
      for (const std::size_t size : sizes) {
        const auto found = std::find_if(results.begin(), results.end(), [&](const Result& r) {
          return std::tuple(r.options, r.threads, r.where) == std::tie(options, threads, where) &&
                 r.dtype == dtype && r.bytes == size;
        });
        any |= found != results.end();
        line += text(" %s |", cell(found == results.end() ? nullptr : &*found).c_str());
      }
      if (any) out += line + "\n";
    }
  }
  return out;
}

}  // namespace msprobe::bench
