// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// All elements of two checkpoints, once, in pieces that several threads share.

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/layout.h"
#include "checkpoint/chunks.h"
#include "checkpoint/difference.h"
#include "checkpoint/merge.h"
#include "checkpoint/pieces.h"
#include "msprobe/checkpoint.h"
#include "msprobe/content_hash.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"

namespace msprobe::checkpoint {
namespace {

// What threads do together is added up, in a fixed order, after so many chunks. Files stay in memory that
// long, on both sides: each time that a part of them is given back, all threads are interrupted.
constexpr std::size_t kBatch = 64;

// Elements that are looked at several times, for their difference and their hashes, while they are in the
// nearest cache. Few, so that the next ones arrive from memory while these are hashed.
constexpr std::size_t kTile = 2048;

// Elements without gaps from which on the fast way is one.
constexpr std::int64_t kLeastRun = 256;

// A chunk whose elements lie far apart counts as so many: the system maps the pages around each of them.
constexpr std::size_t kScatteredWeight = 8;

// Of `count` elements, of which the first one has this number in the parameter.
ContentHash hash_run(const std::uint8_t* data, DType dtype, std::size_t count, std::uint64_t element) {
  const std::size_t item = element_size(dtype);
  return hash_part(data, count * item, element * item);
}

ContentHash hash_box(const Piece& piece, DType dtype, const Shape& whole_shape) {
  ContentHash hash;
  const auto add = [&](std::uint64_t element, std::size_t count, const std::uint8_t* data,
                       const std::uint8_t*) { hash += hash_run(data, dtype, count, element); };
  if (!is_scattered(piece)) {
    for_runs({piece, piece, dtype, dtype}, whole_shape, add);
    return hash;
  }
  const std::int64_t count = count_of(piece.shape);
  std::vector<std::byte> copy(static_cast<std::size_t>(count) * element_size(dtype));
  msprobe::Layout({piece.data, dtype, piece.shape, piece.strides}, false)
      .gather(0, static_cast<std::size_t>(count), copy.data());
  Piece gathered = piece;
  gathered.data = reinterpret_cast<const std::uint8_t*>(copy.data());
  std::int64_t step = 1;
  for (std::size_t d = piece.shape.size(); d-- > 0;) {
    gathered.strides[d] = step;
    step *= piece.shape[d];
  }
  for_runs({gathered, gathered, dtype, dtype}, whole_shape, add);
  return hash;
}

// ---- the work

// A box of a pair of parameters, or of one of them where only its hash is wanted.
struct Chunk {
  std::size_t row = 0;
  Piece reference;
  Piece target;               // without memory where only a hash of the reference is wanted
  std::uint64_t bytes = 0;    // of both sides
  bool is_scattered = false;  // its elements lie far apart, on one side at least

  void set_reference(Piece piece, DType dtype) { set(reference, std::move(piece), dtype); }
  void set_target(Piece piece, DType dtype) { set(target, std::move(piece), dtype); }

 private:
  void set(Piece& side, Piece piece, DType dtype) {
    bytes += static_cast<std::uint64_t>(count_of(piece.shape)) * element_size(dtype);
    is_scattered |= !is_dense(piece, dtype);
    side = std::move(piece);
  }
};

struct Found {
  Difference difference;
  ContentHash reference;
  ContentHash target;
};

// Collects chunks and works on a batch of them when there are enough.
class Work {
 public:
  using Do = std::function<Found(const Chunk&)>;
  using Take = std::function<void(std::size_t row, const Found&)>;
  using GiveBack = std::function<void()>;

  Work(ThreadPool& pool, const Progress& progress, std::uint64_t total, Do work, Take take,
       GiveBack give_back)
      : pool_(pool),
        progress_(progress),
        total_(total),
        do_(std::move(work)),
        take_(std::move(take)),
        give_back_(std::move(give_back)) {}

  void add(Chunk chunk) {
    weight_ += chunk.is_scattered ? kScatteredWeight : 1;
    chunks_.push_back(std::move(chunk));
    if (weight_ >= kBatch) flush();
  }

  void flush() {
    std::vector<Found> found(chunks_.size());
    pool_.parallel_for(chunks_.size(), [&](std::size_t i) { found[i] = do_(chunks_[i]); });
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      take_(chunks_[i].row, found[i]);
      done_ += chunks_[i].bytes;
    }
    chunks_.clear();
    weight_ = 0;
    give_back_();
    if (progress_ && !progress_(done_, total_))
      throw InvalidArgument("comparing checkpoints: ended on request");
  }

