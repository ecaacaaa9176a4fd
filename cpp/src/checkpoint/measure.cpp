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
#include "checkpoint/difference.h"
#include "checkpoint/pieces.h"
#include "io/mapped_file.h"
#include "msprobe/checkpoint.h"
#include "msprobe/error.h"
#include "msprobe/thread_pool.h"

namespace msprobe::checkpoint {
namespace {

// Bytes of one side that a thread works on at a time; what threads do together is added up, in a fixed order,
// after so many of them. Files stay in memory that long, on both sides.
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::size_t kBatch = 64;

// Elements that are looked at several times, for their difference and their hashes, while they are in the
// nearest cache.
constexpr std::size_t kTile = 4096;

// Elements without gaps from which on the fast way is one.
constexpr std::int64_t kLeastRun = 256;

// A chunk whose elements lie far apart counts as so many: the system maps the pages around each of them.
constexpr std::size_t kScatteredWeight = 8;

// After so many batches all files are given back: what the system maps around the pages that are touched
// reaches into chunks that have been given back before.
constexpr unsigned kBatchesInMemory = 4;

// Columns of a chunk where neighbours lie far apart on one side: the cache lines of one row are still there
// when the next one needs them.
constexpr std::int64_t kScatteredColumns = 512;

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

// A box in both of its memories, which may be one and the same.
struct Both {
  const Piece& left;
  const Piece& right;
  DType left_dtype;
  DType right_dtype;
};

// Dimensions from `first` on lie without gaps in the parameter and in both memories: `count` elements.
struct Inner {
  std::size_t first;
  std::int64_t count = 1;
};

Inner inner_of(const Both& both, const Shape& whole_shape) {
  const Shape& shape = both.left.shape;
  Inner inner{shape.size()};
  while (inner.first > 0) {
    const std::size_t d = inner.first - 1;
    const auto has_no_gaps = [&](const Piece& piece) { return piece.strides[d] == inner.count; };
    if (shape[d] != 1 && !(has_no_gaps(both.left) && has_no_gaps(both.right))) break;
    inner.first = d;
    inner.count *= shape[d];
    if (shape[d] != whole_shape[d]) break;
  }
  return inner;
}

// Calls `visit(number of the first element in the parameter, elements, left memory, right memory)` for parts
// of a box without gaps.
template <typename Visit>
void for_runs(const Both& both, const Shape& whole_shape, const Visit& visit) {
  const Inner inner = inner_of(both, whole_shape);
  const Shape& shape = both.left.shape;
  const auto at = [](const Piece& piece, DType dtype, const Shape& index) {
    std::int64_t element = 0;
    for (std::size_t d = 0; d < index.size(); ++d) element += index[d] * piece.strides[d];
    return piece.data + element * static_cast<std::int64_t>(element_size(dtype));
  };
  Shape index(inner.first, 0);
  for (std::int64_t left = count_of(shape) / std::max<std::int64_t>(inner.count, 1); left > 0; --left) {
    std::int64_t element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      element = element * whole_shape[d] + both.left.offset[d] + (d < inner.first ? index[d] : 0);
    }
    visit(static_cast<std::uint64_t>(element), static_cast<std::size_t>(inner.count),
          at(both.left, both.left_dtype, index), at(both.right, both.right_dtype, index));
    for (std::size_t d = inner.first; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

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
  Piece left;
  Piece right;                // without memory where only a hash of the left one is wanted
  std::uint64_t bytes = 0;    // of both sides
  bool is_scattered = false;  // its elements lie far apart, on one side at least

  void set_left(Piece piece, DType dtype) { set(left, std::move(piece), dtype); }
  void set_right(Piece piece, DType dtype) { set(right, std::move(piece), dtype); }

 private:
  void set(Piece& side, Piece piece, DType dtype) {
    bytes += static_cast<std::uint64_t>(count_of(piece.shape)) * element_size(dtype);
    is_scattered |= !is_dense(piece, dtype);
    side = std::move(piece);
  }
};

struct Found {
  Difference difference;
  ContentHash left;
  ContentHash right;
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
    has_scattered_ |= weight_ > chunks_.size();
    chunks_.clear();
    weight_ = 0;
    if (has_scattered_ || ++batches_ % kBatchesInMemory == 0) give_back_();
    has_scattered_ = false;
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
  unsigned batches_ = 0;
  bool has_scattered_ = false;
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
      : left_side_(left),
        right_side_(right),
        left_(left.parameters()),
        right_(right.parameters()),
        pairing_(pairing),
        options_(options) {}

  std::vector<std::size_t> run() {
    std::vector<std::uint64_t> sizes;
    sizes.reserve(pairing_.rows.size());
    for (const Row& row : pairing_.rows)
      sizes.push_back(row.comparable ? bytes_of(left(row)) + bytes_of(right(row)) : 0);
    const std::vector<std::size_t> own = own_share(sizes, options_.share, options_.shares);
    std::uint64_t total = 0;
    for (const std::size_t i : own) total += sizes[i];
    ThreadPool pool(options_.threads);
    Work work(
        pool, options_.progress, total, [this](const Chunk& chunk) { return look_at(chunk); },
        [this](std::size_t row, const Found& found) { take(pairing_.rows[row], found); },
        [this] {
          left_side_.give_back_memory();
          right_side_.give_back_memory();
        });
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
    row.difference = {};
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
                  Chunk chunk;
                  chunk.row = i;
                  chunk.set_left(cut(overlap.left, l.dtype, offset, shape), l.dtype);
                  chunk.set_right(cut(overlap.right, r.dtype, offset, shape), r.dtype);
                  work.add(std::move(chunk));
                });
    });
  }

  Found look_at(const Chunk& chunk) const {
    const Row& row = pairing_.rows[chunk.row];
    const Shape& whole_shape = left(row).shape;
    const Both both{chunk.left, chunk.right, left(row).dtype, right(row).dtype};
    const InMemory left_memory(chunk.left, both.left_dtype);
    const InMemory right_memory(chunk.right, both.right_dtype);
    const std::optional<Element> element = fast_way(both.left_dtype, both.right_dtype);
    if (element && inner_of(both, whole_shape).count >= kLeastRun)
      return look_at_runs(both, whole_shape, *element);
    Found found;
    found.difference = difference_of(AlignedView(chunk.left, both.left_dtype).view(),
                                     AlignedView(chunk.right, both.right_dtype).view());
    if (!options_.hash) return found;
    found.left = hash_box(chunk.left, both.left_dtype, whole_shape);
    found.right = hash_box(chunk.right, both.right_dtype, right(row).shape);
    return found;
  }

  Found look_at_runs(const Both& both, const Shape& whole_shape, Element element) const {
    Found found;
    for_runs(both, whole_shape,
             [&](std::uint64_t first, std::size_t count, const std::uint8_t* l, const std::uint8_t* r) {
               const std::size_t item = element_size(both.left_dtype);
               for (std::size_t i = 0; i < count; i += kTile) {
                 const std::size_t some = std::min(kTile, count - i);
                 add_pairs(found.difference, element, l + i * item, r + i * item, some);
                 if (!options_.hash) continue;
                 found.left += hash_run(l + i * item, both.left_dtype, some, first + i);
                 found.right += hash_run(r + i * item, both.right_dtype, some, first + i);
               }
             });
    return found;
  }

  static void take(Row& row, const Found& found) {
    append(row.difference, found.difference);
    if (row.left_hash) *row.left_hash += found.left;
    if (row.right_hash) *row.right_hash += found.right;
  }

  const Checkpoint& left_side_;
  const Checkpoint& right_side_;
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
        const InMemory memory(chunk.left, parameter.dtype);
        Found found;
        found.left = hash_box(chunk.left, parameter.dtype, parameter.shape);
        return found;
      },
      [&](std::size_t row, const Found& found) { hashes[row] += found.left; },
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
                  chunk.set_left(cut(piece, parameter.dtype, offset, shape), parameter.dtype);
                  work.add(std::move(chunk));
                });
    }
  }
  work.flush();
  return hashes;
}

}  // namespace msprobe::checkpoint
