// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/zip/deflate_stream.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/crc32.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

constexpr std::size_t kBlock = std::size_t{256} << 10;
constexpr int kFastest = 1;       // level 6 takes four times as long for a tenth less
constexpr int kRawDeflate = -15;  // no header, window of 32 KiB
constexpr int kMemoryLevel = 9;
constexpr std::size_t kFlushBytes = 16;                      // more than the empty block of a flush
constexpr std::string_view kEmptyFinalBlock("\x03\x00", 2);  // fixed codes, nothing but the end

// The compressed block ends at a byte, so that the next one can follow.
std::string compress(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, kFastest, Z_DEFLATED, kRawDeflate, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string result(deflateBound(&stream, static_cast<uLong>(text.size())) + kFlushBytes, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  const bool whole = deflate(&stream, Z_SYNC_FLUSH) == Z_OK && stream.avail_in == 0 && stream.avail_out > 0;
  result.resize(stream.total_out);
  deflateEnd(&stream);
  if (!whole) throw InternalError("zlib did not compress a block of a sheet; please report this");
  return result;
}

}  // namespace

DeflateStream::DeflateStream(ThreadPool& pool, const std::function<void(std::string_view)>& sink)
    : pool_(pool), sink_(sink) {}

void DeflateStream::add(std::string_view text) {
  const std::size_t batch = kBlock * pool_.size();
  while (!text.empty()) {
    const std::size_t taken = std::min(text.size(), batch - pending_.size());
    pending_ += text.substr(0, taken);
    text.remove_prefix(taken);
    if (pending_.size() == batch) compress_pending();
  }
}

DeflateStream::Totals DeflateStream::finish() {
  compress_pending();
  sink_(kEmptyFinalBlock);
  totals_.stored_size += kEmptyFinalBlock.size();
  return std::exchange(totals_, Totals{});
}

void DeflateStream::compress_pending() {
  const std::string_view text = pending_;
  std::vector<std::string> blocks((text.size() + kBlock - 1) / kBlock);
  pool_.parallel_for(blocks.size(),
                     [&](std::size_t i) { blocks[i] = compress(text.substr(i * kBlock, kBlock)); });
  totals_.crc = crc32(totals_.crc, text.data(), text.size());
  totals_.size += text.size();
  for (const std::string& block : blocks) {
    sink_(block);
    totals_.stored_size += block.size();
  }
  pending_.clear();
}

}  // namespace msprobe::io
