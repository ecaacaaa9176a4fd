// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "fuzz_target.h"
#include "msprobe/table.h"

using namespace msprobe::fuzz;
namespace io = msprobe::io;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  file.write(data, size);
  refuse_or([&] {
    const io::Table table = io::read_csv(file.path());
    io::CsvWriter writer;
    writer.add(table.header);
    for (const io::Row& row : table.rows) {
      promise(row.size() == table.header.size(), "every row is as wide as the header");
      writer.add(row);
    }
    file.write(writer.text().data(), writer.text().size());
    const io::Table again = io::read_csv(file.path());
    promise(again.header == table.header && again.rows == table.rows,
            "a table that is written again is the same");
  });
  return 0;
}
