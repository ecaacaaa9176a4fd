// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is the same in all files that Megatron writes.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/state_dict.h"
#include "msprobe/checkpoint.h"
#include "msprobe/pt_file.h"

namespace msprobe::checkpoint {

/// Whether a file is that of a rank: it has the settings of the training and a model, or numbered parts of
/// one.
bool is_megatron(const io::PtValue& root);

/// The states of a distributed optimizer; null where there are none.
struct Buckets {
  const io::PtValue* root = nullptr;
  std::string path;
};

/// Those in the folder of a rank's file `beside`, where states of optimizers are asked for.
Buckets open_buckets(Checkpoint::State& state, const std::filesystem::path& beside,
                     const OpenOptions& options);

/// The parameters of each part of the model, without those that the rules ignore, and if they are asked for
/// the states of the optimizer.
std::vector<std::vector<Parameter>> megatron_chunks(const io::PtValue& root, const std::string& path,
                                                    const OpenOptions& options, const Buckets& buckets,
                                                    std::vector<LeftOut>& left_out);

/// The renamings that are to be done where `is_present(text)` tells whether any name has this text.
std::vector<Renaming> renamings_for(const Rules& rules,
                                    const std::function<bool(const std::string&)>& is_present);

/// A name in the form that all kinds of Megatron checkpoints share.
std::string renamed(std::string name, const std::vector<Renaming>& renamings);

void read_attention(const Settings& settings, AttentionSizes& sizes);

}  // namespace msprobe::checkpoint