 private:
  ThreadPool& pool_;
  const Progress& progress_;
  std::uint64_t total_;
  Do do_;
  Take take_;
  GiveBack give_back_;
  std::vector<Chunk> chunks_;
  std::size_t weight_ = 0;
  std::uint64_t done_ = 0;
};

std::uint64_t bytes_of(const Parameter& parameter) {
  return static_cast<std::uint64_t>(count_of(parameter.shape)) * element_size(parameter.dtype);
}

// Divides work of these sizes: the largest first, each to the share that has the least. The same in all
// processes.
std::vector<std::size_t> own_share(const std::vector<std::uint64_t>& sizes, unsigned share, unsigned shares) {
  if (shares == 0 || share >= shares)
    throw InvalidArgument("comparing checkpoints: there is no such share of the work");
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  std::vector<std::uint64_t> sums(shares);
  std::vector<std::size_t> own;
  for (const std::size_t i : order) {
    const auto least = std::min_element(sums.begin(), sums.end());
    *least += sizes[i];
    if (least - sums.begin() == static_cast<std::ptrdiff_t>(share)) own.push_back(i);
  }
  std::sort(own.begin(), own.end());
  return own;
}

// In the order in which the files have the parameters, which a disk likes.
void sort_by_place(std::vector<std::size_t>& indices,
                   const std::function<const Parameter&(std::size_t)>& parameter) {
  std::stable_sort(indices.begin(), indices.end(), [&](std::size_t a, std::size_t b) {
    const auto place = [&](std::size_t i) {
      return parameter(i).pieces.empty() ? nullptr : parameter(i).pieces[0].data;
    };
    return std::less<>()(place(a), place(b));
  });
}

class PairWork {
 public:
  PairWork(const Checkpoint& reference, const Checkpoint& target, Pairing& pairing,
           const CompareOptions& options)
      : reference_side_(reference),
        target_side_(target),
        reference_(reference.parameters()),
        target_(target.parameters()),
        pairing_(pairing),
        options_(options),
        hashes_(pairing.rows.size()) {}

  std::vector<std::size_t> run() {
    std::vector<std::uint64_t> sizes;
    sizes.reserve(pairing_.rows.size());
    for (const Row& row : pairing_.rows)
      sizes.push_back(row.comparable ? bytes_of(reference(row)) + bytes_of(target(row)) : 0);
    const std::vector<std::size_t> own = own_share(sizes, options_.share, options_.shares);
    std::uint64_t total = 0;
    for (const std::size_t i : own) total += sizes[i];
    ThreadPool pool(options_.threads);
    Work work(
        pool, options_.progress, total, [this](const Chunk& chunk) { return look_at(chunk); },
        [this](std::size_t row, const Found& found) { take(row, found); },
        [this] {
          reference_side_.give_back_memory();
          target_side_.give_back_memory();
        });
    std::vector<std::size_t> order = own;
    sort_by_place(order, [&](std::size_t i) -> const Parameter& { return reference(pairing_.rows[i]); });
    for (const std::size_t i : order) {
      begin(pairing_.rows[i]);
      if (pairing_.rows[i].comparable) add(i, work);
    }
    work.flush();
    if (!options_.hash) return own;
    for (const std::size_t i : own) {
      pairing_.rows[i].reference_hash = hashes_[i].reference.text();
      pairing_.rows[i].target_hash = hashes_[i].target.text();
    }
    return own;
  }

 private:
  const Parameter& reference(const Row& row) const { return reference_[row.reference]; }
  const Parameter& target(const Row& row) const { return target_[row.target]; }

  void begin(Row& row) const { row.difference = {}; }

  void add(std::size_t i, Work& work) const {
    const Row& row = pairing_.rows[i];
    const Parameter l = row.rows ? slice(reference(row), 0, 0, *row.rows) : reference(row);
    const Parameter r = row.rows ? slice(target(row), 0, 0, *row.rows) : target(row);
    const auto item = static_cast<std::int64_t>(std::max(element_size(l.dtype), element_size(r.dtype)));
    for_overlaps(l, r, [&](const Overlap& overlap) {
      split_box(overlap.offset, overlap.reference.shape, kChunkBytes / item,
                columns_of(overlap.reference, overlap.target), [&](const Shape& offset, const Shape& shape) {
                  Chunk chunk;
                  chunk.row = i;
                  chunk.set_reference(cut(overlap.reference, l.dtype, offset, shape), l.dtype);
                  chunk.set_target(cut(overlap.target, r.dtype, offset, shape), r.dtype);
                  work.add(std::move(chunk));
                });
    });
  }

  Found look_at(const Chunk& chunk) const {
    const Row& row = pairing_.rows[chunk.row];
    const Shape& whole_shape = reference(row).shape;
    const Both both{chunk.reference, chunk.target, reference(row).dtype, target(row).dtype};
    read_ahead(chunk.reference, both.reference_dtype);
    read_ahead(chunk.target, both.target_dtype);
    const std::optional<Element> element = fast_way(both.reference_dtype, both.target_dtype);
    if (element && inner_of(both, whole_shape).count >= kLeastRun)
      return look_at_runs(both, whole_shape, *element);
    Found found;
    found.difference = difference_of(AlignedView(chunk.reference, both.reference_dtype).view(),
                                     AlignedView(chunk.target, both.target_dtype).view());
    if (!options_.hash) return found;
    found.reference = hash_box(chunk.reference, both.reference_dtype, whole_shape);
    found.target = hash_box(chunk.target, both.target_dtype, target(row).shape);
    return found;
  }

