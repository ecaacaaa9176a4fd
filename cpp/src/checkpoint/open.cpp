// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <unordered_set>

#include "checkpoint/json_settings.h"
#include "checkpoint/megatron.h"
#include "checkpoint/names.h"
#include "checkpoint/optimizer.h"
#include "checkpoint/pieces.h"
#include "checkpoint/state.h"
#include "checkpoint/state_dict.h"
#include "io/file/mapped_file.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"
#include "msprobe/file.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;
using io::in_quotes;
using io::PtValue;

constexpr std::string_view kTracker = "latest_checkpointed_iteration.txt";

// ---- finding the folder

std::string strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  return std::string(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
}

// The folder that the file about the latest iteration names.
fs::path iteration_folder(const fs::path& path) {
  const fs::path tracker = path / kTracker;
  const io::InputFile file(tracker);
  constexpr std::uint64_t kLongest = 64;
  if (file.size() > kLongest) {
    throw FormatError(tracker.string(), "",
                      "expected the number of an iteration, found " + std::to_string(file.size()) + " bytes");
  }
  std::string text(file.size(), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  text = strip(text);
  if (text == "release") return path / text;
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) {
    throw FormatError(tracker.string(), "",
                      "expected the number of an iteration or \"release\", found " + in_quotes(text));
  }
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
  const fs::path folder =
      path / ("iter_" + std::string(7 - std::min<std::size_t>(7, text.size()), '0') + text);
  if (!fs::is_directory(folder)) {
    throw FormatError(
        tracker.string(), "",
        "names iteration " + text + ", but there is no folder " + in_quotes(folder.filename().string()));
  }
  return folder;
}

// "iter_0000005" in a path.
std::optional<std::int64_t> iteration_of(const fs::path& path) {
  const std::string text = path.string();
  constexpr std::string_view kWord = "iter_";
  constexpr std::size_t kDigits = 7;
  for (std::size_t at = text.rfind(kWord); at != std::string::npos && at > 0;
       at = text.rfind(kWord, at - 1)) {
    const char* const begin = text.data() + at + kWord.size();
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error == std::errc{} && end >= begin + kDigits) return number;
  }
  return std::nullopt;
}

std::vector<std::string> files_ending(const fs::path& folder, std::string_view ending) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(ending) && !entry.is_directory()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool has_rank_folders(const fs::path& folder) {
  const fs::directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("mp_rank_") && entry.is_directory();
  });
}

// ---- one file

bool is_wrapper(const PtValue* value) { return value != nullptr && value->as<io::PtDict>() != nullptr; }

// The part of a file that is the model: programs put it beside the optimizer under one of these names. Null
// where the file has none of them.
const PtValue* model_in(const PtValue& root) {
  for (const std::string_view key : {"model", "state_dict", "model_state_dict", "module", "model_state"}) {
    const PtValue* const part = find(&root, key);
    if (is_wrapper(part)) return part;
  }
  return nullptr;
}

bool is_optimizer_name(std::string_view name) {
  return name.starts_with("optimizer") || name.starts_with("optim.") || name.starts_with("lr_scheduler") ||
         name.starts_with("opt_param_scheduler") || name.starts_with("rng_state");
}

void add_all(Checkpoint::State& state, Collected collected, const Rules& rules) {
  for (Parameter& one : collected.parameters) {
    if (!matches_any(rules.ignored, one.name)) state.parameters.push_back(std::move(one));
  }
  std::move(collected.left_out.begin(), collected.left_out.end(), std::back_inserter(state.left_out));
}

