// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The "torch" format of Megatron: one file per tensor-, pipeline- and expert-parallel rank.

#include "checkpoint/megatron.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_set>

#include "checkpoint/merge.h"
#include "checkpoint/names.h"
#include "checkpoint/optimizer.h"
#include "checkpoint/optimizer_buckets.h"
#include "checkpoint/pieces.h"
#include "checkpoint/state.h"
#include "checkpoint/state_dict.h"
#include "io/in_quotes.h"
#include "msprobe/engines.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;
using io::PtValue;

constexpr std::string_view kPrefix = "mp_rank_";
constexpr std::array<std::string_view, 2> kFileNames{"model_optim_rng.pt", "model_rng.pt"};
constexpr int kMostRanks = 100'000;

// ---- which ranks there are

struct Rank {
  std::string folder;
  std::vector<int> numbers;  // of the name of the folder
  int tensor = 0;
  int pipeline = 0;
  int expert = 0;
  std::vector<Shards> chunks;
};

struct Sizes {
  int tensor = 1;
  int pipeline = 1;
  int expert = 1;
  int expert_tensor = 1;
};

std::optional<std::vector<int>> numbers_of(std::string_view folder) {
  std::vector<int> numbers;
  for (std::string_view rest = folder.substr(kPrefix.size());;) {
    const std::string_view part = rest.substr(0, rest.find('_'));
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc{} || end != part.data() + part.size() || number < 0 || number >= kMostRanks) {
      return std::nullopt;
    }
    numbers.push_back(number);
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  return numbers.size() > 3 ? std::nullopt : std::optional(numbers);
}

