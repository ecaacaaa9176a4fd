// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// torch.distributed.checkpoint: `.metadata` is a pickle that says which parts of which tensors lie where in
// the files *.distcp; each part is a whole file of torch.save.

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <unordered_map>

#include "base/layout.h"
#include "base/shape_text.h"
#include "checkpoint/megatron.h"
#include "checkpoint/merge.h"
#include "checkpoint/names.h"
#include "checkpoint/pieces.h"
#include "checkpoint/state.h"
#include "checkpoint/state_dict.h"
#include "io/file/mapped_file.h"
#include "io/in_quotes.h"
#include "io/pt/pickle.h"
#include "io/utf8.h"
#include "msprobe/engines.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;
using io::in_quotes;
using io::PtObject;
using io::PtTuple;
using io::PtValue;

constexpr std::string_view kMetadata = ".metadata";

const PtValue* attribute(const PtValue* value, std::string_view name) {
  const auto* const object = value == nullptr ? nullptr : value->as<PtObject>();
  return object == nullptr ? nullptr : find(object->state, name);
}

// torch.Size: a tuple, or a call with one.
std::optional<Shape> shape_of(const PtValue* value) {
  const auto* tuple = value == nullptr ? nullptr : value->as<PtTuple>();
  if (const auto* object = value == nullptr ? nullptr : value->as<PtObject>()) {
    const auto* const arguments = object->arguments == nullptr ? nullptr : object->arguments->as<PtTuple>();
    if (object->class_name == "torch.Size" && arguments != nullptr && arguments->items.size() == 1) {
      tuple = arguments->items[0]->as<PtTuple>();
    }
  }
  if (tuple == nullptr || tuple->items.size() > msprobe::Layout::kMaxRank) return std::nullopt;
  Shape shape;
  std::int64_t elements = 1;
  for (const PtValue* item : tuple->items) {
    const auto* const extent = item->as<std::int64_t>();
    if (extent == nullptr || *extent < 0 ||
        __builtin_mul_overflow(elements, std::max<std::int64_t>(*extent, 1), &elements)) {
      return std::nullopt;
    }
    shape.push_back(*extent);
  }
  return shape;
}

struct Place {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool transformed = false;
};

// A part of a tensor by its name and where it begins.
using PlaceKey = std::pair<std::string, Shape>;

class DistributedReader {
 public:
  DistributedReader(Checkpoint::State& state, const OpenOptions& options)
      : state_(state),
        options_(options),
        metadata_path_((state.layout.folder / kMetadata).string()),
        metadata_(file_within(state.layout.folder, std::string(kMetadata))) {}

  void run() {
    const io::PickleCalls calls{
        [this](std::string_view name, const PtTuple& arguments) -> PtValue* {
          if (name == "collections.OrderedDict" && arguments.items.empty())
            return values_.add_boxed(io::PtDict{});
          state_.warn_of_call(metadata_path_, name);
          return nullptr;
        },
        [](const PtValue&) -> PtValue* { throw io::PickleError{"found a storage, expected plain values"}; }};
    const PtValue* const root =
        io::run_pickle(metadata_.bytes(), metadata_path_, "the pickle", values_, calls);
    const auto* const tensors = dict_of(*root, "state_dict_metadata");
    read_places(*dict_of(*root, "storage_data"));
    read_common();
    choose_prefix(*tensors);
    for (const auto& [key, value] : tensors->entries) {
      const auto* const name = key->as<std::string>();
      if (name == nullptr) refuse("a name of a tensor is " + std::string(key->kind()));
      read_tensor(*name, *value);
    }
    finish_names();
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw FormatError(metadata_path_, "", problem);
  }

  const io::PtDict* dict_of(const PtValue& root, std::string_view name) const {
    const PtValue* const value = attribute(&root, name);
    const auto* const dict = value == nullptr ? nullptr : value->as<io::PtDict>();
    if (dict == nullptr) refuse("expected a description of a distributed checkpoint with " + in_quotes(name));
    return dict;
  }

  void read_places(const io::PtDict& storage) {
    for (const auto& [key, value] : storage.entries) {
      const PtValue* const name = attribute(key, "fqn");
      const PtValue* const file = attribute(value, "relative_path");
      const PtValue* const offset = attribute(value, "offset");
      const PtValue* const length = attribute(value, "length");
      if (name == nullptr || name->as<std::string>() == nullptr || file == nullptr ||
          file->as<std::string>() == nullptr || offset == nullptr || offset->as<std::int64_t>() == nullptr ||
          length == nullptr || length->as<std::int64_t>() == nullptr) {
        refuse("expected name, relative_path, offset and length for all that is stored");
      }
      const std::int64_t begin = *offset->as<std::int64_t>();
      const std::int64_t bytes = *length->as<std::int64_t>();
      if (begin < 0 || bytes < 0)
        refuse(in_quotes(*name->as<std::string>()) + ": offset or length is negative");
      const PtValue* const transforms = attribute(value, "transform_descriptors");
      places_[{*name->as<std::string>(), shape_of(attribute(key, "offset")).value_or(Shape{})}] = {
          *file->as<std::string>(), static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(bytes),
          transforms != nullptr && !transforms->is_none()};
    }
  }

