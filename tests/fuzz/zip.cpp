// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <span>
#include <string>

#include "fuzz_target.h"
#include "io/zip/zip_archive.h"

using namespace msprobe::fuzz;
using msprobe::io::ZipArchive;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> file(data, size);
  refuse_or([&] {
    const ZipArchive archive(file, "x.zip");
    promise(archive.first_name().empty() || archive.contains(archive.first_name()),
            "the first entry is there");
    for (const std::string_view name :
         {archive.first_name(), std::string_view("a"), std::string_view("a/b")}) {
      const ZipArchive::Entry* const entry = archive.find(name);
      if (entry == nullptr) continue;
      const std::less_equal<const std::uint8_t*> not_behind;
      promise(not_behind(data, entry->data.data()) &&
                  not_behind(entry->data.data() + entry->data.size(), data + size),
              "an entry lies within the archive");
      archive.check(name, *entry);
    }
  });
  return 0;
}