std::vector<Rank> list_ranks(Checkpoint::State& state) {
  std::vector<Rank> ranks;
  for (const auto& entry : fs::directory_iterator(state.layout.folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    if (const auto numbers = numbers_of(name)) {
      ranks.push_back({name, *numbers, 0, 0, 0, {}});
    } else {
      state.warnings.push_back(name + ": the name is not that of a rank; the folder is not read");
    }
  }
  std::sort(ranks.begin(), ranks.end(), [](const Rank& a, const Rank& b) { return a.numbers < b.numbers; });
  return ranks;
}

int largest(const std::vector<Rank>& ranks, std::size_t place) {
  int most = 0;
  for (const Rank& rank : ranks) {
    if (place < rank.numbers.size()) most = std::max(most, rank.numbers[place]);
  }
  return most + 1;
}

int positive(std::optional<std::int64_t> value, int otherwise) {
  return value && *value > 0 && *value <= kMostRanks ? static_cast<int>(*value) : otherwise;
}

Sizes sizes_of(const Settings& settings, const std::vector<Rank>& ranks) {
  const std::size_t parts = ranks.front().numbers.size();
  Sizes sizes;
  sizes.tensor = positive(settings.parallel_size(engines::kTensorParallel), largest(ranks, 0));
  sizes.expert =
      positive(settings.parallel_size(engines::kExpertParallel), parts == 3 ? largest(ranks, 2) : 1);
  const bool second_is_expert = parts == 2 && sizes.expert > 1;
  sizes.pipeline = positive(settings.parallel_size(engines::kPipelineParallel),
                            parts < 2 || second_is_expert ? 1 : largest(ranks, 1));
  sizes.expert_tensor = positive(settings.parallel_size(engines::kExpertTensorParallel), sizes.tensor);
  if (sizes.expert_tensor > sizes.tensor || sizes.tensor % sizes.expert_tensor != 0) {
    sizes.expert_tensor = sizes.tensor;
  }
  return sizes;
}

// The name of a rank's folder has as many numbers as there are kinds of parallelism in use.
std::string folder_of(int tensor, int pipeline, int expert, const Sizes& sizes) {
  const auto padded = [](int number, std::size_t digits) {
    const std::string text = std::to_string(number);
    return std::string(digits - std::min(digits, text.size()), '0') + text;
  };
  std::string name = std::string(kPrefix) + padded(tensor, 2);
  if (sizes.pipeline > 1) name += "_" + padded(pipeline, 3);
  if (sizes.expert > 1) name += "_" + padded(expert, 3);
  return name;
}

// Sets the places of the ranks. Throws FormatError for folders that do not go with the sizes.
void place_ranks(std::vector<Rank>& ranks, const Sizes& sizes, const fs::path& folder) {
  for (Rank& rank : ranks) {
    const std::size_t expected = 1U + (sizes.pipeline > 1 ? 1 : 0) + (sizes.expert > 1 ? 1 : 0);
    // Some versions write all numbers, or the stage of the only one.
    for (std::size_t i = 0; i < rank.numbers.size(); ++i) {
      const bool is_pipeline =
          i == 1 && (sizes.pipeline > 1 || rank.numbers.size() > expected || sizes.expert == 1);
      (i == 0 ? rank.tensor : is_pipeline ? rank.pipeline : rank.expert) = rank.numbers[i];
    }
    if (rank.numbers.size() < expected || rank.tensor >= sizes.tensor || rank.pipeline >= sizes.pipeline ||
        rank.expert >= sizes.expert) {
      throw FormatError(folder.string(), io::in_quotes(rank.folder),
                        "does not go with the sizes that the files give: tensor-parallel " +
                            std::to_string(sizes.tensor) + ", pipeline-parallel " +
                            std::to_string(sizes.pipeline) + ", expert-parallel " +
                            std::to_string(sizes.expert));
    }
  }
}

using Choose = std::function<bool(const Rank&)>;

const Rank* first_that(const std::vector<Rank>& ranks, const Choose& is_wanted) {
  const auto found = std::find_if(ranks.begin(), ranks.end(), is_wanted);
  return found == ranks.end() ? nullptr : &*found;
}

// The ranks that hold the shards of the dense parameters of a stage.
std::vector<const Rank*> dense_ranks(const std::vector<Rank>& ranks, int pipeline, const Sizes& sizes) {
  std::vector<const Rank*> chosen;
  chosen.reserve(static_cast<std::size_t>(sizes.tensor));
  for (int tensor = 0; tensor < sizes.tensor; ++tensor) {
    chosen.push_back(first_that(
        ranks, [=](const Rank& rank) { return rank.tensor == tensor && rank.pipeline == pipeline; }));
  }
  return chosen;
}

// Those of its experts; a tensor-parallel rank has number `tensor % expert_tensor` among these.
std::vector<const Rank*> expert_ranks(const std::vector<Rank>& ranks, int pipeline, int expert,
                                      const Sizes& sizes) {
  std::vector<const Rank*> chosen;
  chosen.reserve(static_cast<std::size_t>(sizes.expert_tensor));
  for (int tensor = 0; tensor < sizes.expert_tensor; ++tensor) {
    chosen.push_back(first_that(ranks, [=](const Rank& rank) {
      return rank.tensor % sizes.expert_tensor == tensor && rank.pipeline == pipeline &&
             rank.expert == expert;
    }));
  }
  return chosen;
}

void require_all_ranks(const std::vector<Rank>& ranks, const Sizes& sizes, const fs::path& folder) {
  if (std::int64_t{sizes.tensor} * sizes.pipeline > kMostRanks ||
      std::int64_t{sizes.tensor} * sizes.pipeline * sizes.expert > kMostRanks) {
    throw FormatError(folder.string(), "", "the sizes that the files give ask for more than 100000 ranks");
  }
  std::set<std::string> missing;
  for (int pipeline = 0; pipeline < sizes.pipeline; ++pipeline) {
    const std::vector<const Rank*> dense = dense_ranks(ranks, pipeline, sizes);
    for (int tensor = 0; tensor < sizes.tensor; ++tensor) {
      if (dense[static_cast<std::size_t>(tensor)] == nullptr)
        missing.insert(folder_of(tensor, pipeline, 0, sizes));
    }
    for (int expert = 0; expert < sizes.expert; ++expert) {
      const std::vector<const Rank*> some = expert_ranks(ranks, pipeline, expert, sizes);
      for (int tensor = 0; tensor < sizes.expert_tensor; ++tensor) {
        if (some[static_cast<std::size_t>(tensor)] == nullptr) {
          missing.insert(folder_of(tensor, pipeline, expert, sizes));
        }
      }
    }
  }
  if (missing.empty()) return;
  constexpr std::size_t kMostNamed = 8;
  std::string names;
  std::size_t named = 0;
  for (const std::string& name : missing) {
    if (named++ == kMostNamed) break;
    names += (names.empty() ? "" : ", ") + name;
  }
  if (missing.size() > kMostNamed) names += " and " + std::to_string(missing.size() - kMostNamed) + " more";
  throw FormatError(folder.string(), "", "ranks are missing: " + names);
}

// ---- names

bool is_expert(const std::string& name) { return find_number(name, "experts.").has_value(); }

// "experts.linear_fc1.weight3" becomes "experts.local_experts.3.linear_fc1.weight".
std::string ungrouped(const std::string& name) {
  constexpr std::string_view kGroup = "experts.linear_fc";
  const std::size_t at = name.find(kGroup);
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (at == std::string::npos || digits == name.size() || (at > 0 && name[at - 1] != '.')) return name;
  const std::string what = name.substr(at + kGroup.size(), digits - at - kGroup.size());
  if (what.size() < 2 || (what.substr(1) != ".weight" && what.substr(1) != ".bias")) return name;
  return name.substr(0, at) + std::string(engines::kOneExpert) + name.substr(digits) + ".linear_fc" + what;
}

// Experts whose weights lie in one matrix: the memory of weight1 is [expert][input][output], that of weight2
// too.
bool split_experts(const Parameter& parameter, std::int64_t experts, std::vector<Parameter>& out) {
  constexpr std::string_view kGroup = "experts.weight";
  const std::size_t at = parameter.name.rfind(kGroup);
  if (at == std::string::npos || at + kGroup.size() + 1 != parameter.name.size()) return false;
  const char which = parameter.name.back();
  const std::size_t along = which == '1' ? 1 : 0;
  if ((which != '1' && which != '2') || experts < 1 || parameter.shape.size() != 2 ||
      parameter.shape[along] % experts != 0) {
    return false;
  }
  const std::int64_t each = parameter.shape[along] / experts;
  const Shape shape =
      which == '1' ? Shape{experts, parameter.shape[0], each} : Shape{experts, each, parameter.shape[1]};
  const Parameter all = reshaped(parameter, shape);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    Parameter& one = out.emplace_back(transposed(select(all, expert)));
    one.name = parameter.name.substr(0, at) + std::string(engines::kOneExpert) + std::to_string(expert) +
               ".linear_fc" + which + ".weight";
  }
  return true;
}

