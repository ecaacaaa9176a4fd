// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

/// What a configuration may say.
///
///  * A key: one row of kKeys, or of kMonitorKeys (monitor_keys.cpp). It is read, checked, completed and
///    explained by it. Keys of an object inside of a section, as at `alarm` of section `monitor`: rows of
///    "monitor.alarm", and at `alarm` Type::kObject.
///  * A task: one row of kTasks, and the rows of its keys.
///  * What a row cannot say, as how keys go together: a function in rules.cpp, and its row of kRules. A check
///    that needs Python, or that is to stay there for now: Type::kAnything, and Python looks at the value.
///
/// docs/formats/config.md is made of the rows: `python -m msprobe.config.documentation
/// docs/formats/config.md`. For static types in Python: a class in python/msprobe/config/loading.py.

#include <algorithm>
#include <array>
#include <limits>

#include "config/monitor_keys.h"
#include "config/rules.h"
#include "msprobe/config.h"

namespace msprobe::config {
namespace {

// ---- tasks

constexpr Task kTasks[] = {
    {.name = "statistics", .meaning = "dtype, shape, max, min, mean and norm of each tensor"},
    {.name = "tensor", .meaning = "the same, and a file with all elements"},
    {.name = "structure", .meaning = "names, call stacks and hierarchy, no numbers", .levels = "L0 mix"},
    {.name = "overflow_check", .meaning = "only records with a NaN or an infinity, with their tensors"},
    {.name = "grad_probe", .meaning = "gradients at each optimizer step, no dump"},
    {.name = "free_benchmark",
     .meaning = "calls are made a second time with a small change, and what is too far off is a row",
     .levels = "L1"},
    {.name = "monitor",
     .meaning = "what the training does, at every step: statistics, rules and alarms",
     .is_strict = true},
    // Known from mindstudio-probe.
    {.name = "run_ut",
     .meaning = "command msprobe run_ut checks a dump of task tensor or statistics",
     .is_available = false},
    {.name = "acc_check",
     .meaning = "command msprobe acc_check checks a dump of task tensor or statistics",
     .is_available = false},
    {.name = "diff_check",
     .meaning = R"(msprobe compare finds where two dumps of "summary_mode": "md5" begin to differ)",
     .is_available = false},
    {.name = "nan_check",
     .meaning = "task overflow_check records the calls with a NaN or an infinity",
     .is_available = false},
    {.name = "exception_dump",
     .meaning = "msprobe run records the step in which a program fails up to its last call",
     .is_available = false},
};

struct RulesRow {
  std::string_view sections;  // separated by spaces
  Rules rules;
};

constexpr RulesRow kRules[] = {
    {"statistics tensor structure overflow_check", check_dump},
    {"free_benchmark", check_free_benchmark},
    {"monitor", check_monitor},
    {"monitor.rules", check_monitor_rule},
    {"monitor.alarm", check_monitor_alarm},
    {"run_ut acc_check", check_run_ut},
};

// ---- words

constexpr Word kLevels[] = {
    {"L0", "modules"},
    {"L1", "functions"},
    {"L2", "the operators below one function or module"},
    {"mix", "modules and functions"},
    {"debug", "only what is given to save()"},
};
constexpr Word kSummaryModes[] = {
    {"statistics", "max, min, mean and norm"},
    {"md5", "also checksums (CRC-32): equal checksums are equal tensors"},
    {"xor", "the same as md5"},
};
constexpr Word kDataModes[] = {{"forward", ""}, {"backward", ""}, {"input", ""}, {"output", ""}};
constexpr Word kFileFormats[] = {{"npy", ""}, {"bin", ""}};
constexpr Word kTensorFormats[] = {{"pt", "that of torch.save"}, {"npy", "that of NumPy"}};
constexpr Word kCheckModes[] = {{"all", ""}, {"aicore", ""}, {"atomic", ""}};
constexpr Word kApiSets[] = {
    {"default", "those that mindstudio-probe records"},
    {"all", "every function of torch, custom ones as well"},
};
constexpr Word kJsons[] = {
    {"at_stop", "at stop and step"},
    {"packed", "when the step ends, as one compressed file for each step, step.zip, which holds them all"},
    {"deferred", "not yet: only the compact record is, of which msprobe export makes them"},
};
constexpr Word kDiagnoses[] = {
    {"inputs", "of the model"},
    {"parameters", "and buffers, before the step"},
    {"gradients", "of parameters"},
    {"optimizer", "its settings and state"},
    {"rng", "states of the random generators"},
    {"modules", "training or evaluation, hooks, dtypes"},
    {"determinism", "settings of torch"},
};
constexpr Word kGradLevels[] = {
    {"L0", "max, min, norm and a checksum of each gradient"},
    {"L1", "the same, and the signs, which can be compared"},
    {"L2", "the same, and a distribution over intervals"},
};
constexpr Word kGradLayouts[] = {
    {"auto", "packed beside the dump of msprobe run, else npy"},
    {"npy",
     "a csv for each step, and a file of signs for each parameter and step, as mindstudio-probe has them"},
    {"packed", "one file for all steps, with one bit per sign"},
};
constexpr Word kPertModes[] = {
    {"improve_precision", "16-bit floats are float32"},
    {"add_noise", "the first argument plus a number that is small for its dtype"},
    {"change_value", "its first and last element change places"},
    {"no_change", "nothing changes: finds what does not give the same twice"},
    {"bit_noise", "its last bit is flipped"},
    {"to_cpu", "on the CPU"},
};
constexpr Word kFuzzDevices[] = {
    {"npu", "where the model is"}, {"cpu", "with pert_mode to_cpu"}, {"cuda", "the same as npu"}};
constexpr Word kHandlerTypes[] = {
    {"check", "the two results are compared"},
    {"fix", "the second result takes the place of the first"},
};
constexpr Word kFuzzLevels[] = {{"L1", ""}};
constexpr Word kFuzzStages[] = {{"forward", ""}, {"backward", ""}};

// ---- keys

constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();
constexpr std::string_view kPositive = "expected a positive integer";
constexpr std::string_view kTop;
constexpr std::string_view kDump = "statistics tensor structure overflow_check";
constexpr std::string_view kWithRecords = "statistics tensor overflow_check";
constexpr std::string_view kRunUt = "run_ut acc_check";

constexpr Key kKeys[] = {
    // The top level.
    {.tasks = kTop,
     .name = "task",
     .type = Type::kWord,
     .fallback = R"("statistics")",
     .meaning = "What is recorded."},
    {.tasks = kTop,
     .name = "dump_path",
     .type = Type::kPath,
     .fallback = "null",
     .meaning =
         "Folder of the record. Needed here or as an argument of PrecisionDebugger; without a file it is "
         "./dump_path.",
     .allowed = "not a file, not a symbolic link"},
    {.tasks = kTop,
     .name = "rank",
     .type = Type::kRanges,
     .fallback = "[]",
     .meaning = "Ranks that record. [] means all.",
     .allowed = "numbers from 0 to 1000000 and ranges \"a-b\", both ends included"},
    {.tasks = kTop,
     .name = "step",
     .type = Type::kRanges,
     .fallback = "[]",
     .meaning = "Steps that are recorded. [] means all.",
     .allowed = "as `rank`"},
    {.tasks = kTop,
     .name = "level",
     .type = Type::kWord,
     .fallback = R"("L1")",
     .words = kLevels,
     .meaning = "What has records of its own. Task grad_probe does not use it."},
    {.tasks = kTop,
     .name = "enable_dataloader",
     .type = Type::kSwitch,
     .fallback = "false",
     .meaning = "start, stop and step are called by the data loader."},
    {.tasks = kTop,
     .name = "async_dump",
     .type = Type::kSwitch,
     .fallback = "false",
     .meaning = "Tensors are written at stop and step."},
    {.tasks = kTop,
     .name = "extra_info",
     .type = Type::kSwitch,
     .fallback = "true",
     .meaning = "false: the default of `stacks` is false."},
    {.tasks = kTop,
     .name = "dump_enable",
     .type = Type::kSwitch,
     .fallback = "true",
     .meaning = "false: start does nothing. A file with this key is read again at each start."},
    {.tasks = kTop,
     .name = "precision",
     .fallback = R"("low")",
     .meaning = "statistics of tensors are always computed in double precision",
     .origin = Origin::kIgnored},
    {.tasks = kTop,
     .name = "risk_level",
     .fallback = R"("ALL")",
     .meaning = "the names of `list` choose which functions are recorded",
     .origin = Origin::kIgnored},
    {.tasks = kTop,
     .name = "custom_op_namespaces",
     .fallback = "[]",
     .meaning = R"("api_set": "all" records custom operators as well)",
     .origin = Origin::kIgnored},
    {.tasks = kTop,
     .name = "load",
     .fallback = "{}",
     .meaning = "msprobe ckpt and show read saved tensors",
     .origin = Origin::kIgnored},

    // Data dumps.
    {.tasks = kWithRecords,
     .name = "scope",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "Records from the first to the last of two, by their full names. [] means no limits."},
    {.tasks = kWithRecords,
     .name = "list",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "Only records whose name holds one of these; at level mix a module switches on all inside. "
                "[] means all."},
    {.tasks = "statistics",
     .name = "tensor_list",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "Records whose name holds one of these get tensor files as well. [] means none."},
    {.tasks = kWithRecords,
     .name = "data_mode",
     .type = Type::kWords,
     .fallback = R"(["forward", "backward", "input", "output"])",
     .words = kDataModes,
     .meaning = "Which parts of a call are recorded.",
     .allowed = "without a direction both are meant, and without a side both sides"},
    {.tasks = "statistics tensor",
     .name = "summary_mode",
     .type = Type::kWord,
     .fallback = R"("statistics")",
     .words = kSummaryModes,
     .meaning = "What is computed of each tensor."},
    {.tasks = kWithRecords,
     .name = "sketch",
     .type = Type::kSwitch,
     .fallback = "true",
     .meaning = "Each tensor has a digest and a sketch beside its statistics.",
     .origin = Origin::kOwn},
    {.tasks = "tensor",
     .name = "file_format",
     .type = Type::kWord,
     .fallback = R"("npy")",
     .words = kFileFormats,
     .meaning = "`tensor_format` chooses the form of tensor files",
     .complaint = "file_format is invalid, expected one of",
     .origin = Origin::kIgnored},
    {.tasks = "tensor",
     .name = "online_run_ut",
     .type = Type::kSwitch,
     .fallback = "false",
     .meaning =
         "Steps are sent to a checker, in place of files. While it is off, the keys that say where may "
         "hold anything.",
     .allowed = "true at level L1 or mix"},
    {.tasks = "tensor",
     .name = "nfs_path",
     .fallback = R"("")",
     .meaning = "A folder that both sides see. Wins over an address."},
    {.tasks = "tensor",
     .name = "host",
     .fallback = R"("")",
     .meaning = "Where the checker listens.",
     .allowed = "an IPv4 address"},
    {.tasks = "tensor", .name = "port", .fallback = "-1", .meaning = "The same.", .allowed = "1 to 65535"},
    {.tasks = "tensor",
     .name = "tls_path",
     .fallback = R"("")",
     .meaning = "A folder with client.key, client.crt and ca.crt. \"\" means TCP as it is."},
    {.tasks = "tensor",
     .name = "online_run_ut_recompute",
     .fallback = "false",
     .meaning = "recomputed calls are sent as all others",
     .origin = Origin::kIgnored},
    {.tasks = "overflow_check",
     .name = "overflow_nums",
     .type = Type::kInteger,
     .fallback = "1",
     .meaning = "Records with an overflow after which the collection ends. -1 means no limit.",
     .allowed = "1 or more, or -1",
     .complaint = "overflow_num is invalid, expected an integer"},
    {.tasks = "overflow_check",
     .name = "check_mode",
     .type = Type::kWord,
     .fallback = R"("all")",
     .words = kCheckModes,
     .meaning = "it is for kernels of Ascend devices; results of all calls are checked",
     .complaint = "check_mode is invalid, expected one of",
     .origin = Origin::kIgnored},
    {.tasks = kWithRecords,
     .name = "tensor_format",
     .type = Type::kWord,
     .fallback = R"("pt")",
     .words = kTensorFormats,
     .meaning = "The form of tensor files.",
     .origin = Origin::kOwn},
    {.tasks = kDump,
     .name = "api_set",
     .type = Type::kWord,
     .fallback = R"("default")",
     .words = kApiSets,
     .meaning = "Which functions are recorded.",
     .origin = Origin::kOwn},
    {.tasks = kDump,
     .name = "json",
     .type = Type::kWord,
     .fallback = R"("at_stop")",
     .words = kJsons,
     .meaning = "When the JSON files are written.",
     .origin = Origin::kOwn},
    {.tasks = kWithRecords,
     .name = "parameters",
     .type = Type::kSwitch,
     .fallback = "false",
     .meaning = "Checksums and statistics of parameters and buffers before the step: the same as the word in "
                "`diagnosis`.",
     .origin = Origin::kOwn},
    {.tasks = kDump,
     .name = "diagnosis",
     .type = Type::kWords,
     .fallback = "[]",
     .words = kDiagnoses,
     .meaning = "The state of the training beside the calls, for msprobe diagnose. [] means nothing.",
     .origin = Origin::kOwn},
    {.tasks = kDump,
     .name = "stacks",
     .type = Type::kSwitch,
     .fallback = "null",
     .meaning = "Call stacks are recorded.",
     .allowed = "without it as `extra_info`",
     .origin = Origin::kOwn},
    {.tasks = kDump,
     .name = "device",
     .meaning = "it is for static graphs of MindSpore",
     .origin = Origin::kIgnored},
    {.tasks = kDump,
     .name = "precision",
     .meaning = "statistics of tensors are always computed in double precision",
     .origin = Origin::kIgnored},

    // The gradient probe.
    {.tasks = "grad_probe",
     .name = "grad_level",
     .type = Type::kWord,
     .fallback = R"("L1")",
     .words = kGradLevels,
     .meaning = "What is kept of each gradient.",
     .complaint = "grad_level must be one of"},
    {.tasks = "grad_probe",
     .name = "layout",
     .type = Type::kWord,
     .fallback = R"("auto")",
     .words = kGradLayouts,
     .meaning = "The files.",
     .origin = Origin::kOwn},
    {.tasks = "grad_probe",
     .name = "param_list",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "Only these parameters, by their full names. [] means all.",
     .complaint = "param_list must be a list of parameter names"},
    {.tasks = "grad_probe",
     .name = "bounds",
     .type = Type::kNumbers,
     .fallback = "[-1, 0, 1]",
     .meaning = "Borders of the intervals at level L2. [] means one interval."},

    // The free benchmark.
    {.tasks = "free_benchmark",
     .name = "scope",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "The full names of the calls that are made again. [] means all."},
    {.tasks = "free_benchmark",
     .name = "list",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "Only calls whose name holds one of these. [] means all.",
     .allowed = "not together with `scope`"},
    {.tasks = "free_benchmark",
     .name = "fuzz_device",
     .type = Type::kWord,
     .fallback = R"("npu")",
     .words = kFuzzDevices,
     .meaning = "Where the second call is made.",
     .allowed = "\"cpu\" with `pert_mode` to_cpu, and only with it"},
    {.tasks = "free_benchmark",
     .name = "pert_mode",
     .type = Type::kWord,
     .fallback = R"("improve_precision")",
     .words = kPertModes,
     .meaning = "What is changed for the second call."},
    {.tasks = "free_benchmark",
     .name = "handler_type",
     .type = Type::kWord,
     .fallback = R"("check")",
     .words = kHandlerTypes,
     .meaning = "What is done with the second result.",
     .allowed = "\"fix\" with `pert_mode` improve_precision or to_cpu, forward, without `if_preheat`"},
    {.tasks = "free_benchmark",
     .name = "fuzz_level",
     .type = Type::kWord,
     .fallback = R"("L1")",
     .words = kFuzzLevels,
     .meaning = "Functions are called a second time."},
    {.tasks = "free_benchmark",
     .name = "fuzz_stage",
     .type = Type::kWord,
     .fallback = R"("forward")",
     .words = kFuzzStages,
     .meaning = "Which pass is made a second time."},
    {.tasks = "free_benchmark",
     .name = "if_preheat",
     .type = Type::kSwitch,
     .fallback = "false",
     .meaning = "The limits are learned in the first steps, by comparing with the CPU as well.",
     .allowed = "true only in the forward stage"},
    {.tasks = "free_benchmark",
     .name = "preheat_step",
     .type = Type::kInteger,
     .fallback = "15",
     .least = 1,
     .most = kMostCount,
     .meaning = "How many of the first steps the limits are learned in.",
     .complaint = kPositive},
    {.tasks = "free_benchmark",
     .name = "max_sample",
     .type = Type::kInteger,
     .fallback = "20",
     .least = 1,
     .most = kMostCount,
     .meaning = "How many calls of a function are compared with the CPU in each of these steps, at most.",
     .complaint = kPositive},

    // The accuracy check of operators, run_ut.
    {.tasks = kRunUt,
     .name = "white_list",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "Only these functions. [] means all."},
    {.tasks = kRunUt,
     .name = "black_list",
     .type = Type::kTexts,
     .fallback = "[]",
     .meaning = "Not these functions, whatever `white_list` says."},
    {.tasks = kRunUt,
     .name = "error_data_path",
     .type = Type::kPath,
     .fallback = R"("./")",
     .meaning = "Folder for the tensors of calls that do not pass.",
     .allowed = "a folder that exists"},
    {.tasks = kRunUt,
     .name = "precision",
     .type = Type::kInteger,
     .fallback = "14",
     .least = 0,
     .most = 20,
     .meaning = "Decimals in the files.",
     .complaint = "expected a number of decimals from 0 to 20"},
    {.tasks = kRunUt,
     .name = "is_online",
     .type = Type::kSwitch,
     .fallback = "false",
     .meaning = "Trainings are waited for, in place of a dump. While it is off, the keys that say where may "
                "hold anything."},
    {.tasks = kRunUt,
     .name = "nfs_path",
     .fallback = R"("")",
     .meaning = "A folder that both sides see. Wins over an address."},
    {.tasks = kRunUt,
     .name = "host",
     .fallback = R"("")",
     .meaning = "Where the check listens.",
     .allowed = "an IPv4 address"},
    {.tasks = kRunUt, .name = "port", .fallback = "-1", .meaning = "The same.", .allowed = "1 to 65535"},
    {.tasks = kRunUt,
     .name = "tls_path",
     .fallback = R"("")",
     .meaning = "A folder with server.key, server.crt and ca.crt. \"\" means TCP as it is."},
    {.tasks = kRunUt,
     .name = "rank_list",
     .fallback = "[0]",
     .meaning = "Ranks of the trainings that are checked.",
     .allowed = "a list of numbers of 0 or more"},
    {.tasks = kRunUt,
     .name = "accept_pickle",
     .type = Type::kSwitch,
     .fallback = "false",
     .meaning =
         "Trainings with mindstudio-probe may send over TCP, too: pickles, of which tensors and plain values "
         "are read and nothing is run."},
};

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> all = [] {
    std::vector<Key> rows(std::begin(kKeys), std::end(kKeys));
    const std::span<const Key> of_monitor = keys_of_monitor();
    rows.insert(rows.end(), of_monitor.begin(), of_monitor.end());
    return rows;
  }();
  return all;
}

std::span<const Task> tasks() { return kTasks; }

std::vector<Key> keys_of(std::string_view task) { return keys_of(task, keys()); }

std::vector<Key> keys_of(std::string_view section, std::span<const Key> rows) {
  std::vector<Key> result;
  for (const Key& key : rows) {
    if (section.empty() ? key.tasks.empty() : has_word(key.tasks, section)) result.push_back(key);
  }
  return result;
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::vector<Word> words_of(const Key& key) {
  std::vector<Word> result(key.words.begin(), key.words.end());
  if (key.tasks.empty() && key.name == "task") {
    for (const Task& task : kTasks) result.push_back({task.name, task.meaning});
  }
  return result;
}

Rules rules_of(std::string_view section) {
  const auto* const row = std::find_if(std::begin(kRules), std::end(kRules),
                                       [&](const RulesRow& one) { return has_word(one.sections, section); });
  return row == std::end(kRules) ? nullptr : row->rules;
}

std::string_view type_name(Type type) noexcept {
  switch (type) {
    case Type::kSwitch: return "true or false";
    case Type::kInteger: return "integer";
    case Type::kNumber: return "number";
    case Type::kText: return "text";
    case Type::kPath: return "path";
    case Type::kWord: return "word";
    case Type::kWords: return "list of words";
    case Type::kTexts: return "list of texts";
    case Type::kNumbers: return "list of ascending numbers";
    case Type::kRanges: return "list of numbers and ranges";
    case Type::kObject: return "object";
    case Type::kObjects: return "list of objects";
    case Type::kAnything: return "anything";
  }
  return "anything";
}

}  // namespace msprobe::config
