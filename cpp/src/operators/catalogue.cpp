// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>

#include "msprobe/operators.h"

namespace msprobe::operators {
namespace {

constexpr std::string_view kText =
#include "operators/catalogue.inc"
    ;

template <typename Value>
struct Word {
  std::string_view word;
  Value value;
};

constexpr std::array kGains{
    Word<Gain>{"other", Gain::kOther},
    Word<Gain>{"none", Gain::kNone},
    Word<Gain>{"moves", Gain::kMoves},
    Word<Gain>{"picks", Gain::kPicks},
    Word<Gain>{"steps", Gain::kSteps},
    Word<Gain>{"decides", Gain::kDecides},
    Word<Gain>{"draws", Gain::kDraws},
    Word<Gain>{"sum", Gain::kSum},
    Word<Gain>{"elementwise", Gain::kElementwise},
    Word<Gain>{"power", Gain::kPower},
    Word<Gain>{"root", Gain::kRoot},
    Word<Gain>{"product", Gain::kProduct},
    Word<Gain>{"scale_free", Gain::kScaleFree},
    Word<Gain>{"exponential", Gain::kExponential},
    Word<Gain>{"logarithm", Gain::kLogarithm},
    Word<Gain>{"recurrent", Gain::kRecurrent},
    Word<Gain>{"attention", Gain::kAttention},
    Word<Gain>{"samples", Gain::kSamples},
    Word<Gain>{"update", Gain::kUpdate},
};

constexpr std::array kKeeps{
    Word<Keeps>{"all", Keeps::kAll},
    Word<Keeps>{"factors", Keeps::kFactors},
    Word<Keeps>{"nothing", Keeps::kNothing},
};

constexpr std::array kConditions{
    Word<Condition>{"other", Condition::kOther},
    Word<Condition>{"none", Condition::kNone},
    Word<Condition>{"sum", Condition::kSum},
    Word<Condition>{"difference", Condition::kDifference},
    Word<Condition>{"product", Condition::kProduct},
    Word<Condition>{"softmax", Condition::kSoftmax},
    Word<Condition>{"exponential", Condition::kExponential},
    Word<Condition>{"logarithm", Condition::kLogarithm},
    Word<Condition>{"quotient", Condition::kQuotient},
    Word<Condition>{"root", Condition::kRoot},
    Word<Condition>{"norm", Condition::kNorm},
};

// A way to count, and the argument that decides: name and position.
struct TermsWord {
  std::string_view word;
  Terms terms;
  std::uint8_t of = 0;
  std::string_view argument = {};
  std::int8_t position = -1;
};
constexpr std::array kTerms{
    TermsWord{"ratio", Terms::kRatio},
    TermsWord{"pair", Terms::kPair},
    TermsWord{"last0", Terms::kLast, 0},
    TermsWord{"last1", Terms::kLast, 1},
    TermsWord{"contraction", Terms::kContraction},
    TermsWord{"chain", Terms::kChain},
    TermsWord{"batched", Terms::kBatched},
    TermsWord{"bilinear", Terms::kBilinear},
    TermsWord{"kernel", Terms::kKernel},
    TermsWord{"transposedkernel", Terms::kTransposedKernel},
    TermsWord{"dim", Terms::kDim, 0, "dim", 1},
    TermsWord{"normalized", Terms::kNormalized, 0, "normalized_shape", 1},
    TermsWord{"channel", Terms::kChannel},
    TermsWord{"group", Terms::kGroup, 0, "num_groups", 1},
    TermsWord{"group_at_3", Terms::kGroup, 0, "group", 3},
    TermsWord{"attention", Terms::kAttention},
};

constexpr std::array kFlags{
    Word<bool Row::*>{"kink", &Row::has_kink},
    Word<bool Row::*>{"chooses", &Row::chooses},
    Word<bool Row::*>{"squares", &Row::sums_products},
    Word<bool Row::*>{"composed", &Row::rounds_between},
    Word<bool Row::*>{"adds", &Row::adds_first},
    Word<bool Row::*>{"commutes", &Row::commutes},
    Word<bool Row::*>{"transformed", &Row::is_transformed},
    Word<bool Row::*>{"fills", &Row::fills},
    Word<bool Row::*>{"overwrites", &Row::overwrites},
    Word<bool Row::*>{"places", &Row::writes_places},
    Word<bool Row::*>{"uninitialised", &Row::is_uninitialised},
    Word<bool Row::*>{"nondeterministic", &Row::is_nondeterministic},
};

template <typename Words>
auto found_in(const Words& words, std::string_view word) {
  return std::find_if(words.begin(), words.end(), [&](const auto& one) { return one.word == word; });
}

bool is_linear(Gain gain) { return gain == Gain::kMoves || gain == Gain::kSum; }

// What a class says where the row says nothing else.
Row of_class(Gain gain) {
  Row row;
  row.gain = gain;
  if (is_linear(gain)) row.keeps = Keeps::kNothing;
  if (gain == Gain::kProduct || gain == Gain::kScaleFree) row.keeps = Keeps::kFactors;
  const bool rounds = gain != Gain::kNone && gain != Gain::kMoves && gain != Gain::kPicks &&
                      gain != Gain::kSteps && gain != Gain::kDecides && gain != Gain::kDraws;
  if (!rounds) row.condition = Condition::kNone;
  if (gain == Gain::kSum) row.condition = Condition::kSum;
  if (gain == Gain::kProduct) row.condition = Condition::kProduct;
  return row;
}

// The parts of a text between separators; empty ones are left out.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// False for a word without a meaning.
bool apply_word(Row& row, std::string_view word) {
  if (const auto flag = found_in(kFlags, word); flag != kFlags.end()) return row.*(flag->value) = true;
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
  if (key == "keeps") {
    const auto found = found_in(kKeeps, value);
    if (found == kKeeps.end()) return false;
    row.keeps = found->value;
  } else if (key == "condition") {
    const auto found = found_in(kConditions, value);
    if (found == kConditions.end()) return false;
    row.condition = found->value;
  } else if (key == "terms") {
    const auto found = found_in(kTerms, value);
    if (found == kTerms.end()) return false;
    row.terms = found->terms;
    row.terms_of = found->of;
    row.terms_argument = found->argument;
    row.terms_position = found->position;
  } else if (key == "inplace") {
    int position = -1;
    std::from_chars(value.data(), value.data() + value.size(), position);
    row.inplace_position = static_cast<std::int8_t>(position);
    return position >= 0;
  } else if (key == "writes") {
    row.writes = value;
  } else if (key == "how") {
    row.how = value;
  } else if (key == "updates") {
    row.updates = value;
  } else if (key == "source") {
    row.source = value;
  } else {
    return false;
  }
  return true;
}

struct Catalogue {
  std::vector<Row> rows;
  std::vector<std::string_view> names;
  std::unordered_map<std::string_view, std::uint32_t> by_name;  // place in rows
  std::vector<std::string> problems;