// The number of experts of the layer: that of the outputs of its router, or else what the settings say.
std::int64_t expert_count(const std::string& name, const std::vector<Parameter>& all,
                          std::int64_t otherwise) {
  const std::string router = name.substr(0, name.rfind("experts.weight")) + "router.weight";
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Parameter& one) { return one.name == router; });
  return found == all.end() || found->shape.size() != 2 ? otherwise : found->shape[0];
}

// ---- one rank

std::vector<const PtValue*> chunks_of(const PtValue& root) {
  if (const PtValue* const model = find(&root, "model")) return {model};
  std::vector<const PtValue*> chunks;
  while (const PtValue* const chunk = find(&root, "model" + std::to_string(chunks.size())))
    chunks.push_back(chunk);
  return chunks;
}

fs::path file_of(const fs::path& folder, const std::string& rank) {
  for (const std::string_view name : kFileNames) {
    if (fs::exists(folder / rank / name)) return file_within(folder, rank + "/" + std::string(name));
  }
  throw FormatError(folder.string(), io::in_quotes(rank), "has no file model_optim_rng.pt");
}

// One optimizer has the parameters of all chunks, one chunk after the other; a distributed one has its states
// in a file of its own.
void add_optimizer(const PtValue& root, const std::string& path, const Buckets& buckets,
                   std::vector<std::vector<Parameter>>& chunks, std::vector<LeftOut>& left_out) {
  std::vector<Parameter> model;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (Parameter one : chunks[chunk]) {
      one.name = std::to_string(chunk) + "/" + one.name;
      model.push_back(std::move(one));
    }
  }
  const std::size_t known = left_out.size();
  std::vector<Parameter> states;
  if (buckets.root != nullptr) states = bucket_states(*buckets.root, chunks, buckets.path, left_out);
  if (const PtValue* const optimizer = find(&root, "optimizer")) {
    std::vector<Parameter> more = optimizer_states(*optimizer, model, path, left_out);
    std::move(more.begin(), more.end(), std::back_inserter(states));
  }
  if (states.empty() && left_out.size() == known)
    left_out.push_back({"optimizer", path + ": the file has no states of an optimizer"});
  for (Parameter& state : states) {
    // "optimizer.exp_avg.0/decoder..." of chunk 0
    const std::size_t slash = state.name.find('/');
    const std::size_t dot = state.name.rfind('.', slash);
    const auto chunk = static_cast<std::size_t>(std::stoul(state.name.substr(dot + 1, slash - dot - 1)));
    state.name.erase(dot + 1, slash - dot);
    chunks[chunk].push_back(std::move(state));
  }
}

}  // namespace

