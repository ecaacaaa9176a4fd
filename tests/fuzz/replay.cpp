// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target on files: `fuzz_npy corpus/npy`. Needs no libFuzzer, so that every compiler and every
// test run sees what fuzzing has found.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "fuzz_target.h"

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_of(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// In memory of exactly its size: AddressSanitizer sees a read behind its end.
void run(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto copy = std::make_unique<std::uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<fs::path> files = files_of(argc, argv);
  for (const fs::path& file : files) {
    try {
      run(file);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", file.c_str(), error.what());
      return 1;
    }
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