void add_megatron_file(Checkpoint::State& state, const PtValue& root, const std::string& path,
                       const OpenOptions& options) {
  auto chunks = megatron_chunks(root, path, options, open_buckets(state, path, options), state.left_out);
  const auto is_present = [&](const std::string& text) {
    return std::any_of(chunks.begin(), chunks.end(), [&](const auto& chunk) {
      return std::any_of(chunk.begin(), chunk.end(),
                         [&](const Parameter& one) { return one.name.find(text) != std::string::npos; });
    });
  };
  const std::vector<Renaming> renamings = renamings_for(options.rules, is_present);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    // The layers of each part count from 0: only a whole checkpoint tells which ones they are.
    const std::string prefix = chunks.size() > 1 ? "model" + std::to_string(i) + "." : "";
    for (Parameter& one : chunks[i]) {
      one.name = prefix + renamed(std::move(one.name), renamings);
      state.parameters.push_back(std::move(one));
    }
  }
  const Settings settings(find(&root, "args"));
  read_attention(settings, state.attention);
  const PtValue* const iteration = find(&root, "iteration");
  const auto* const number = iteration == nullptr ? nullptr : iteration->as<std::int64_t>();
  if (number != nullptr && !state.layout.iteration) state.layout.iteration = *number;
}

void add_pt_file(Checkpoint::State& state, const fs::path& path, const OpenOptions& options) {
  const PtValue& root = state.open_pt(path);
  if (is_megatron(root)) return add_megatron_file(state, root, path.string(), options);
  const PtValue* const model = model_in(root);
  Collected collected = collect(model == nullptr ? root : *model, "", path.string());
  if (model == nullptr) {
    std::erase_if(collected.parameters, [](const Parameter& one) { return is_optimizer_name(one.name); });
  }
  if (options.optimizer) {
    for (const std::string_view key : {"optimizer", "optimizer_state_dict", "optim"}) {
      const PtValue* const optimizer = find(&root, key);
      if (optimizer == nullptr) continue;
      std::vector<Parameter> states =
          optimizer_states(*optimizer, collected.parameters, path.string(), state.left_out);
      std::move(states.begin(), states.end(), std::back_inserter(collected.parameters));
      break;
    }
  }
  add_all(state, std::move(collected), options.rules);
}

void add_tensors(Checkpoint::State& state, std::span<const io::SafetensorsTensor> tensors,
                 const OpenOptions& options) {
  for (const io::SafetensorsTensor& tensor : tensors) {
    if (matches_any(options.rules.ignored, tensor.name)) continue;
    if (!tensor.dtype) {
      state.left_out.push_back({tensor.name, "a tensor of dtype " + in_quotes(tensor.dtype_name)});
      continue;
    }
    state.parameters.push_back(whole(tensor.name, {tensor.data.data(), *tensor.dtype, tensor.shape, {}}));
  }
}

// MindSpore keeps what belongs to an optimizer among the parameters: "moments.fc.weight", which becomes
// "optimizer.momentum_buffer.fc.weight" or is left out, and numbers of the step.
void take_optimizer(std::vector<Parameter>& parameters, bool wanted) {
  constexpr std::array<std::string_view, 12> kOfStep{"global_step",
                                                     "learning_rate",
                                                     "weight_decay",
                                                     "momentum",
                                                     "beta1_power",
                                                     "beta2_power",
                                                     "epoch",
                                                     "epoch_num",
                                                     "step_num",
                                                     "scale_sense",
                                                     "current_iterator_step",
                                                     "last_overflow_iterator_step"};
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kStates{
      {{"moments", "momentum_buffer"}, {"moment1", "exp_avg"}, {"moment2", "exp_avg_sq"}}};
  std::unordered_set<std::string> names;
  for (const Parameter& one : parameters) names.insert(one.name);
  std::vector<Parameter> kept;
  for (Parameter& one : parameters) {
    const std::size_t dot = one.name.find('.');
    if (dot == std::string::npos) {
      const bool is_of_step = std::find(kOfStep.begin(), kOfStep.end(), one.name) != kOfStep.end();
      if (!is_of_step) kept.push_back(std::move(one));
      continue;
    }
    if (names.contains(one.name.substr(dot + 1))) {
      if (!wanted) continue;
      std::string_view kind = std::string_view(one.name).substr(0, dot);
      for (const auto& [own, as_torch] : kStates) kind = kind == own ? as_torch : kind;
      one.name = std::string("optimizer.").append(kind).append(one.name.substr(dot));
    }
    kept.push_back(std::move(one));
  }
  parameters = std::move(kept);
}

