// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/record_text.h"

#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/trace_reader.h"

namespace msprobe::trace {

std::string record_text(const std::filesystem::path& path, std::uint64_t begin, std::uint64_t end) {
  const io::InputFile file(path);
  if (begin > end || end > file.size()) {
    throw FormatError(path.string(), "byte " + std::to_string(begin),
                      "the file was changed while it was read");
  }
  std::string text(end - begin, '\0');
  file.read(begin, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  return text;
}

std::string read_record(const Trace& trace, const Record& record) {
  return record_text(trace.path(), record.begin, record.end);
}

}  // namespace msprobe::trace
