// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// All elements of two checkpoints, once, in pieces that several threads share.

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "base/layout.h"
#include "checkpoint/pieces.h"
#include "io/mapped_file.h"
#include "msprobe/checkpoint.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"

namespace msprobe::checkpoint {
namespace {

// Bytes of one side that a thread works on at a time; what threads do together is added up, in a fixed order,
// after so many of them. Files stay in memory that long, on both sides.
constexpr std::int64_t kChunkBytes = 2 << 20;
constexpr std::size_t kBatch = 32;

// Columns of a chunk where neighbours lie far apart on one side: the cache lines of one row are still there
// when the next one needs them.
constexpr std::int64_t kScatteredColumns = 1024;

bool is_scattered(const Piece& piece) {
  return !piece.strides.empty() && piece.shape.back() > 1 && piece.strides.back() != 1;
}

// From the first to the last element in memory.
std::span<const std::uint8_t> memory_of(const Piece& piece, DType dtype) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < piece.shape.size(); ++d) last += (piece.shape[d] - 1) * piece.strides[d];
  return {piece.data, (static_cast<std::size_t>(last) + 1) * element_size(dtype)};
}

bool is_dense(const Piece& piece, DType dtype) {
  const auto bytes = static_cast<std::size_t>(count_of(piece.shape)) * element_size(dtype);
  return memory_of(piece, dtype).size() <= 2 * bytes;
}

// A part of memory while it is worked on: read in one go, and given back afterwards.
class InMemory {
 public:
  InMemory(const Piece& piece, DType dtype) {
    if (!is_dense(piece, dtype)) return;
    part_ = memory_of(piece, dtype);
    io::read_ahead(part_);
  }
  ~InMemory() { io::give_back(part_); }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;

 private:
  std::span<const std::uint8_t> part_;
};

// A view of a piece whose elements are aligned or are copied one by one anyway.
class AlignedView {
 public:
  AlignedView(const Piece& piece, DType dtype) : piece_(piece), dtype_(dtype), data_(piece.data) {
    const std::size_t item = element_size(dtype);
    if (reinterpret_cast<std::uintptr_t>(piece.data) % item == 0 || !is_c_contiguous(view())) return;
    const auto bytes = static_cast<std::size_t>(count_of(piece.shape)) * item;
    copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(copy_.get(), piece.data, bytes);
    data_ = copy_.get();
  }

  TensorView view() const noexcept { return {data_, dtype_, piece_.shape, piece_.strides}; }

 private:
  const Piece& piece_;
  DType dtype_;
  const void* data_;
  std::unique_ptr<std::byte[]> copy_;
};

// Calls `visit(box)` for consecutive parts of a box, each of at most `most` elements and `columns` columns.
template <typename Visit>
void split_box(const Shape& offset, const Shape& shape, std::int64_t most, std::int64_t columns,
               const Visit& visit) {
  const std::size_t rank = shape.size();
  if (rank == 0) return visit(offset, shape);
  Shape extent = shape;
  extent[rank - 1] = std::min(extent[rank - 1], columns);
  for (std::size_t d = 0; d < rank && count_of(extent) > most; ++d) {
    const std::int64_t rest = count_of(extent) / extent[d];
    extent[d] = std::clamp<std::int64_t>(most / rest, 1, extent[d]);
  }
  Shape at = offset;
  for (;;) {
    Shape part = extent;
    for (std::size_t d = 0; d < rank; ++d) part[d] = std::min(extent[d], offset[d] + shape[d] - at[d]);
    visit(at, part);
    std::size_t d = rank;
    while (d-- > 0) {
      at[d] += extent[d];
      if (at[d] < offset[d] + shape[d]) break;
      at[d] = offset[d];
    }
    if (d > rank) return;  // below 0: all of them came to their ends
  }
}

