// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/checkpoint.h"
#include "msprobe/ckpt_file.h"
#include "msprobe/pt_file.h"
#include "msprobe/safetensors.h"

namespace msprobe::checkpoint {

/// A checkpoint while it is read, and afterwards what keeps its files mapped.
struct Checkpoint::State {
  Layout layout;
  AttentionSizes attention;
  std::vector<io::PtFile> pt_files;
  std::vector<io::SafetensorsFile> safetensors;
  std::vector<io::CkptFile> ckpt_files;
  bool is_mindspore = false;
  std::vector<std::shared_ptr<const io::MappedFile>> mappings;  // of which only parts were opened
  std::vector<std::filesystem::path> files;
  std::vector<Parameter> parameters;
  std::vector<LeftOut> left_out;
  std::vector<std::string> warnings;
  std::string model_type;

  /// Opens a file of torch.save and keeps it.
  const io::PtValue& open_pt(const std::filesystem::path& path);

  /// Warns of a call that no checkpoint needs and that would harm when something ran it.
  void warn_of_call(const std::filesystem::path& path, std::string_view name);
};

/// The readers of the kinds of checkpoints. Each fills `state`, whose layout.folder is set; see
/// Checkpoint::open for what they throw.
void read_megatron(Checkpoint::State& state, const OpenOptions& options);
void read_distributed(Checkpoint::State& state, const OpenOptions& options);
/// One file of any kind.
void read_single_file(Checkpoint::State& state, const std::filesystem::path& path,
                      const OpenOptions& options);
/// Files with an index, or all safetensors of the folder where `index` is empty.
void read_indexed(Checkpoint::State& state, const std::filesystem::path& index, const OpenOptions& options);

/// The path of `name` in `folder`, for a name that stands in a file or was found in the folder. Throws
/// FormatError for one that leads out of the folder, also by a symbolic link; links into the store of files
/// that a cache of models keeps beside its snapshots are fine.
std::filesystem::path file_within(const std::filesystem::path& folder, const std::string& name);

}  // namespace msprobe::checkpoint