  Found look_at_runs(const Both& both, const Shape& whole_shape, Element element) const {
    Found found;
    for_runs(both, whole_shape,
             [&](std::uint64_t first, std::size_t count, const std::uint8_t* l, const std::uint8_t* r) {
               const std::size_t item = element_size(both.reference_dtype);
               for (std::size_t i = 0; i < count; i += kTile) {
                 const std::size_t some = std::min(kTile, count - i);
                 add_pairs(found.difference, element, l + i * item, r + i * item, some);
                 if (!options_.hash) continue;
                 found.reference += hash_run(l + i * item, both.reference_dtype, some, first + i);
                 found.target += hash_run(r + i * item, both.target_dtype, some, first + i);
               }
             });
    return found;
  }

  void take(std::size_t row, const Found& found) {
    append(pairing_.rows[row].difference, found.difference);
    hashes_[row].reference += found.reference;
    hashes_[row].target += found.target;
  }

  const Checkpoint& reference_side_;
  const Checkpoint& target_side_;
  std::span<const Parameter> reference_;
  std::span<const Parameter> target_;
  Pairing& pairing_;
  const CompareOptions& options_;
  struct Hashes {
    ContentHash reference;
    ContentHash target;
  };
  std::vector<Hashes> hashes_;  // of each row, as far as it was looked at
};

}  // namespace

std::vector<std::size_t> measure(const Checkpoint& reference, const Checkpoint& target, Pairing& pairing,
                                 const CompareOptions& options) {
  return PairWork(reference, target, pairing, options).run();
}

bool equal_bits(const Parameter& reference, const Parameter& target, Extent extent) {
  if (reference.shape != target.shape || reference.dtype != target.dtype) return false;
  const auto item = static_cast<std::int64_t>(element_size(reference.dtype));
  const auto are_equal = [&](const Piece& l, const Piece& r) {
    const InMemory reference_memory(l, reference.dtype);
    const InMemory target_memory(r, target.dtype);
    const Both both{l, r, reference.dtype, target.dtype};
    if (inner_of(both, reference.shape).count < kLeastRun) {
      const Difference found =
          difference_of(AlignedView(l, reference.dtype).view(), AlignedView(r, target.dtype).view());
      return found.equal_bits == found.count;
    }
    bool equal = true;
    for_runs(both, reference.shape, [&](std::uint64_t, std::size_t count, const auto* a, const auto* b) {
      equal = equal && std::memcmp(a, b, count * static_cast<std::size_t>(item)) == 0;
    });
    return equal;
  };
  bool equal = true;
  for_overlaps(reference, target, [&](const Overlap& overlap) {
    const std::int64_t chunks =
        std::max<std::int64_t>(1, count_of(overlap.reference.shape) * item / kChunkBytes);
    std::int64_t number = 0;
    split_box(overlap.offset, overlap.reference.shape, kChunkBytes / item,
              columns_of(overlap.reference, overlap.target), [&](const Shape& offset, const Shape& shape) {
                const bool is_wanted = extent == Extent::kAll || number == 0 || number == chunks / 2;
                ++number;
                if (!equal || !is_wanted) return;
                equal = are_equal(cut(overlap.reference, reference.dtype, offset, shape),
                                  cut(overlap.target, target.dtype, offset, shape));
              });
  });
  return equal;
}

std::vector<std::string> hash_parameters(const Checkpoint& checkpoint, const CompareOptions& options) {
  const std::span<const Parameter> parameters = checkpoint.parameters();
  std::vector<ContentHash> hashes(parameters.size());
  ThreadPool pool(options.threads);
  Work work(
      pool, options.progress, checkpoint.bytes(),
      [&](const Chunk& chunk) {
        const Parameter& parameter = parameters[chunk.row];
        read_ahead(chunk.reference, parameter.dtype);
        Found found;
        found.reference = hash_box(chunk.reference, parameter.dtype, parameter.shape);
        return found;
      },
      [&](std::size_t row, const Found& found) { hashes[row] += found.reference; },
      [&] { checkpoint.give_back_memory(); });
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  sort_by_place(order, [&](std::size_t i) -> const Parameter& { return parameters[i]; });
  for (const std::size_t i : order) {
    const Parameter& parameter = parameters[i];
    const auto item = static_cast<std::int64_t>(element_size(parameter.dtype));
    for (const Piece& piece : parameter.pieces) {
      split_box(piece.offset, piece.shape, kChunkBytes / item, columns_of(piece, piece),
                [&](const Shape& offset, const Shape& shape) {
                  Chunk chunk;
                  chunk.row = i;
                  chunk.set_reference(cut(piece, parameter.dtype, offset, shape), parameter.dtype);
                  work.add(std::move(chunk));
                });
    }
  }
  work.flush();
  std::vector<std::string> texts;
  texts.reserve(hashes.size());
  for (const ContentHash& hash : hashes) texts.push_back(hash.text());
  return texts;
}

}  // namespace msprobe::checkpoint