  Catalogue() {
    for (const std::string_view line : parts_of(kText, '\n')) {
      if (!line.starts_with('#')) add(line);
    }
  }

  void add(std::string_view line) {
    const std::size_t colon = line.find(':');
    const std::vector<std::string_view> words = colon == std::string_view::npos
                                                    ? std::vector<std::string_view>{}
                                                    : parts_of(line.substr(colon + 1), ' ');
    const std::vector<std::string_view> own = parts_of(line.substr(0, colon), ' ');
    const auto gain = words.empty() ? kGains.end() : found_in(kGains, words.front());
    if (own.empty() || gain == kGains.end()) {
      problems.push_back("no names or no class: " + std::string(line));
      return;
    }
    Row row = of_class(gain->value);
    row.name = own.front();
    for (const std::string_view word : std::span(words).subspan(1)) {
      if (!apply_word(row, word)) problems.push_back("\"" + std::string(word) + "\" has no meaning");
    }
    for (const std::string_view name : own) {
      const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::islower(c) != 0 || std::isdigit(c) != 0;
      });
      if (!is_plain) problems.push_back("\"" + std::string(name) + "\" is not of small letters and digits");
      const bool is_new = by_name.emplace(name, static_cast<std::uint32_t>(rows.size())).second;
      if (!is_new) problems.push_back("\"" + std::string(name) + "\" stands twice");
      names.push_back(name);
    }
    rows.push_back(row);
  }
};

const Catalogue& catalogue() {
  static const Catalogue all;
  return all;
}

// ---- names

// Of whom a kernel is, and of what kind: what is left is the operator.
constexpr std::array<std::string_view, 12> kPrefixes = {"linalg", "special", "fft",    "npu",
                                                        "native", "cudnn",   "miopen", "mkldnn",
                                                        "mps",    "thnn",    "sparse", "quantized"};
// Ways to compute or return the same.
constexpr std::array<std::string_view, 11> kSuffixes = {
    "copy", "out", "functional", "forward", "ex", "v2", "loss", "v3", "aa", "ext", "withindices"};
// Classes of modules are often named after what they are: "LlamaRMSNorm", "ColumnParallelLinear".
constexpr std::array<Word<std::string_view>, 4> kClasses{
    Word<std::string_view>{"norm", "rmsnorm"}, Word<std::string_view>{"linear", "linear"},
    Word<std::string_view>{"embedding", "embedding"}, Word<std::string_view>{"dropout", "dropout"}};

