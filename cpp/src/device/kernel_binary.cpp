// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_binary.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "device/shared_object.h"
#include "msprobe/content_hash.h"
#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::device {

struct Compiler::Functions {
  explicit Functions(std::span<const std::string> libraries) : library(libraries) {
    library.find("nvrtcVersion", version);
    library.find("nvrtcGetNumSupportedArchs", architecture_count);
    library.find("nvrtcGetSupportedArchs", architectures);
    library.find("nvrtcCreateProgram", create);
    library.find("nvrtcDestroyProgram", destroy);
    library.find("nvrtcCompileProgram", compile);
    library.find("nvrtcGetProgramLogSize", log_size);
    library.find("nvrtcGetProgramLog", log);
    library.find("nvrtcGetCUBINSize", binary_size);
    library.find("nvrtcGetCUBIN", binary);
  }

  // As nvrtc.h declares them; 0 is success.
  using Program = void*;
  SharedObject library;
  int (*version)(int*, int*) = nullptr;
  int (*architecture_count)(int*) = nullptr;
  int (*architectures)(int*) = nullptr;
  int (*create)(Program*, const char* text, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int options, const char* const* texts) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*binary_size)(Program, std::size_t*) = nullptr;
  int (*binary)(Program, char*) = nullptr;
};

namespace {

void check(int code, const char* what) {
  if (code != 0)
    throw UnsupportedError(std::string("device: NVRTC: ") + what + " gave error " + std::to_string(code));
}

}  // namespace

Compiler::Compiler(std::vector<std::string> libraries) : functions_(std::make_shared<Functions>(libraries)) {
  int major = 0, minor = 0, count = 0;
  check(functions_->version(&major, &minor), "its version");
  version_ = std::to_string(major) + "." + std::to_string(minor);
  check(functions_->architecture_count(&count), "its architectures");
  architectures_.resize(static_cast<std::size_t>(std::max(count, 0)));
  check(functions_->architectures(architectures_.data()), "its architectures");
  std::sort(architectures_.begin(), architectures_.end());
}

std::string Compiler::compile(int architecture, std::string* log) const {
  const Functions& nvrtc = *functions_;
  Functions::Program program = nullptr;
  const std::string text(kernel_text());
  check(nvrtc.create(&program, text.c_str(), "msprobe.cu", 0, nullptr, nullptr), "its start");
  struct Destroyed {
    const Functions& nvrtc;
    Functions::Program* program;
    ~Destroyed() { nvrtc.destroy(program); }
  } const destroyed{nvrtc, &program};
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  const std::array options{target.c_str(), "--std=c++17", "--ptxas-options=-v"};
  const int code = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  std::string said;
  if (nvrtc.log_size(program, &size) == 0 && size > 1) {
    said.resize(size);
    nvrtc.log(program, said.data());
    said.resize(std::strlen(said.c_str()));
  }
  if (code != 0) throw UnsupportedError("device: NVRTC " + version_ + " refuses the kernel: " + said);
  if (log != nullptr) *log = said;
  check(nvrtc.binary_size(program, &size), "the kernel's size");
  std::string binary(size, '\0');
  check(nvrtc.binary(program, binary.data()), "the kernel");
  if (binary.empty()) throw UnsupportedError("device: NVRTC " + version_ + " made an empty kernel");
  return binary;
}

// ---------------------------------------------------------------------------------------------- kept on disk

namespace {

constexpr std::string_view kMagic = "msprobe kernel 1\n";
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

std::string hash_of(std::string_view bytes) { return hash_part(bytes.data(), bytes.size(), 0).text(); }

// Only this user may write there.
bool is_ours(const std::filesystem::path& path) {
  struct stat found{};
  return lstat(path.c_str(), &found) == 0 && !S_ISLNK(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool make_folder(const std::filesystem::path& folder) {
  if (folder.empty()) return false;
  std::error_code failed;
  std::filesystem::create_directories(folder.parent_path(), failed);
  if (std::filesystem::create_directory(folder, failed)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  }
  return is_ours(folder);
}

// What stands in front of a kernel in its file: it is that of this text, compiler and architecture, and
// whole.
std::string head_of(const std::string& key, std::string_view binary) {
  return std::string(kMagic) + key + "\n" + hash_of(binary) + "\n";
}

std::optional<std::string> read_kept(const std::filesystem::path& path, const std::string& key) {
  if (!is_ours(path)) return std::nullopt;
  try {
    const io::InputFile file(path);
    if (file.size() > kMostBytes) return std::nullopt;
    std::string all(file.size(), '\0');
    file.read(0, {reinterpret_cast<std::uint8_t*>(all.data()), all.size()});
    const std::size_t head = head_of(key, {}).size();
    if (all.size() <= head) return std::nullopt;
    std::string binary = all.substr(head);
    if (all.compare(0, head, head_of(key, binary)) != 0) return std::nullopt;
    return binary;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A cache that cannot be written is none.
void keep(const std::filesystem::path& path, const std::string& key, const std::string& binary) {
  try {
    io::write_file(path, head_of(key, binary) + binary);
  } catch (const Error&) {
    return;
  }
  std::error_code failed;
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write,
                               failed);
}

// Code runs on devices of its generation with the same number after the point or a higher one.
int target_of(const Compiler& compiler, int architecture) {
  int best = 0;
  for (const int known : compiler.architectures()) {
    if (known <= architecture && known / 10 == architecture / 10) best = known;
  }
  if (best != 0) return best;
  throw UnsupportedError("device: NVRTC " + compiler.version() + " does not compile for compute capability " +
                         std::to_string(architecture / 10) + "." + std::to_string(architecture % 10));
}

}  // namespace

std::filesystem::path kernel_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "msprobe" / "kernels";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::filesystem::path(home) / ".cache" / "msprobe" / "kernels";
}

std::string kernel_binary(const Compiler& compiler, int architecture, const std::filesystem::path& folder) {
  const int target = target_of(compiler, architecture);
  const std::string key =
      hash_of(kernel_text()) + " sm_" + std::to_string(target) + " NVRTC " + compiler.version();
  return kept_or_made(folder, key, [&] { return compiler.compile(target); });
}

std::string kept_or_made(const std::filesystem::path& folder, const std::string& key,
                         const std::function<std::string()>& make) {
  const bool is_kept = make_folder(folder);
  const std::filesystem::path path = folder / (hash_of(key) + ".cubin");
  if (is_kept) {
    if (auto binary = read_kept(path, key)) return *std::move(binary);
  }
  std::string binary = make();
  if (is_kept) keep(path, key, binary);
  return binary;
}

}  // namespace msprobe::device