// The elements of a box as rows without gaps in the parameter: calls `visit(first byte in the parameter,
// bytes, pointer)`.
template <typename Visit>
void for_runs(const Piece& piece, DType dtype, const Shape& whole_shape, const Visit& visit) {
  const std::size_t rank = piece.shape.size();
  const std::size_t item = element_size(dtype);
  // Dimensions from `inner` on lie without gaps both in the parameter and in memory.
  std::size_t inner = rank;
  std::int64_t run = 1;
  while (inner > 0 && (piece.strides[inner - 1] == run || piece.shape[inner - 1] == 1)) {
    --inner;
    run *= piece.shape[inner];
    if (piece.shape[inner] != whole_shape[inner]) break;
  }
  Shape index(inner, 0);
  std::int64_t left = count_of(piece.shape) / std::max<std::int64_t>(run, 1);
  while (left-- > 0) {
    std::int64_t element = 0;
    std::int64_t memory = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t place = d < inner ? index[d] : 0;
      element = element * whole_shape[d] + piece.offset[d] + place;
      memory += place * piece.strides[d];
    }
    visit(static_cast<std::uint64_t>(element) * item, static_cast<std::size_t>(run) * item,
          piece.data + memory * static_cast<std::int64_t>(item));
    for (std::size_t d = inner; d-- > 0;) {
      if (++index[d] < piece.shape[d]) break;
      index[d] = 0;
    }
  }
}

ContentHash hash_box(const Piece& piece, DType dtype, const Shape& whole_shape) {
  ContentHash hash;
  const auto add = [&](std::uint64_t offset, std::size_t bytes, const std::uint8_t* data) {
    hash += hash_part(data, bytes, offset);
  };
  if (!is_scattered(piece)) {
    for_runs(piece, dtype, whole_shape, add);
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
  for_runs(gathered, dtype, whole_shape, add);
  return hash;
}

// ---- the work

// A box of a pair of parameters, or of one of them where only its hash is wanted.
struct Chunk {
  std::size_t row = 0;
  std::optional<Piece> left;
  std::optional<Piece> right;
  std::uint64_t bytes = 0;  // of both sides
};

struct Found {
  metrics::PairMetrics metrics;
  ContentHash left;
  ContentHash right;
};

// Collects chunks and works on a batch of them when there are enough.
class Work {
 public:
  using Do = std::function<Found(const Chunk&)>;
  using Take = std::function<void(std::size_t row, const Found&)>;

  Work(ThreadPool& pool, const Progress& progress, std::uint64_t total, Do work, Take take)
      : pool_(pool), progress_(progress), total_(total), do_(std::move(work)), take_(std::move(take)) {}

  void add(Chunk chunk) {
    chunks_.push_back(std::move(chunk));
    if (chunks_.size() == kBatch) flush();
  }

  void flush() {
    std::vector<Found> found(chunks_.size());
    pool_.parallel_for(chunks_.size(), [&](std::size_t i) { found[i] = do_(chunks_[i]); });
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      take_(chunks_[i].row, found[i]);
      done_ += chunks_[i].bytes;
    }
    chunks_.clear();
    if (progress_ && !progress_(done_, total_))
      throw InvalidArgument("comparing checkpoints: ended on request");
  }

 private:
  ThreadPool& pool_;
  const Progress& progress_;
  std::uint64_t total_;
  Do do_;
  Take take_;
  std::vector<Chunk> chunks_;
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

// Columns at which boxes of a pair are cut.
std::int64_t columns_of(const Piece& left, const Piece& right) {
  return is_scattered(left) || is_scattered(right) ? kScatteredColumns
                                                   : std::numeric_limits<std::int64_t>::max();
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
  PairWork(const Checkpoint& left, const Checkpoint& right, Pairing& pairing, const CompareOptions& options)
      : left_(left.parameters()), right_(right.parameters()), pairing_(pairing), options_(options) {}

  std::vector<std::size_t> run() {
    std::vector<std::uint64_t> sizes;
    for (const Row& row : pairing_.rows)
      sizes.push_back(row.comparable ? bytes_of(left(row)) + bytes_of(right(row)) : 0);
    const std::vector<std::size_t> own = own_share(sizes, options_.share, options_.shares);
    std::uint64_t total = 0;
    for (const std::size_t i : own) total += sizes[i];
    ThreadPool pool(options_.threads);
    Work work(
        pool, options_.progress, total, [this](const Chunk& chunk) { return look_at(chunk); },
        [this](std::size_t row, const Found& found) { take(pairing_.rows[row], found); });
    std::vector<std::size_t> order = own;
    sort_by_place(order, [&](std::size_t i) -> const Parameter& { return left(pairing_.rows[i]); });
    for (const std::size_t i : order) {
      begin(pairing_.rows[i]);
      if (pairing_.rows[i].comparable) add(i, work);
    }
    work.flush();
    return own;
  }

 private:
  const Parameter& left(const Row& row) const { return left_[row.left]; }
  const Parameter& right(const Row& row) const { return right_[row.right]; }

  void begin(Row& row) const {
    row.metrics = {};
    if (!options_.hash) return;
    row.left_hash = ContentHash();
    row.right_hash = ContentHash();
  }

  void add(std::size_t i, Work& work) const {
    const Row& row = pairing_.rows[i];
    const Parameter l = row.rows ? slice(left(row), 0, 0, *row.rows) : left(row);
    const Parameter r = row.rows ? slice(right(row), 0, 0, *row.rows) : right(row);
    const auto item = static_cast<std::int64_t>(std::max(element_size(l.dtype), element_size(r.dtype)));
    for_overlaps(l, r, [&](const Overlap& overlap) {
      split_box(overlap.offset, overlap.left.shape, kChunkBytes / item,
                columns_of(overlap.left, overlap.right), [&](const Shape& offset, const Shape& shape) {
                  const auto count = static_cast<std::uint64_t>(count_of(shape));
                  work.add({i, cut(overlap.left, l.dtype, offset, shape),
                            cut(overlap.right, r.dtype, offset, shape),
                            count * (element_size(l.dtype) + element_size(r.dtype))});
                });
    });
  }

  Found look_at(const Chunk& chunk) const {
    const Row& row = pairing_.rows[chunk.row];
    const DType left_dtype = left(row).dtype;
    const DType right_dtype = right(row).dtype;
    const InMemory left_memory(*chunk.left, left_dtype);
    const InMemory right_memory(*chunk.right, right_dtype);
    Found found;
    found.metrics = metrics::compare(AlignedView(*chunk.left, left_dtype).view(),
                                     AlignedView(*chunk.right, right_dtype).view(), {.positions = false});
    if (!options_.hash) return found;
    found.left = hash_box(*chunk.left, left_dtype, left(row).shape);
    found.right = hash_box(*chunk.right, right_dtype, right(row).shape);
    return found;
  }

  void take(Row& row, const Found& found) const {
    metrics::append(row.metrics, found.metrics);
    if (!options_.hash) return;
    *row.left_hash += found.left;
    *row.right_hash += found.right;
  }

  std::span<const Parameter> left_;
  std::span<const Parameter> right_;
  Pairing& pairing_;
  const CompareOptions& options_;
};

}  // namespace