void add_mindspore(Checkpoint::State& state, const fs::path& path, const OpenOptions& options) {
  state.ckpt_files.push_back(io::CkptFile::open(path));
  state.files.push_back(path);
  add_tensors(state, state.ckpt_files.back().tensors(), options);
  state.is_mindspore = true;
}

void add_safetensors(Checkpoint::State& state, const fs::path& path, const OpenOptions& options) {
  state.safetensors.push_back(io::SafetensorsFile::open(path));
  state.files.push_back(path);
  add_tensors(state, state.safetensors.back().tensors(), options);
  const auto& metadata = state.safetensors.back().metadata();
  const auto format = metadata.find("format");
  state.is_mindspore |= format != metadata.end() && format->second == "ms";
}

enum class Form : std::uint8_t { kPt, kSafetensors, kMindSpore };

// By how the file begins; safetensors begin with a length, files of MindSpore with their first field.
Form form_of(const fs::path& path) {
  const io::InputFile file(path);
  std::array<std::uint8_t, 2> head{};
  if (file.size() < head.size()) return Form::kPt;
  file.read(0, head);
  if ((head[0] == 'P' && head[1] == 'K') || head[0] == 0x80) return Form::kPt;
  if (path.extension() == ".safetensors") return Form::kSafetensors;
  constexpr std::uint8_t kFirstField = 0x0A;
  return head[0] == kFirstField || path.extension() == ".ckpt" ? Form::kMindSpore : Form::kPt;
}

void add_file(Checkpoint::State& state, const fs::path& path, const OpenOptions& options) {
  switch (form_of(path)) {
    case Form::kPt: return add_pt_file(state, path, options);
    case Form::kSafetensors: return add_safetensors(state, path, options);
    case Form::kMindSpore: return add_mindspore(state, path, options);
  }
}

// ---- files beside those with tensors

// config.json of a model says how its attention is made.
void read_model_config(Checkpoint::State& state) {
  const fs::path path = state.layout.folder / "config.json";
  if (!fs::is_regular_file(path)) return;
  constexpr std::string_view kInner = "text_config";
  const std::vector<JsonSetting> settings = read_json_settings(path);
  state.model_type = find_setting(settings, "model_type", kInner).value_or("");
  AttentionSizes& sizes = state.attention;
  sizes.heads = number_of(settings, "num_attention_heads", kInner);
  if (sizes.heads == 0) sizes.heads = number_of(settings, "n_head", kInner);
  sizes.groups = number_of(settings, "num_key_value_heads", kInner);
  if (sizes.groups == 0) sizes.groups = sizes.heads;
  sizes.head_size = number_of(settings, "head_dim", kInner);
  std::int64_t hidden = number_of(settings, "hidden_size", kInner);
  if (hidden == 0) hidden = number_of(settings, "n_embd", kInner);
  if (sizes.head_size == 0 && sizes.heads > 0) sizes.head_size = hidden / sizes.heads;
}

void require_unique_names(Checkpoint::State& state) {
  std::unordered_set<std::string_view> names;
  for (const Parameter& one : state.parameters) {
    if (!names.insert(one.name).second) {
      throw FormatError(state.layout.folder.string(), in_quotes(one.name), "two parameters have this name");
    }
  }
}

// What to open in a folder that is none of those with ranks or shards.
void read_folder(Checkpoint::State& state, const OpenOptions& options) {
  const fs::path& folder = state.layout.folder;
  for (const std::string_view rank_file : {"model_optim_rng.pt", "model_rng.pt"}) {
    if (fs::exists(folder / rank_file))
      return read_single_file(state, file_within(folder, std::string(rank_file)), options);
  }
  for (const std::string_view ending : {".safetensors.index.json", ".bin.index.json", ".pt.index.json"}) {
    const std::vector<std::string> indices = files_ending(folder, ending);
    if (!indices.empty()) return read_indexed(state, file_within(folder, indices.front()), options);
  }
  if (!files_ending(folder, ".safetensors").empty()) return read_indexed(state, {}, options);
  std::vector<std::string> single = files_ending(folder, ".bin");
  for (const std::string_view ending : {".pt", ".pth", ".ckpt"}) {
    const std::vector<std::string> more = files_ending(folder, ending);
    single.insert(single.end(), more.begin(), more.end());
  }
  std::erase_if(single, [](const std::string& name) {
    return name.starts_with("training_args") || name.starts_with("optimizer") ||
           name.starts_with("scheduler");
  });
  if (single.size() == 1) return read_single_file(state, file_within(folder, single.front()), options);
  if (!files_ending(folder, ".distcp").empty()) {
    throw FormatError(folder.string(), "\".metadata\"",
                      "is missing: the checkpoint was not finished, or not copied whole");
  }
  throw FormatError(
      folder.string(), "",
      "found no checkpoint: expected folders mp_rank_*, .metadata with *.distcp, *.safetensors, or "
      "one file .pt, .pth, .bin or .ckpt, found " +
          std::to_string(single.size()) + " of these");
}

