// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The description of a .pt file alone, beside two storages: what the archive around it would keep from the
// machine that runs it by its checksums.
#include "io/pt/pickle.h"

#include <array>
#include <span>
#include <string>

#include "fuzz_target.h"
#include "io/pt/pt_objects.h"
#include "pt_walk.h"

using namespace msprobe::fuzz;
namespace io = msprobe::io;

namespace {

alignas(16) constexpr std::array<std::uint8_t, 48> kData{1, 2, 3, 4, 5, 6, 7, 8};

std::optional<std::span<const std::uint8_t>> find_data(std::string_view key) {
  if (key == "0") return kData;
  if (key == "1") return std::span(kData).subspan(1, 16);  // not aligned: copied
  if (key == "2") return std::span<const std::uint8_t>();
  return std::nullopt;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  refuse_or([&] {
    io::PickleValues values;
    io::PtObjects objects(find_data, values, true);
    const io::PickleCalls calls{
        [&](std::string_view name, const io::PtTuple& arguments) { return objects.call(name, arguments); },
        [&](const io::PtValue& id) { return objects.persistent(id); }};
    walk(*io::run_pickle({data, size}, "x.pt", "data.pkl", values, calls), size);
  });
  return 0;
}