std::vector<std::size_t> measure(const Checkpoint& left, const Checkpoint& right, Pairing& pairing,
                                 const CompareOptions& options) {
  return PairWork(left, right, pairing, options).run();
}

std::vector<ContentHash> hash_parameters(const Checkpoint& checkpoint, const CompareOptions& options) {
  const std::span<const Parameter> parameters = checkpoint.parameters();
  std::vector<ContentHash> hashes(parameters.size());
  ThreadPool pool(options.threads);
  Work work(
      pool, options.progress, checkpoint.bytes(),
      [&](const Chunk& chunk) {
        const Parameter& parameter = parameters[chunk.row];
        const InMemory memory(*chunk.left, parameter.dtype);
        Found found;
        found.left = hash_box(*chunk.left, parameter.dtype, parameter.shape);
        return found;
      },
      [&](std::size_t row, const Found& found) { hashes[row] += found.left; });
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  sort_by_place(order, [&](std::size_t i) -> const Parameter& { return parameters[i]; });
  for (const std::size_t i : order) {
    const Parameter& parameter = parameters[i];
    const auto item = static_cast<std::int64_t>(element_size(parameter.dtype));
    for (const Piece& piece : parameter.pieces) {
      split_box(piece.offset, piece.shape, kChunkBytes / item, columns_of(piece, piece),
                [&](const Shape& offset, const Shape& shape) {
                  work.add({i, cut(piece, parameter.dtype, offset, shape), std::nullopt,
                            static_cast<std::uint64_t>(count_of(shape) * item)});
                });
    }
  }
  work.flush();
  return hashes;
}

}  // namespace msprobe::checkpoint
