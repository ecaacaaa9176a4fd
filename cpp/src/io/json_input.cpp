// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/json_input.h"

#include <limits>

#include "msprobe/file.h"

namespace msprobe::io {

std::string read_json_file(const std::filesystem::path& path) {
  const InputFile file(path);
  if (file.size() > std::numeric_limits<std::uint32_t>::max() - 64) {
    throw UnsupportedError(path.string() + ": has " + std::to_string(file.size()) +
                           " bytes; JSON files are read up to 4 GiB");
  }
  file.advise_sequential();
  std::string content;
  content.reserve(file.size() + 64);  // parse_json() appends
  content.resize(file.size());
  file.read(0, {reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  return content;
}

}  // namespace msprobe::io