bool is_megatron(const PtValue& root) { return find(&root, "args") != nullptr && !chunks_of(root).empty(); }

std::vector<std::vector<Parameter>> megatron_chunks(const PtValue& root, const std::string& path,
                                                    const OpenOptions& options, const Buckets& buckets,
                                                    std::vector<LeftOut>& left_out) {
  std::vector<std::vector<Parameter>> chunks;
  for (const PtValue* model : chunks_of(root)) {
    Collected collected = collect(*model, "", path);
    std::erase_if(collected.parameters,
                  [&](const Parameter& one) { return matches_any(options.rules.ignored, one.name); });
    std::move(collected.left_out.begin(), collected.left_out.end(), std::back_inserter(left_out));
    chunks.push_back(std::move(collected.parameters));
  }
  if (chunks.empty()) throw FormatError(path, "", "the file has no \"model\"");
  if (options.optimizer) add_optimizer(root, path, buckets, chunks, left_out);
  return chunks;
}

Buckets open_buckets(Checkpoint::State& state, const fs::path& beside, const OpenOptions& options) {
  constexpr std::string_view kName = "distrib_optim.pt";
  const fs::path folder = beside.parent_path();
  if (!options.optimizer || !fs::exists(folder / kName)) return {};
  const fs::path path = file_within(folder, std::string(kName));
  return {&state.open_pt(path), path.string()};
}

std::vector<Renaming> renamings_for(const Rules& rules,
                                    const std::function<bool(const std::string&)>& is_present) {
  std::vector<Renaming> used;
  for (const Renaming& one : rules.renamings) {
    if (one.unless_present.empty() || !is_present(one.unless_present)) used.push_back(one);
  }
  return used;
}

std::string renamed(std::string name, const std::vector<Renaming>& renamings) {
  for (const Renaming& one : renamings) {
    if (name.find(one.from) != std::string::npos) name = replaced(name, one.from, one.to);
  }
  return ungrouped(name);
}

void read_attention(const Settings& settings, AttentionSizes& sizes) {
  sizes.heads = settings.integer("num_attention_heads").value_or(0);
  sizes.groups = settings.boolean("group_query_attention").value_or(true)
                     ? settings.integer("num_query_groups").value_or(sizes.heads)
                     : sizes.heads;
  sizes.head_size = settings.integer("kv_channels").value_or(0);
  const std::int64_t hidden = settings.integer("hidden_size").value_or(0);
  if (sizes.head_size == 0 && sizes.heads > 0) sizes.head_size = hidden / sizes.heads;
}

namespace {

class MegatronReader {
 public:
  MegatronReader(Checkpoint::State& state, const OpenOptions& options) : state_(state), options_(options) {}

  void run() {
    ranks_ = list_ranks(state_);
    if (ranks_.empty()) {
      throw FormatError(state_.layout.folder.string(), "",
                        "found no folder mp_rank_*, expected those of a checkpoint");
    }
    open_ranks();
    rename();
    count_layers();
    for (int chunk = 0; chunk < state_.layout.chunks; ++chunk) {
      for (int pipeline = 0; pipeline < sizes_.pipeline; ++pipeline) merge_stage(pipeline, chunk);
    }
  }

 private:
  void open_ranks() {
    const fs::path& folder = state_.layout.folder;
    std::vector<const PtValue*> roots;
    std::vector<fs::path> paths;
    paths.push_back(file_of(folder, ranks_.front().folder));
    roots.push_back(&state_.open_pt(paths.front()));
    read_settings(*roots.front());
    place_ranks(ranks_, sizes_, folder);
    require_all_ranks(ranks_, sizes_, folder);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (i > 0) {
        paths.push_back(file_of(folder, ranks_[i].folder));
        roots.push_back(&state_.open_pt(paths.back()));
      }
      collected_.push_back(megatron_chunks(*roots[i], paths[i].string(), options_,
                                           open_buckets(state_, paths[i], options_), state_.left_out));
      const int chunks = static_cast<int>(collected_.back().size());
      if (i > 0 && chunks != state_.layout.chunks) {
        throw FormatError(paths[i].string(), "",
                          "has " + std::to_string(chunks) + " parts of the model, " + ranks_.front().folder +
                              " has " + std::to_string(state_.layout.chunks));
      }
      state_.layout.chunks = chunks;
    }
  }

