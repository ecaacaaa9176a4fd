// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where the first infinity or NaN of a step was made: on which rank, in which call. Reads what the data dump
/// of all ranks left (docs/formats/dump.md); rules: docs/formats/anomaly_analyze.md.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"

namespace msprobe::overflow {

/// Why a call is thought to be an origin. "Bad": the maximum or minimum of a tensor, or a scalar, is an
/// infinity or NaN.
enum class Cause {
  kComputed,       // what went in is good, what came out is not
  kArgument,       // a scalar argument is bad, everything else that went in is good
  kParameter,      // a parameter of the module is bad, everything else that went in is good
  kCommunication,  // what the ranks sent is good, what arrived is not
  kOutside,        // a tensor that went in is bad, and no recorded call made it
  kGradient,       // the gradient of a parameter is bad, and no recorded call explains it
};

/// When in the step, as seen by the communication of the ranks.
enum class Phase {
  kBefore,   // before the first communication of the rank
  kDuring,   // found by following the bad values that ranks have sent to each other
  kAfter,    // after the last communication of the rank
  kBetween,  // between communications, none of which carried the bad values
};

/// "computed", "argument", ... and "before communication", ...
MSPROBE_API std::string_view cause_name(Cause cause) noexcept;
MSPROBE_API std::string_view phase_name(Phase phase) noexcept;

/// A call that made bad values of good ones, or that brought them in.
struct Origin {
  int rank = 0;
  std::string record;  // its name in dump.json
  Cause cause = Cause::kComputed;
  Phase phase = Phase::kBefore;
  std::string reason;                      // one sentence that names the values
  std::string json;                        // the record as it stands in dump.json
  std::vector<std::string> ancestry;       // names in construct.json, the outermost first, `record` last
  std::vector<std::string> stack;          // the innermost frame first; empty: unknown
  std::vector<std::string> forward_stack;  // of a backward record: that of its forward
};

struct Analysis {
  std::vector<Origin> origins;          // by rank; empty: nothing bad was found
  std::vector<int> ranks;               // whose dump.json was read, ascending
  std::vector<int> unread_ranks;        // whose dump.json is missing or damaged; `notes` says why
  std::vector<std::string> notes;       // one sentence each: what is missing, what was passed over on purpose
  std::size_t record_count = 0;         // of all ranks
  std::size_t communication_count = 0;  // of them, those that communicate
};

struct AnalyzeOptions {
  unsigned threads = 0;  // ranks that are read at the same time; 0: all cores
  /// Called by the calling thread with the ranks read so far and their number; false cancels.
  std::function<bool(std::size_t done, std::size_t total)> progress;
};

/// Analyses `step_dir`: the folders rank{N} in it (`rank`: one process, number 0), or `step_dir` itself when
/// it holds a dump.json. A rank needs dump.json; without stack.json or construct.json, or with damaged ones,
/// the answer lacks what they say and a note tells so. A rank whose dump.json is missing or damaged is left
/// out and listed in `unread_ranks`.
///
/// The answer does not depend on the number of threads. Memory: dump.json of the ranks that are read at the
/// moment, and some 60 bytes for each communication of each rank.
///
/// Throws InvalidArgument for a directory without ranks, two folders of one rank, and a cancelled analysis;
/// IoError or FormatError when no rank can be read.
MSPROBE_API Analysis find_origins(const std::filesystem::path& step_dir, const AnalyzeOptions& options = {});

}  // namespace msprobe::overflow
