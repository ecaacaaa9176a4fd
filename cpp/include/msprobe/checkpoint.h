// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/export.h"
#include "msprobe/tensor_view.h"

/// Checkpoints of training programs, compared parameter by parameter. Kinds: docs/formats/checkpoint.md.
///
/// Files are mapped and nothing in them is run. A parameter is put together from views of the files; no
/// tensor is copied as a whole, so memory does not grow with the size of a checkpoint.
namespace msprobe::checkpoint {

using Shape = std::vector<std::int64_t>;

/// A box of a parameter and the memory in which its elements lie.
struct Piece {
  Shape offset;                        // of the box in the parameter
  Shape shape;                         // of the box; as long as that of the parameter
  Shape strides;                       // of the memory, in elements, 0 or more
  const std::uint8_t* data = nullptr;  // element [0, 0, ...] of the box; of any alignment
};

/// A tensor as the model has it, whatever the number of files it is spread over.
struct Parameter {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                // a 0-d tensor has the shape {}
  std::vector<Piece> pieces;  // cover the parameter without gaps and without overlap
};

/// Something in a checkpoint that is not compared, and why.
struct LeftOut {
  std::string name;
  std::string reason;
};

enum class Kind : std::uint8_t {
  kFile,         // one file of torch.save, which may be that of one rank
  kMegatron,     // a folder of mp_rank_* folders
  kDistributed,  // torch.distributed.checkpoint: .metadata and *.distcp
  kSafetensors,  // one file, or several with an index
  kBinFiles,     // several files of torch.save with an index
  kMindSpore,    // one .ckpt of MindSpore
};

/// How shards of a Megatron model become one parameter. Names are patterns: `*` stands for any text,
/// everything else for itself.
struct MergeRule {
  enum class How : std::uint8_t {
    kRows,      // one below the other: along dimension 0
    kColumns,   // side by side: along dimension 1
    kGated,     // as kRows, but each shard of a gated layer holds half of the gate, then half of the rest
    kSections,  // as kRows, section by section: the input of a state-space mixer
    kSame,      // every rank has a copy
    kUnknown,   // a copy where all shards have the same bits, else as kRows
  };
  std::vector<std::string> patterns;
  How how = How::kSame;
};

/// Text in names that is replaced, all occurrences.
struct Renaming {
  std::string from;
  std::string to;
  /// Not done in a checkpoint that has names with this text; empty: always done.
  std::string unless_present;
};

/// The table of rules; that which msprobe ships is python/msprobe/checkpoint/rules.yaml. The first rule that
/// matches counts; a name without one is kUnknown.
struct Rules {
  std::vector<Renaming> renamings;      // in this order
  std::vector<MergeRule> merges;        // on names after renaming
  std::vector<std::string> vocabulary;  // patterns: rows may be padded, so the common ones are compared
  std::vector<std::string> ignored;     // patterns: no parameters, such as *_extra_state
};

struct OpenOptions {
  Rules rules;
  /// Also states of the optimizer, whose data is not read else: "optimizer", the state and the parameter,
  /// with dots between, are their names.
  bool optimizer = false;
};

/// What is known of how a checkpoint was written; 0 and nullopt where it does not say.
struct Layout {
  Kind kind = Kind::kFile;
  std::filesystem::path folder;  // that which was read: the one of the iteration
  std::optional<std::int64_t> iteration;
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int expert_parallel = 1;
  int chunks = 1;  // of the model in each pipeline stage
};

/// Sizes of attention, for mappings that put q, k and v together; 0 where the checkpoint does not say.
struct AttentionSizes {
  std::int64_t heads = 0;
  std::int64_t groups = 0;
  std::int64_t head_size = 0;
};

/// An opened checkpoint. Keeps its files mapped. Can be moved; parameters stay where they are. Reading from
/// several threads is safe.
class MSPROBE_API Checkpoint {
 public:
  /// `path`: a file, a folder of one iteration or rank, or a folder with latest_checkpointed_iteration.txt.
  ///
  /// Throws IoError; FormatError for files that are damaged or hostile, ranks or files that are missing (the
  /// message names them), shards that do not fit together; UnsupportedError for kinds that are not known.
  static Checkpoint open(const std::filesystem::path& path, const OpenOptions& options);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const Layout& layout() const noexcept;
  const AttentionSizes& attention() const noexcept;

  /// In the order of the model as far as the files tell. Names are unique.
  std::span<const Parameter> parameters() const noexcept;
  const std::vector<LeftOut>& left_out() const noexcept;
  /// What a person should know: copies on several ranks that differ, odd folders.
  const std::vector<std::string>& warnings() const noexcept;
  /// The files that hold the parameters.
  const std::vector<std::filesystem::path>& files() const noexcept;
  /// The value of "model_type" of a config.json beside the files; empty where there is none.
  const std::string& model_type() const noexcept;

  /// Bytes of all parameters.
  std::uint64_t bytes() const noexcept;

