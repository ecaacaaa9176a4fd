// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::device {

/// The text of the kernel, as this library was built with it.
std::string_view kernel_text();

/// NVRTC, the compiler that comes with CUDA.
class Compiler {
 public:
  /// `libraries`: where it may be, by preference; NVRTC itself or a library that needs it. Throws
  /// UnsupportedError where there is none.
  explicit Compiler(std::vector<std::string> libraries);

  /// "13.0".
  const std::string& version() const noexcept { return version_; }

  /// What it compiles for, ascending: 90 is compute capability 9.0.
  const std::vector<int>& architectures() const noexcept { return architectures_; }

  /// The kernel for one of its architectures. Throws UnsupportedError with the words of the compiler. `log`,
  /// if given, gets what it says of registers and memory.
  std::string compile(int architecture, std::string* log = nullptr) const;

 private:
  struct Functions;
  std::shared_ptr<const Functions> functions_;
  std::string version_;
  std::vector<int> architectures_;
};

/// What `make` makes of `key`, a line of text, from `folder` where it was made before. Files are written
/// under a temporary name. One that is not whole, or of another key, is made anew; a folder that another user
/// may write to is not used. `folder` empty: nothing is kept. What cannot be written is made again the next
/// time.
std::string kept_or_made(const std::filesystem::path& folder, const std::string& key,
                         const std::function<std::string()>& make);

/// The kernel for a device of compute capability `architecture`, kept in `folder` by text, architecture and
/// version of the compiler. A device that is newer than the compiler gets what that makes for the newest that
/// it knows of the same generation; UnsupportedError where it knows none.
std::string kernel_binary(const Compiler& compiler, int architecture, const std::filesystem::path& folder);

/// $XDG_CACHE_HOME/msprobe/kernels, or ~/.cache/msprobe/kernels; empty where there is neither.
std::filesystem::path kernel_folder();

}  // namespace msprobe::device