void read_path(Checkpoint::State& state, const fs::path& path, const OpenOptions& options) {
  if (!fs::is_directory(path)) {
    state.layout.folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    state.layout.iteration = iteration_of(path);
    const std::string name = path.filename().string();
    if (name.ends_with(".index.json")) return read_indexed(state, path, options);
    if (name == ".metadata") {
      state.layout.kind = Kind::kDistributed;
      return read_distributed(state, options);
    }
    return read_single_file(state, path, options);
  }
  state.layout.folder = fs::exists(path / kTracker) ? iteration_folder(path) : path;
  state.layout.iteration = iteration_of(state.layout.folder);
  if (has_rank_folders(state.layout.folder)) {
    state.layout.kind = Kind::kMegatron;
    read_megatron(state, options);
  } else if (fs::exists(state.layout.folder / ".metadata")) {
    state.layout.kind = Kind::kDistributed;
    read_distributed(state, options);
  } else {
    read_folder(state, options);
  }
}

}  // namespace

fs::path file_within(const fs::path& folder, const std::string& name) {
  const fs::path relative(name);
  const auto refuse = [&](const std::string& problem) {
    throw FormatError(folder.string(), in_quotes(name), problem);
  };
  if (name.empty() || relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end()) {
    refuse("expected the name of a file in the folder");
  }
  std::error_code error;
  const fs::path path = folder / relative;
  const fs::path found = fs::canonical(path, error);
  if (error) {
    if (error == std::errc::no_such_file_or_directory) refuse("the file is missing");
    throw IoError("cannot find", path.string(), error.value());
  }
  const auto is_below = [&found](const fs::path& root) {
    return std::mismatch(root.begin(), root.end(), found.begin(), found.end()).first == root.end();
  };
  const fs::path root = fs::canonical(folder, error);
  const bool is_snapshot = root.parent_path().filename() == "snapshots";
  if (!is_below(root) && !(is_snapshot && is_below(root.parent_path().parent_path() / "blobs"))) {
    refuse("is a symbolic link that leads out of the folder");
  }
  if (!fs::is_regular_file(found)) refuse("is not a regular file");
  return path;
}

void Checkpoint::State::warn_of_call(const fs::path& path, std::string_view name) {
  constexpr std::array<std::string_view, 22> kModules{
      "os",      "posix",     "nt",     "subprocess", "sys",        "shutil",   "socket",          "pty",
      "runpy",   "importlib", "ctypes", "code",       "webbrowser", "commands", "multiprocessing", "pickle",
      "marshal", "tempfile",  "urllib", "requests",   "http",       "cffi"};
  constexpr std::array<std::string_view, 11> kBuiltins{"eval",    "exec",    "compile",   "open",
                                                       "getattr", "setattr", "delattr",   "__import__",
                                                       "globals", "input",   "breakpoint"};
  const auto is_one_of = [](const auto& list, std::string_view text) {
    return std::find(list.begin(), list.end(), text) != list.end();
  };
  constexpr std::string_view kBuiltin = "builtins.";
  const bool is_bad = name.starts_with(kBuiltin) ? is_one_of(kBuiltins, name.substr(kBuiltin.size()))
                                                 : is_one_of(kModules, name.substr(0, name.find('.')));
  if (!is_bad) return;
  std::string warning = path.string() + ": the file asks to call " + in_quotes(name) +
                        ", which was not done; do not load it with torch";
  constexpr std::size_t kMost = 100;
  const bool is_known = std::find(warnings.begin(), warnings.end(), warning) != warnings.end();
  if (!is_known && warnings.size() < kMost) warnings.push_back(std::move(warning));
}