constexpr int kDeepest = 4;  // affixes of one name

std::optional<Row> derived(std::string_view key, int depth);

std::optional<Row> looked_up(std::string_view key, int depth = 0) {
  const Catalogue& all = catalogue();
  if (const auto found = all.by_name.find(key); found != all.by_name.end()) return all.rows[found->second];
  return depth < kDeepest ? derived(key, depth + 1) : std::nullopt;
}

// The derivative of a linear function is linear, that of a product is products; another one is a function of
// its own.
Row backward_of(const Row& row) {
  if (row.gain == Gain::kProduct) return row;
  Row result = of_class(row.gain == Gain::kNone ? Gain::kNone
                        : is_linear(row.gain)   ? Gain::kSum
                                                : Gain::kOther);
  result.name = row.name;
  result.condition = Condition::kOther;
  result.has_kink = row.has_kink;
  result.is_nondeterministic = row.is_nondeterministic;
  return result;
}

std::optional<Row> derived(std::string_view key, int depth) {
  constexpr std::string_view kLists = "foreach", kBackward = "backward", kBackwardData = "backwarddata";
  if (key.starts_with(kLists)) {
    auto found = looked_up(key.substr(kLists.size()), depth);
    if (found && found->condition != Condition::kNone) found->condition = Condition::kOther;
    if (found) found->works_on_lists = true;
    return found;
  }
  for (const std::string_view suffix : {kBackward, kBackwardData}) {
    if (!key.ends_with(suffix)) continue;
    const auto found = looked_up(key.substr(0, key.size() - suffix.size()), depth);
    return found ? std::optional(backward_of(*found)) : std::nullopt;
  }
  const bool has_dimensions =
      key.size() > 2 && key.ends_with('d') && key[key.size() - 2] >= '1' && key[key.size() - 2] <= '4';
  if (has_dimensions) {
    if (const auto found = looked_up(key.substr(0, key.size() - 2), depth)) return found;
  }
  for (const std::string_view prefix : kPrefixes) {
    if (!key.starts_with(prefix)) continue;
    if (const auto found = looked_up(key.substr(prefix.size()), depth)) return found;
  }
  for (const std::string_view suffix : kSuffixes) {
    if (!key.ends_with(suffix)) continue;
    if (const auto found = looked_up(key.substr(0, key.size() - suffix.size()), depth)) return found;
  }
  return std::nullopt;
}

// Letters and digits alone, in small letters.
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '_') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

Row find_without_memory(std::string_view function) {
  const std::size_t dot = function.rfind('.');
  const bool is_collective = dot != std::string_view::npos && function.substr(0, dot).ends_with("istributed");
  function.remove_prefix(dot + 1);
  const std::string key = plain(function);
  std::optional<Row> found;
  if (is_collective) found = looked_up("distributed" + key);
  if (!found) found = looked_up(key);
  // x += y is __iadd__, y + x is __radd__.
  const bool is_special = function.size() > 4 && function.starts_with("__") && function.ends_with("__");
  const bool is_swapped = is_special && key.front() == 'r', is_in_place = is_special && key.front() == 'i';
  if (!found && (is_swapped || is_in_place)) {
    found = looked_up(std::string_view(key).substr(1));
    if (found) found->is_in_place = is_in_place;
  }
  for (const auto& [ending, name] : kClasses) {
    if (!found && key.ends_with(ending)) found = looked_up(name);
  }
  Row row = found.value_or(Row{});
  if (function.ends_with('_') && !is_special) row.is_in_place = true;
  return row;
}

struct HashOfText {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

}  // namespace

Row find(std::string_view function) {
  constexpr std::size_t kMostKept = 4096;  // names of a hostile file
  static thread_local std::unordered_map<std::string, Row, HashOfText, std::equal_to<>> known;
  if (const auto found = known.find(function); found != known.end()) return found->second;
  if (known.size() == kMostKept) known.clear();
  return known.emplace(function, find_without_memory(function)).first->second;
}

bool Row::names(std::string_view list, std::string_view argument) noexcept {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == argument) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

std::string_view gain_name(Gain gain) noexcept {
  return std::find_if(kGains.begin(), kGains.end(), [&](const auto& one) { return one.value == gain; })->word;
}

std::string_view condition_name(Condition condition) noexcept {
  const auto is_it = [&](const auto& one) { return one.value == condition; };
  return std::find_if(kConditions.begin(), kConditions.end(), is_it)->word;
}

std::span<const Row> rows() { return catalogue().rows; }

std::span<const std::string_view> names() { return catalogue().names; }

std::vector<std::string> problems() { return catalogue().problems; }

}  // namespace msprobe::operators
