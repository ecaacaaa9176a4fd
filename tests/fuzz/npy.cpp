// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <string>

#include "fuzz_target.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

using namespace msprobe::fuzz;
using msprobe::io::NpyHeader;

namespace {

void check(const NpyHeader& header, std::uint64_t file_size) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(header.count) * msprobe::element_size(header.dtype);
  promise(header.data_offset + bytes == file_size, "header and data fill the file");
  const std::string again = msprobe::io::npy_header(header.dtype, header.fortran_order, header.shape);
  const std::span<const std::uint8_t> head(reinterpret_cast<const std::uint8_t*>(again.data()), again.size());
  const NpyHeader same = msprobe::io::parse_npy_header(head, again.size() + bytes, "again.npy");
  promise(
      same.dtype == header.dtype && same.fortran_order == header.fortran_order && same.shape == header.shape,
      "a header that is written again says the same");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The size of the file is told apart from what is in memory, as for files above 64 KiB: the first two bytes
  // say how much more there is.
  if (size < 2) return 0;
  const std::uint64_t more = data[0] + 256U * data[1];
  const std::span<const std::uint8_t> head(data + 2, size - 2);
  refuse_or(
      [&] { check(msprobe::io::parse_npy_header(head, head.size() + more, "x.npy"), head.size() + more); });

  static MemoryFile file;
  file.write(head.data(), head.size());
  refuse_or([&] { check(msprobe::io::read_npy_header(file.path()), head.size()); });
  return 0;
}
