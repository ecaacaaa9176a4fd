// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grad_probe/packed_file.h"
#include "grad_probe/rank_directory.h"
#include "grad_probe/recorded_rank.h"
#include "msprobe/content_hash.h"
#include "msprobe/file.h"
#include "msprobe/grad_probe.h"
#include "msprobe/log.h"
#include "msprobe/stats.h"
#include "msprobe/table.h"
#include "msprobe/tensor_file.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;

struct Step {
  std::int64_t number;
  std::string summary;
  std::vector<std::string> names;  // of gradients with signs
};

Step read_step(const RecordedRank& record, std::int64_t number) {
  Step step{number, {}, {}};
  const std::optional<std::string> summary = record.summary(number);
  if (!summary) {
    throw FormatError(record.summary_place(number), "", "expected the statistics of a step with signs");
  }
  step.summary = *summary;
  const io::Table table = io::parse_csv(step.summary, record.summary_place(number));
  const int column = table.column("param_name");
  if (column < 0) {
    throw FormatError(record.summary_place(number), "line 1", "expected a column \"param_name\"");
  }
  for (const io::Row& row : table.rows) {
    const std::string& name = row[static_cast<std::size_t>(column)];
    if (record.has_signs(number, name)) step.names.push_back(name);
  }
  return step;
}

std::vector<std::uint8_t> bits_of(const Signs& signs) {
  std::vector<std::uint8_t> bits(stats::sign_bytes(signs.count()));
  std::vector<std::uint8_t> buffer;
  for_each_chunk(signs, 0, signs.count(), buffer, [&bits](std::int64_t first, auto bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(first) + i;
      bits[at / 8] = static_cast<std::uint8_t>(bits[at / 8] | (bytes[i] != 0) << at % 8);
    }
  });
  return bits;
}

// Signs that cannot be had, as those that a replica keeps otherwise, are left out, and logged where `tells`.
template <typename Use>
void for_each_signs(const RecordedRank& record, const Step& step, bool tells, const Use& use) {
  for (const std::string& name : step.names) {
    try {
      use(name, *record.signs(step.number, name));
    } catch (const Incomparable& problem) {
      if (tells)
        log(LogLevel::kWarning, record.signs_place(step.number, name) + " is left out: " + problem.what());
    }
  }
}

struct Packed {
  std::string name;
  std::vector<std::int64_t> shape;
  bool fortran_order;
  std::vector<std::uint8_t> bits;
};

void write_packed(PackedWriter& file, const RecordedRank& record, const Step& step, bool tells) {
  std::vector<Packed> all;
  for_each_signs(record, step, tells, [&all](const std::string& name, const Signs& signs) {
    all.push_back({name, signs.shape(), signs.fortran_order(), bits_of(signs)});
  });
  std::vector<SignsToPack> signs;
  signs.reserve(all.size());
  for (const Packed& one : all) {
    signs.push_back({one.name, one.shape, one.fortran_order, -1,
                     hash_part(one.bits.data(), one.bits.size(), 0), one.bits});
  }
  file.append(step.number, !signs.empty(), step.summary, signs);
}

void write_npy(const fs::path& path, const Signs& signs) {
  io::AtomicFile file(path);
  file.write(io::npy_header(DType::kBool, signs.fortran_order(), signs.shape()));
  std::vector<std::uint8_t> buffer;
  for_each_chunk(signs, 0, signs.count(), buffer,
                 [&file](std::int64_t, auto bytes) { file.write(bytes.data(), bytes.size()); });
  file.commit();
}

void write_files(const fs::path& rank_dir, const RecordedRank& record, const Step& step, bool tells) {
  const fs::path directory = step_directory(rank_dir, step.number);
  if (!step.names.empty()) io::make_directories(directory);
  for_each_signs(record, step, tells, [&directory](const std::string& name, const Signs& signs) {
    write_npy(directory / direction_file_name(name), signs);
  });
  io::write_file(summary_file(rank_dir, step.number), step.summary);
}

}  // namespace

bool has_gradients(const fs::path& rank_dir) {
  const RecordedRank record(rank_dir);
  const std::vector<std::int64_t> steps = record.summarized_steps();
  return std::any_of(steps.begin(), steps.end(), [&record](std::int64_t step) {
    return !io::parse_csv(*record.summary(step), record.summary_place(step)).rows.empty();
  });
}

std::size_t convert(const fs::path& rank_dir, const Options& options, bool tells) {
  const RecordedRank record(rank_dir);
  const fs::path target = rank_directory(options.dump_path, options.rank);
  io::make_directories(target);
  if (fs::exists(target / kPackedName) || !RecordedRank(target).summarized_steps().empty()) {
    throw InvalidArgument(target.string() + ": there is a gradient record already: expected another folder");
  }
  const std::vector<std::int64_t> steps = record.summarized_steps();
  std::unique_ptr<PackedWriter> packed;
  if (options.layout == Layout::kPacked) packed = std::make_unique<PackedWriter>(target / kPackedName);
  for (const std::int64_t number : steps) {
    const Step step = read_step(record, number);
    if (packed) {
      write_packed(*packed, record, step, tells);
    } else {
      write_files(target, record, step, tells);
    }
  }
  return steps.size();
}

}  // namespace msprobe::grad_probe
