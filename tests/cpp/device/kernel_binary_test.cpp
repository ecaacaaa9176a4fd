// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_binary.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "msprobe/error.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::device;

namespace fs = std::filesystem;

namespace {

// NVRTC where MSPROBE_NVRTC says or the system has it; without one these tests see nothing.
std::optional<Compiler> compiler() {
  std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  if (const char* const given = std::getenv("MSPROBE_NVRTC")) names.insert(names.begin(), given);
  try {
    return Compiler(names);
  } catch (const UnsupportedError&) {
    return std::nullopt;
  }
}

// What a command prints; nothing where it fails.
std::optional<std::string> output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> some{};
  for (std::size_t n = 0; (n = std::fread(some.data(), 1, some.size(), pipe)) > 0;)
    text.append(some.data(), n);
  if (pclose(pipe) == 0) return text;
  UNSCOPED_INFO(text);
  return std::nullopt;
}

struct Made {
  int times = 0;
  std::string content = std::string("binary\0with a zero", 18);

  std::string operator()(const fs::path& folder, const std::string& key) {
    return kept_or_made(folder, key, [this] {
      ++times;
      return content;
    });
  }
};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  return found;
}

}  // namespace

TEST_CASE("kernel cache: what was made once is read again, by its key") {
  const test::TempDir dir;
  const fs::path folder = dir.path() / "a" / "kernels";
  Made made;
  CHECK(made(folder, "sm_90 NVRTC 13.0") == made.content);
  CHECK(made(folder, "sm_90 NVRTC 13.0") == made.content);
  CHECK(made.times == 1);
  CHECK(made(folder, "sm_80 NVRTC 13.0") == made.content);
  CHECK(made.times == 2);
  CHECK(files_in(folder).size() == 2);  // and no temporary one
}

TEST_CASE("kernel cache: a file that is broken, cut, or another's is made anew") {
  const test::TempDir dir;
  const fs::path folder = dir.path() / "kernels";
  Made made;
  (void)made(folder, "key");
  const fs::path file = files_in(folder).front();
  std::ifstream stream(file, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(stream), {}};
  const auto with = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    const int before = made.times;
    CHECK(made(folder, "key") == made.content);
    CHECK(made.times == before + 1);
    CHECK(made(folder, "key") == made.content);  // and is whole again
    CHECK(made.times == before + 1);
  };
  for (std::size_t length = 0; length < good.size(); length += 7) with(good.substr(0, length));
  with("");
  with(good + "x");
  std::string changed = good;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  with(changed);
  with(std::string(200000, 'x'));
  fs::remove(file);
  fs::create_directory(file);
  const int before = made.times;
  CHECK(made(folder, "key") == made.content);
  CHECK(made.times == before + 1);
}

TEST_CASE("kernel cache: a folder that others may write to, a link, or none at all is not used") {
  const test::TempDir dir;
  Made made;
  const fs::path open = dir.path() / "open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  (void)made(open, "key");
  CHECK(files_in(open).empty());
  const fs::path own = dir.path() / "own";
  (void)made(own, "key");
  fs::create_directory_symlink(own, dir.path() / "link");
  (void)made(dir.path() / "link", "key");
  (void)made({}, "key");
  (void)made("/proc/nothing/here", "key");
  CHECK(made.times == 5);
}

TEST_CASE("kernel: its text is whole and of nothing but itself") {
  const std::string text(kernel_text());
  CHECK(text.find("#include") == std::string::npos);
  CHECK(text.find("msprobe_measure") != std::string::npos);
  CHECK(text.find("lowbias32") != std::string::npos);
}

TEST_CASE("kernel: nvcc compiles it") {
  const auto known = output_of("nvcc --list-gpu-arch");
  if (!known) return;
  const test::TempDir dir;
  const fs::path source = dir.path() / "kernel.cu", binary = dir.path() / "kernel.cubin";
  std::ofstream(source) << kernel_text();
  const bool all = std::getenv("MSPROBE_ALL_ARCHITECTURES") != nullptr;
  std::istringstream lines(*known);
  for (std::string line; std::getline(lines, line);) {
    const std::string architecture = "sm_" + line.substr(line.find('_') + 1);
    if (!all && architecture != "sm_80") continue;
    INFO(architecture);
    const std::string options = "nvcc -std=c++17 -cubin -arch=" + architecture;
    CHECK(output_of(options + " -o " + binary.string() + " " + source.string()));
    CHECK(fs::file_size(binary) > 1000);
    fs::remove(binary);
  }
}

// All architectures take minutes: MSPROBE_ALL_ARCHITECTURES=1.
TEST_CASE("kernel: NVRTC compiles it, without arrays in memory of threads") {
  const auto nvrtc = compiler();
  if (!nvrtc) return;
  REQUIRE(!nvrtc->architectures().empty());
  const bool all = std::getenv("MSPROBE_ALL_ARCHITECTURES") != nullptr;
  for (const int architecture : nvrtc->architectures()) {
    if (!all && architecture != 80) continue;
    std::string log;
    INFO("sm_" << architecture << ", NVRTC " << nvrtc->version());
    const std::string binary = nvrtc->compile(architecture, &log);
    CHECK(binary.substr(1, 3) == "ELF");
    INFO(log);
    CHECK(log.find("error") == std::string::npos);
    if (all) WARN("sm_" << architecture << ": " << binary.size() << " bytes\n" << log);
  }
  const test::TempDir dir;
  CHECK_THROWS_AS(kernel_binary(*nvrtc, 20, dir.path() / "kernels"), UnsupportedError);
}