  void read_settings(const PtValue& root) {
    const Settings settings(find(&root, "args"));
    sizes_ = sizes_of(settings, ranks_);
    experts_ = settings.integer("num_experts").value_or(0);
    gated_ = settings.boolean("swiglu").value_or(false) ||
             settings.boolean("gated_linear_unit").value_or(false) ||
             settings.boolean("geglu").value_or(false);
    read_attention(settings, state_.attention);
    if (const PtValue* const version = find(&root, "checkpoint_version")) {
      if (const auto* real = version->as<double>()) version_ = *real;
      if (const auto* whole_number = version->as<std::int64_t>())
        version_ = static_cast<double>(*whole_number);
    }
    const PtValue* const iteration = find(&root, "iteration");
    const auto* const number = iteration == nullptr ? nullptr : iteration->as<std::int64_t>();
    if (number != nullptr && !state_.layout.iteration) state_.layout.iteration = *number;
    state_.layout.tensor_parallel = sizes_.tensor;
    state_.layout.pipeline_parallel = sizes_.pipeline;
    state_.layout.expert_parallel = sizes_.expert;
  }

  void rename() {
    const std::vector<Renaming> renamings = renamings_for(options_.rules, [this](const std::string& text) {
      for (const auto& chunks : collected_) {
        for (const auto& chunk : chunks) {
          for (const Parameter& one : chunk) {
            if (one.name.find(text) != std::string::npos) return true;
          }
        }
      }
      return false;
    });
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      for (std::vector<Parameter>& chunk : collected_[i]) {
        for (Parameter& one : chunk) one.name = renamed(std::move(one.name), renamings);
        ranks_[i].chunks.emplace_back(with_single_experts(chunk));
      }
    }
    collected_.clear();
  }

  std::vector<Parameter> with_single_experts(const std::vector<Parameter>& chunk) const {
    std::vector<Parameter> result;
    for (const Parameter& one : chunk) {
      const bool is_group = one.name.find("experts.weight") != std::string::npos;
      if (is_group && split_experts(one, expert_count(one.name, chunk, experts_) / sizes_.expert, result))
        continue;
      result.push_back(one);
    }
    return result;
  }

  // The layers of each chunk of each stage, under each name that layers stand under: where those of the next
  // begin. Chunk 0 of all stages comes first, then chunk 1 of all.
  void count_layers() {
    std::map<std::string, std::int64_t, std::less<>> next;
    for (int chunk = 0; chunk < state_.layout.chunks; ++chunk) {
      for (int pipeline = 0; pipeline < sizes_.pipeline; ++pipeline) {
        auto& begins = first_layer_[{pipeline, chunk}];
        std::map<std::string, std::int64_t, std::less<>> counts;
        const Rank& rank = *dense_ranks(ranks_, pipeline, sizes_).front();
        for (const Parameter& one : rank.chunks[static_cast<std::size_t>(chunk)].all()) {
          if (const auto layer = find_number(one.name, "layers.")) {
            std::int64_t& count = counts[std::string(layer->before)];
            count = std::max(count, layer->number + 1);
          }
        }
        for (const auto& [root, count] : counts) {
          begins[root] = next[root];
          next[root] += count;
        }
      }
    }
  }

  std::string with_global_layer(const std::string& name, int pipeline, int chunk) const {
    const auto layer = find_number(name, "layers.");
    if (!layer) return name;
    const auto& begins = first_layer_.at({pipeline, chunk});
    const auto begin = begins.find(layer->before);
    return begin == begins.end() ? name : with_number(*layer, layer->number + begin->second);
  }

  void merge_stage(int pipeline, int chunk) {
    const auto shards_of = [&](const std::vector<const Rank*>& ranks) {
      std::vector<const Shards*> shards;
      shards.reserve(ranks.size());
      for (const Rank* rank : ranks) shards.push_back(&rank->chunks[static_cast<std::size_t>(chunk)]);
      return shards;
    };
    const MergeContext context{options_.rules, gated_, version_, state_.attention.heads, state_.warnings};
    const std::string place = state_.layout.folder.string();
    const std::vector<const Shards*> dense = shards_of(dense_ranks(ranks_, pipeline, sizes_));
    require_same_names(dense, place);
    std::vector<std::vector<const Shards*>> experts;
    experts.reserve(static_cast<std::size_t>(sizes_.expert));
    for (int expert = 0; expert < sizes_.expert; ++expert) {
      experts.push_back(shards_of(expert_ranks(ranks_, pipeline, expert, sizes_)));
    }
    check_replicas(pipeline, chunk);
    for (const Parameter& one : dense[0]->all()) {
      if (!is_expert(one.name)) add(merge(one.name, dense, context, place), pipeline, chunk, 0);
    }
    for (std::size_t expert = 0; expert < experts.size(); ++expert) {
      const std::int64_t first = local_experts(*experts[expert][0]) * static_cast<std::int64_t>(expert);
      for (const Parameter& one : experts[expert][0]->all()) {
        if (is_expert(one.name))
          add(merge(one.name, experts[expert], context, place), pipeline, chunk, first);
      }
    }
  }

  // What is no expert is the same on all expert-parallel ranks, of which only the first is compared later. So
  // are experts on tensor-parallel ranks that hold the same shard.
  void check_replicas(int pipeline, int chunk) {
    std::map<std::pair<int, int>, const Rank*> firsts;  // by shard, and expert-parallel rank or -1
    std::set<std::string> told;
    const auto check = [&](const Rank& rank, std::pair<int, int> shard, bool experts) {
      const Rank& first = *firsts.emplace(shard, &rank).first->second;
      if (&first == &rank) return;
      const Shards& shards = first.chunks[static_cast<std::size_t>(chunk)];
      for (const Parameter& one : rank.chunks[static_cast<std::size_t>(chunk)].all()) {
        const Parameter* const copy = is_expert(one.name) == experts ? shards.find(one.name) : nullptr;
        if (copy == nullptr || equal_bits(*copy, one, Extent::kSample)) continue;
        if (!told.insert(one.name).second) continue;
        state_.warnings.push_back(with_global_layer(one.name, pipeline, chunk) + ": the copies in " +
                                  first.folder + " and " + rank.folder + " differ; that in " + first.folder +
                                  " is compared");
      }
    };
    for (const Rank& rank : ranks_) {
      if (rank.pipeline != pipeline) continue;
      check(rank, {rank.tensor, -1}, false);
      check(rank, {rank.tensor % sizes_.expert_tensor, rank.expert}, true);
    }
  }

  static std::int64_t local_experts(const Shards& shards) {
    std::int64_t count = 0;
    for (const Parameter& one : shards.all()) {
      if (const auto expert = find_number(one.name, "experts.")) count = std::max(count, expert->number + 1);
    }
    return count;
  }

  // What rank 0 does not have would not be missed by merge().
  static void require_same_names(const std::vector<const Shards*>& ranks, const std::string& place) {
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      for (const Parameter& one : ranks[rank]->all()) {
        if (ranks[0]->find(one.name) == nullptr && !is_expert(one.name)) {
          throw FormatError(place, io::in_quotes(one.name),
                            "tensor-parallel rank " + std::to_string(rank) + " has it, rank 0 does not");
        }
      }
    }
  }

  void add(Parameter parameter, int pipeline, int chunk, std::int64_t first_expert) {
    std::string name = with_global_layer(parameter.name, pipeline, chunk);
    if (const auto expert = find_number(name, "experts.")) {
      name = with_number(*expert, expert->number + first_expert);
    }
    parameter.name = std::move(name);
    const auto [known, is_new] = places_.emplace(parameter.name, state_.parameters.size());
    if (is_new) {
      state_.parameters.push_back(std::move(parameter));
    } else if (!equal_bits(state_.parameters[known->second], parameter)) {
      state_.warnings.push_back(parameter.name + ": pipeline stage " + std::to_string(pipeline) +
                                " has another copy, which differs; the first one is compared");
    }
  }

  Checkpoint::State& state_;
  const OpenOptions& options_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<std::vector<Parameter>>>
      collected_;  // by rank and chunk, until they have their names
  Sizes sizes_;
  std::int64_t experts_ = 0;
  bool gated_ = false;
  double version_ = 3;
  std::map<std::pair<int, int>, std::map<std::string, std::int64_t, std::less<>>> first_layer_;
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace

void read_megatron(Checkpoint::State& state, const OpenOptions& options) {
  MegatronReader(state, options).run();
}

}  // namespace msprobe::checkpoint