  /// Takes the files out of the memory of the process; what is touched is read again. For whoever goes
  /// through the pieces of large checkpoints.
  void give_back_memory() const noexcept;

  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);

 private:
  friend class Mapper;
  std::unique_ptr<State> state_;
};

/// The elements of a parameter in C order, in one place: where they lie so in a file, aligned, that memory,
/// valid as long as the checkpoint; else a copy.
struct Elements {
  const void* data = nullptr;
  std::unique_ptr<std::byte[]> copy;
};
MSPROBE_API Elements elements_of(const Parameter& parameter);

// ---- Mapping of names

/// One rule of a mapping between namings: which parameter is made of which ones of the other checkpoint.
/// `{x}` in a name stands for one part between dots.
struct MappingRule {
  std::string to;
  std::vector<std::string> from;
  enum class Join : std::uint8_t {
    kRows,     // along dimension 0
    kColumns,  // along dimension 1
    kQkv,      // query, key and value, row by row in groups, as Megatron keeps them
  };
  Join join = Join::kRows;
  bool transpose = false;  // each of `from`, before it is joined
  int parts = 1;  // `from` is one parameter of so many equal parts along dimension 0, joined by `join`
};

/// Renames and rearranges the parameters of `checkpoint` in place; those that no rule names keep their names.
/// `attention`: for Join::kQkv, where the checkpoint does not say. Returns how many parameters the rules
/// made. Throws InvalidArgument for parameters that cannot be joined so, and when sizes of attention are not
/// known.
MSPROBE_API std::size_t apply_mapping(Checkpoint& checkpoint, std::span<const MappingRule> rules,
                                      const AttentionSizes& attention = {});

// ---- Comparing

/// One side of a pair of parameters. Sums are those of the finite pairs.
struct Side {
  std::int64_t nan_count = 0;  // complex: an element is NaN when a part is NaN, else Inf when a part is Inf
  std::int64_t inf_count = 0;  // of both signs
  double sum = 0;
  double squares = 0;  // sum of |x|^2
};

/// What is to be known of two parameters next to each other, as far as they were compared: l2 distance =
/// sqrt(squared_distance), cosine = dot / sqrt(reference.squares * target.squares), mean = sum /
/// finite_pairs. Words and errors are those of metrics::PairMetrics.
///
/// Precision: of two parameters that are both float32, bfloat16 or float16, differences are in float32, and
/// so are sums of 8 terms, which are added up in double; in other cases everything is in double. Of pairs
/// that are both float32 and differ by less than 2^-140, `max_relative` may know nothing.
struct Difference {
  std::int64_t count = 0;
  std::int64_t finite_pairs = 0;
  std::int64_t both_non_finite = 0;
  std::int64_t one_sided = 0;   // NaN or Inf against a finite number
  std::int64_t equal_bits = 0;  // of different dtypes: after conversion to one
  Side reference;
  Side target;
  double dot = 0;
  double squared_distance = 0;
  double max_absolute = 0;
  double max_relative = 0;  // |reference - target| / |target|; where the target is 0, both get 2^-52 first
};

struct Row {
  std::string name;
  std::size_t reference = 0;  // index into the parameters
  std::size_t target = 0;
  bool comparable = false;           // false: the shapes differ
  std::optional<std::int64_t> rows;  // of a vocabulary with padding: how many were compared
  Difference difference;             // of what was compared
  std::string reference_hash;        // on request: 32 digits that only the same content has
  std::string target_hash;
};

/// Which parameters of two checkpoints are the same one.
struct Pairing {
  std::vector<Row> rows;  // in the order of the reference; nothing measured yet
  std::vector<std::size_t> reference_only;
  std::vector<std::size_t> target_only;
  std::vector<std::string> notes;  // such as: a prefix was left out, tied weights
};

/// Told of the bytes compared and all of them; returns false to end the work.
using Progress = std::function<bool(std::uint64_t, std::uint64_t)>;

struct CompareOptions {
  unsigned threads = 0;  // 0: all cores
  bool hash = false;     // also the hash of both sides
  /// Only this share of the work, of so many; by parameters, so that shares of all are the whole.
  unsigned share = 0;
  unsigned shares = 1;
  Progress progress = {};
};

/// Pairs by name. Prefixes that all names of one side have ("model.", "module.") are left out where that
/// finds more pairs. An output layer that only one side has and that equals the embedding is a tied weight.
MSPROBE_API Pairing pair(const Checkpoint& reference, const Checkpoint& target, const Rules& rules);

/// Measures all rows of this share, in one pass over the files. Returns their indices. The result does not
/// depend on the number of threads; the memory of the process stays below 512 MiB. Throws InvalidArgument
/// when `progress` ends it.
MSPROBE_API std::vector<std::size_t> measure(const Checkpoint& reference, const Checkpoint& target,
                                             Pairing& pairing, const CompareOptions& options);

/// The hash of every parameter.
MSPROBE_API std::vector<std::string> hash_parameters(const Checkpoint& checkpoint,
                                                     const CompareOptions& options);

}  // namespace msprobe::checkpoint