const io::PtValue& Checkpoint::State::open_pt(const fs::path& path) {
  pt_files.push_back(io::PtFile::open(path, {.copy_unaligned = false}));
  for (const std::string& name : pt_files.back().unknown_calls()) warn_of_call(path, name);
  files.push_back(path);
  return pt_files.back().root();
}

void read_single_file(Checkpoint::State& state, const fs::path& path, const OpenOptions& options) {
  add_file(state, path, options);
  state.layout.kind = !state.ckpt_files.empty()    ? Kind::kMindSpore
                      : !state.safetensors.empty() ? Kind::kSafetensors
                                                   : Kind::kFile;
}

void read_indexed(Checkpoint::State& state, const fs::path& index, const OpenOptions& options) {
  std::set<std::string> names;
  std::vector<JsonSetting> settings;
  if (index.empty()) {
    for (std::string& name : files_ending(state.layout.folder, ".safetensors")) names.insert(std::move(name));
  } else {
    settings = read_json_settings(index);
    for (const JsonSetting& one : settings) {
      if (one.section == "weight_map") names.insert(one.value);
    }
    if (names.empty()) throw FormatError(index.string(), "\"weight_map\"", "names no files");
  }
  for (const std::string& name : names) add_file(state, file_within(state.layout.folder, name), options);
  state.layout.kind = state.safetensors.empty() ? Kind::kBinFiles : Kind::kSafetensors;
  std::unordered_set<std::string_view> found;
  for (const Parameter& one : state.parameters) found.insert(one.name);
  for (const LeftOut& one : state.left_out) found.insert(one.name);
  for (const JsonSetting& one : settings) {
    if (one.section == "weight_map" && !found.contains(one.key) &&
        !matches_any(options.rules.ignored, one.key)) {
      throw FormatError(index.string(), in_quotes(one.key), "is not in the file that the index names");
    }
  }
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const fs::path& path, const OpenOptions& options) {
  if (!fs::exists(path)) throw IoError("cannot find the checkpoint", path.string(), ENOENT);
  auto state = std::make_unique<State>();
  try {
    read_path(*state, path, options);
    read_model_config(*state);
    if (state->is_mindspore) {
      state->model_type = "mindspore";  // whatever else it is, its names are those of MindSpore
      take_optimizer(state->parameters, options.optimizer);
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError("cannot read the checkpoint", path.string(), error.code().value());
  }
  require_unique_names(*state);
  return Checkpoint(std::move(state));
}

const Layout& Checkpoint::layout() const noexcept { return state_->layout; }
const AttentionSizes& Checkpoint::attention() const noexcept { return state_->attention; }
std::span<const Parameter> Checkpoint::parameters() const noexcept { return state_->parameters; }
const std::vector<LeftOut>& Checkpoint::left_out() const noexcept { return state_->left_out; }
const std::vector<std::string>& Checkpoint::warnings() const noexcept { return state_->warnings; }
const std::vector<fs::path>& Checkpoint::files() const noexcept { return state_->files; }
const std::string& Checkpoint::model_type() const noexcept { return state_->model_type; }

void Checkpoint::give_back_memory() const noexcept {
  for (const io::PtFile& file : state_->pt_files) io::give_back(file.memory());
  for (const io::SafetensorsFile& file : state_->safetensors) io::give_back(file.memory());
  for (const io::CkptFile& file : state_->ckpt_files) io::give_back(file.memory());
  for (const auto& file : state_->mappings) io::give_back(file->bytes());
}

std::uint64_t Checkpoint::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const Parameter& one : state_->parameters) {
    sum += static_cast<std::uint64_t>(count_of(one.shape)) * element_size(one.dtype);
  }
  return sum;
}

}  // namespace msprobe::checkpoint