  // What is not sharded; Megatron keeps its settings there.
  void read_common() {
    if (!fs::exists(state_.layout.folder / "common.pt")) return;
    is_megatron_ = true;
    const PtValue& common = state_.open_pt(file_within(state_.layout.folder, "common.pt"));
    const Settings settings(find(&common, "args"));
    read_attention(settings, state_.attention);
    const PtValue* const iteration = find(&common, "iteration");
    const auto* const number = iteration == nullptr ? nullptr : iteration->as<std::int64_t>();
    if (number != nullptr && !state_.layout.iteration) state_.layout.iteration = *number;
    state_.layout.tensor_parallel = size_of(settings, engines::kTensorParallel);
    state_.layout.pipeline_parallel = size_of(settings, engines::kPipelineParallel);
    state_.layout.expert_parallel = size_of(settings, engines::kExpertParallel);
  }

  static int size_of(const Settings& settings, std::string_view kind) {
    return static_cast<int>(std::clamp<std::int64_t>(settings.parallel_size(kind).value_or(1), 1, 1'000'000));
  }

  static bool is_optimizer(std::string_view name) {
    return name.starts_with("optimizer.") || name.starts_with("optim.") || name.starts_with("optimizers.") ||
           name.starts_with("chained_");
  }

  // A training program saves {"model": ..., "optimizer": ...}, perhaps below the name of an application. A
  // model alone may have a part that is called "model", which is left as it is.
  void choose_prefix(const io::PtDict& tensors) {
    std::vector<std::string_view> names;
    for (const auto& [key, value] : tensors.entries) {
      if (const auto* name = key->as<std::string>()) names.push_back(*name);
    }
    constexpr std::string_view kApplication = "app.";
    constexpr std::string_view kModel = "model.";
    if (std::all_of(names.begin(), names.end(), [&](auto name) { return name.starts_with(kApplication); })) {
      prefix_ = kApplication;
      for (std::string_view& name : names) name.remove_prefix(kApplication.size());
    }
    const auto optimizer =
        std::partition(names.begin(), names.end(), [](auto name) { return !is_optimizer(name); });
    if (optimizer != names.end() &&
        std::all_of(names.begin(), optimizer, [&](auto name) { return name.starts_with(kModel); })) {
      model_prefix_ = kModel;
    }
  }

  // The name that is compared; empty for what is not asked for.
  std::string wanted_name(const std::string& stored) {
    std::string name = stored.substr(stored.starts_with(prefix_) ? prefix_.size() : 0);
    if (!is_optimizer(name)) {
      return name.starts_with(model_prefix_) ? name.substr(model_prefix_.size()) : name;
    }
    if (!options_.optimizer) return {};
    constexpr std::string_view kState = "optimizer.state.";
    return name.starts_with(kState) ? "optimizer." + name.substr(kState.size()) : name;
  }

  void read_tensor(const std::string& stored, const PtValue& description) {
    const auto* const object = description.as<PtObject>();
    if (object == nullptr || !object->class_name.ends_with(".TensorStorageMetadata")) return;
    const std::string name = wanted_name(stored);
    if (name.empty() || matches_any(options_.rules.ignored, name)) return;
    const std::optional<Shape> shape = shape_of(attribute(&description, "size"));
    const PtValue* const chunks = attribute(&description, "chunks");
    const auto* const list = chunks == nullptr ? nullptr : chunks->as<io::PtList>();
    if (!shape || list == nullptr) refuse(in_quotes(stored) + ": expected a size and chunks");
    Parameter parameter{io::with_escaped_bytes(name), DType::kFloat32, *shape, {}};
    bool is_first = true;
    for (const PtValue* chunk : list->items) {
      const std::optional<Shape> offset = shape_of(attribute(chunk, "offsets"));
      const std::optional<Shape> extent = shape_of(attribute(chunk, "sizes"));
      if (!offset || !extent || offset->size() != shape->size() || extent->size() != shape->size()) {
        refuse(in_quotes(stored) + ": expected offsets and sizes of each chunk for each dimension");
      }
      if (count_of(*extent) == 0) continue;
      const Parameter part = read_part(stored, *offset);
      if (part.shape != *extent || (!is_first && part.dtype != parameter.dtype)) {
        refuse(in_quotes(stored) + ": the chunk at " + shape_text(*offset) + " should be " +
               shape_text(*extent) + ", found " + shape_text(part.shape) + " of " +
               std::string(dtype_name(part.dtype)));
      }
      parameter.dtype = part.dtype;
      is_first = false;
      Piece& piece = parameter.pieces.emplace_back(part.pieces.at(0));
      piece.offset = *offset;
    }
    if (const std::string problem = tiling_problem(parameter); !problem.empty()) {
      refuse(in_quotes(stored) + ": " + problem);
    }
    add_layers(std::move(parameter));
  }

