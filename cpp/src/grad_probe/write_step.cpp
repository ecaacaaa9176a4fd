// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "grad_probe/direction_file.h"
#include "grad_probe/rank_directory.h"
#include "grad_probe/summary_table.h"
#include "msprobe/file.h"
#include "msprobe/grad_probe.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;

// Collects the direction files of a step beside its directory and then moves them there. What was not moved,
// the destructor removes.
class DirectionFiles {
 public:
  DirectionFiles(const fs::path& rank_dir, std::int64_t step)
      : temporary_(create_temporary_step_directory(rank_dir, step)),
        target_(step_directory(rank_dir, step)) {}
  ~DirectionFiles() {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
    if (created_target_ && !kept_) fs::remove_all(target_, ignored);
  }
  DirectionFiles(const DirectionFiles&) = delete;
  DirectionFiles& operator=(const DirectionFiles&) = delete;

  void write(std::span<const Measurement> measurements) {
    std::vector<std::uint8_t> buffer;
    for (const Measurement& measurement : measurements) {
      names_.push_back(direction_file_name(measurement.name));
      write_direction_file(temporary_ / names_.back(), measurement, buffer);
    }
  }

  void move_to_target() {
    // Succeeds as well when the target is an empty directory.
    if (::rename(temporary_.c_str(), target_.c_str()) == 0) {
      created_target_ = true;
      return;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
      throw IoError("cannot create the directory", target_.string(), errno);
    }
    for (const std::string& name : names_) {
      const fs::path path = target_ / name;
      if (::rename((temporary_ / name).c_str(), path.c_str()) != 0) {
        // A parameter listed twice has one file.
        if (errno == ENOENT && ::access(path.c_str(), F_OK) == 0) continue;
        throw IoError("cannot write", path.string(), errno);
      }
    }
  }

  void keep() noexcept { kept_ = true; }

 private:
  fs::path temporary_;
  fs::path target_;
  std::vector<std::string> names_;
  bool created_target_ = false;
  bool kept_ = false;
};

}  // namespace

void write_step(const Options& options, std::int64_t step, std::span<const Measurement> measurements) {
  const fs::path rank_dir = rank_directory(options.dump_path, options.rank);
  io::make_directories(rank_dir);

  // Everything that needs room on the disk is written under temporary names first: a full disk leaves an
  // older record of this step as it was.
  std::optional<DirectionFiles> directions;
  if (options.level != Level::kL0 && !measurements.empty()) {
    directions.emplace(rank_dir, step).write(measurements);
  }
  const fs::path csv_path = summary_file(rank_dir, step);
  io::AtomicFile csv(csv_path);
  csv.write(summary_csv(options, measurements));

  // From here on the step is incomplete until its csv appears.
  if (::unlink(csv_path.c_str()) != 0 && errno != ENOENT)
    throw IoError("cannot replace", csv_path.string(), errno);
  if (directions) directions->move_to_target();
  csv.commit();
  if (directions) directions->keep();
}

}  // namespace msprobe::grad_probe
