// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Do two runs agree, and where do they diverge? judge_dumps() goes over the calls and the training state of
/// both runs in the order in which a step runs, finds the places where they differ by more than what led
/// there explains, and chooses among those of all steps and ranks (docs/verdict.md).

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/metrics.h"

namespace msprobe::compare {

using metrics::Distance;

// ----------------------------------------------------------------------------------------------- findings

/// What differs.
enum class FindingKind : std::uint8_t {
  kInputData,
  kWeight,
  kBuffer,
  kArgument,
  kModuleAttribute,
  kOperator,
  kInPlace,  // a tensor was changed between two uses of it
  kMissingCall,
  kExtraCall,
  kGradient,
  kReduction,
  kClipping,
  kOptimizerSetting,
  kOptimizerState,
  kUpdate,  // the optimizer steps by another rule
  kRandomness
};

/// "input_data", "module_attribute", ...
MSPROBE_API std::string_view kind_name(FindingKind kind) noexcept;

/// The parts of a training step, in the order in which they run.
enum class Phase : std::uint8_t {
  kRandomState,
  kInputs,
  kParameters,
  kBuffers,
  kModules,
  kCalls,      // forward, loss and backward, as they ran
  kGradients,  // of parameters, before they are reduced over ranks
  kReduction,
  kClipping,
  kAtOptimizer,
  kOptimizerSetting,
  kOptimizerState,
  kUpdate  // calls within the optimizer, and what it leaves behind
};

/// What a sentence of a verdict says. docs/formats/verdict.md has them with their words for programs.
enum class Reason : std::uint8_t {
  kInputDiffers,
  kParameterDiffers,
  kBufferDiffers,
  kParameterMoved,
  kBufferMoved,
  kParameterOf,
  kOnlyTargetHas,
  kOnlyReferenceHas,
  kFirstInput,
  kNoCallMadeIt,
  kWritten,
  kNotTheSame,
  kAnotherTensor,
  kResultOfEqual,
  kResult,
  kDtypes,
  kRandom,
  kValues,
  kMissingCall,
  kExtraCall,
  kAndTheNext,
  kAndMore,
  kGradientOfRecord,
  kGradient,
  kReducedGradient,
  kBeforeClipping,
  kClippedGradient,
  kGradientAtOptimizer,
  kStateBefore,
  kStateAfter,
  kOtherRule,
  kOtherRuleOfReference,
  kRandomState,
  kCounts,
  kRequiresGrad,
  kOtherNames,
  kModuleSetting,
  kClippingSetting,
  kOptimizerSetting,
  kParameterSetting,
  kOnlyTargetUpdates,
  kOnlyReferenceUpdates,
  kAndMoreParameters,
  kNoConsequence,
  kByChance,
  kOtherShape,
  kOtherDtype,
  kUnrelated,
  kMoreNotes
};

enum class Language : std::uint8_t { kEnglish, kChinese };

/// One sentence, or the end of one, and what it is about: names and values in their order.
struct Clause {
  Reason reason = Reason::kResult;
  std::vector<std::string> about;
};
using Because = std::vector<Clause>;

/// "result_of_equal_inputs": for programs.
MSPROBE_API std::string_view reason_word(Reason reason) noexcept;

/// The sentence for a person.
MSPROBE_API std::string text_of(const Because& because, Language language = Language::kEnglish);

/// The sum that a tolerance is: what each source is off by times what is made of it, and rounding of its own.
struct Explanation {
  struct Share {
    std::string name;  // of the source; empty: it is no single place
    double error = 0;  // relative L2 distance
    double gain = 0;
  };
  std::string rule;           // "same_value", "operator", "chain", "opaque", "origin", "update", "unknown"
  std::string operator_name;  // in the catalogue; empty: none, or not known
  std::vector<Share> sources;
  double own = 0;                   // rounding of its own
  double tolerance = 0;             // relative L2 distance
  double tolerance_of_bias = 0;     // of norm and mean
  double tolerance_of_element = 0;  // of one element, where all sources are equal; 0: they are not
  double limit = 0;                 // beyond it a place is suspect
};

/// A place where the runs differ more than what led there explains.
struct Finding {
  FindingKind kind = FindingKind::kOperator;
  Phase phase = Phase::kCalls;
  double order = 0;  // within the phase, in the order of execution
  int step = 0;
  int rank = 0;
  std::string name;           // of the record, parameter, setting or input
  std::string module;         // path of the module it belongs to: "blocks.0.mlp"; empty: none or unknown
  std::string operator_name;  // "Functional.gelu"; empty: none
  Because because;            // what is said of it
  std::string target_value;   // of settings and arguments
  std::string reference_value;
  /// Record whose stack shows the place: of the target, or of the reference where `is_of_reference`.
  std::string record;
  bool is_of_reference = false;