  Parameter read_part(const std::string& name, const Shape& offset) {
    const auto place = places_.find({name, offset});
    if (place == places_.end())
      refuse(in_quotes(name) + ": the chunk at " + shape_text(offset) + " is stored nowhere");
    const Place& at = place->second;
    if (at.transformed) {
      throw UnsupportedError(metadata_path_ + ": " + in_quotes(name) +
                             ": the data is compressed or encrypted by an extension, which is not supported");
    }
    std::shared_ptr<const io::MappedFile>& file = mapped_[at.file];
    if (file == nullptr) {
      const fs::path path = file_within(state_.layout.folder, at.file);
      file = std::make_shared<const io::MappedFile>(path);
      state_.files.push_back(path);
      state_.mappings.push_back(file);
    }
    const std::string where = (state_.layout.folder / at.file).string();
    const io::PtFile part_file =
        io::PtFile::open(file, where, at.offset, at.length, {.copy_unaligned = false});
    const auto* const tensor = part_file.root().as<io::PtTensor>();
    if (tensor == nullptr) {
      throw FormatError(
          where, "byte " + std::to_string(at.offset),
          "expected the tensor " + in_quotes(name) + ", found " + std::string(part_file.root().kind()));
    }
    Parameter part = whole(name, tensor->view());
    const auto stored = static_cast<std::int64_t>(tensor->storage->data.size() / element_size(tensor->dtype));
    if (count_of(part.shape) > stored)
      refuse(in_quotes(name) + ": a chunk has more elements than its memory");
    return part;
  }

  // Megatron stacks the same parameter of all layers, and of all experts of these.
  void add_layers(Parameter parameter) {
    const std::size_t at = parameter.name.find("layers.");
    const std::size_t behind = at == std::string::npos ? at : at + std::string_view("layers.").size();
    if (!is_megatron_ || at == std::string::npos || find_number(parameter.name, "layers.") ||
        parameter.shape.empty() || is_optimizer_bucket(parameter.name)) {
      return add_experts(std::move(parameter));
    }
    require_stack(parameter);
    for (std::int64_t layer = 0; layer < parameter.shape[0]; ++layer) {
      Parameter one = select(parameter, layer);
      one.name =
          parameter.name.substr(0, behind) + std::to_string(layer) + "." + parameter.name.substr(behind);
      add_experts(std::move(one));
    }
  }

  // An empty tensor can have any shape.
  void require_stack(const Parameter& parameter) const {
    constexpr std::int64_t kMost = 100'000;
    if (parameter.shape[0] > kMost) {
      refuse(in_quotes(parameter.name) +
             ": expected the parameters of at most 100000 layers or experts, found " +
             std::to_string(parameter.shape[0]));
    }
  }

  static bool is_optimizer_bucket(const std::string& name) {
    return name.find("bucket") != std::string::npos;
  }

  void add_experts(Parameter parameter) {
    constexpr std::string_view kExperts = engines::kStackedExperts;
    const std::size_t at = parameter.name.find(kExperts);
    if (!is_megatron_ || at == std::string::npos || find_number(parameter.name, "experts.") ||
        parameter.shape.size() < 2) {
      parameter.name = replaced(parameter.name, kExperts, engines::kOneExpert);
      return add(std::move(parameter));
    }
    require_stack(parameter);
    for (std::int64_t expert = 0; expert < parameter.shape[0]; ++expert) {
      Parameter one = select(parameter, expert);
      one.name = parameter.name.substr(0, at) + std::string(engines::kOneExpert) + std::to_string(expert) +
                 "." + parameter.name.substr(at + kExperts.size());
      add(std::move(one));
    }
  }

  void add(Parameter parameter) { state_.parameters.push_back(std::move(parameter)); }

  void finish_names() {
    if (!is_megatron_) return;
    std::vector<Parameter>& all = state_.parameters;
    const std::vector<Renaming> renamings = renamings_for(options_.rules, [&](const std::string& text) {
      return std::any_of(all.begin(), all.end(),
                         [&](const Parameter& one) { return one.name.find(text) != std::string::npos; });
    });
    for (Parameter& one : all) one.name = renamed(std::move(one.name), renamings);
  }

  Checkpoint::State& state_;
  const OpenOptions& options_;
  std::string metadata_path_;
  io::MappedFile metadata_;
  io::PickleValues values_;
  std::map<PlaceKey, Place> places_;
  std::unordered_map<std::string, std::shared_ptr<const io::MappedFile>> mapped_;
  bool is_megatron_ = false;
  std::string_view prefix_;
  std::string_view model_prefix_;
};

}  // namespace

void read_distributed(Checkpoint::State& state, const OpenOptions& options) {
  DistributedReader(state, options).run();
}

}  // namespace msprobe::checkpoint