  Distance distance;  // of what differs; low is infinite where it has no measure (a setting, a missing call)
  double explained = 0;     // relative L2 distance that what led here explains
  Explanation explanation;  // how that comes about; without a rule where there is no distance
  /// How many times what differs is beyond what is explained: 1 and more is suspect. Infinite: it has no
  /// measure.
  double strength = std::numeric_limits<double>::infinity();
  /// The same of what comes of it, for what has no measure of its own. NaN: it cannot be seen.
  double effect = std::numeric_limits<double>::quiet_NaN();
  bool exact_before = true;  // nothing that led here differs
  /// Another number was passed or set, and what comes of it is hidden by the rounding around it.
  bool is_hidden = false;
  /// Nothing comes of it in its step; it is suspect where losses or gradients of another step do not agree.
  bool counts_later = false;

  auto place() const noexcept { return std::tuple(step, phase, order, rank); }
};

/// The finding in words that need no knowledge of records: "the backward of gelu in blocks.0 is off by more
/// than its inputs explain, called at model.py:30". `at`: the line of code; empty: not known.
MSPROBE_API std::string plain_text(const Finding& finding, std::string_view at = {},
                                   Language language = Language::kEnglish);

/// The sum in lines: what came in, what is made of it, what is allowed, what was found. Empty where there is
/// no distance.
MSPROBE_API std::string sum_text(const Explanation& sum, const Distance& found,
                                 Language language = Language::kEnglish);

// ------------------------------------------------------------------------------------------------ verdict

enum class Status : std::uint8_t {
  kEqual,  // every value that both recorded, and every checksum where they are; and nothing comes of the rest
  kRounding,  // differences, all explained by rounding
  kDiffer     // more than that: with culprits, or without where no place can be named
};

/// "equal", "rounding", "differ".
MSPROBE_API std::string_view status_name(Status status) noexcept;

struct Verdict {
  Status status = Status::kEqual;
  std::vector<Finding> culprits;  // best first, at most 3
  /// kDiffer without culprits: the narrowest stretch that the records show.
  std::string last_agreeing;
  std::string first_differing;
  std::vector<Because> notes;  // differences without an effect
  bool has_noise = false;      // something was taken for rounding
};

/// How sure it is that this culprit is where the runs diverge, in (0, 1]; `place`: among the culprits, from
/// 0.
MSPROBE_API double confidence(const Finding& finding, std::size_t place);

// ---------------------------------------------------------------------------------------- from the files

/// What both runs recorded of one step and rank.
struct ComparedDumps {
  std::filesystem::path target;     // a dump.json, that of the run under test
  std::filesystem::path reference;  // its counterpart
  int step = 0;
  int rank = 0;
  /// Also write the comparison row by row to this .xlsx or .csv (docs/formats/compare.md); empty: no.
  std::filesystem::path table = {};
};

/// Compares two runs and judges them: over all steps and ranks that are given, of each rank in the order of
/// its steps. Reads what lies beside each dump.json as well: stack.json, construct.json, diagnosis.json and,
/// of task tensor, the files of the tensors. One pair of dumps is in memory at a time. `threads`: 0 = all
/// cores.
///
/// Throws IoError and FormatError that name the file; InvalidArgument when two dumps cannot be compared.
MSPROBE_API Verdict judge_dumps(std::span<const ComparedDumps> dumps, unsigned threads = 0);

}  // namespace msprobe::compare
