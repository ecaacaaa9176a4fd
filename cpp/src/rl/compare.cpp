// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "base/convert.h"
#include "base/shape_text.h"
#include "msprobe/sheet.h"
#include "rl/batches.h"
#include "rl/difference.h"

namespace msprobe::rl {
namespace {

using io::Cell;

constexpr std::array<std::string_view, 12> kColumns{
    "step",
    "rank",
    "micro_step",
    "id",
    "shape1",
    "shape2",
    "相同元素百分比(%)",
    "首个不匹配元素索引",
    "最大绝对误差",
    "最大相对误差",
    "误差在千分之一内元素占比(%)",
    "误差在百分之一内元素占比(%)",
};

double value_at(const ArrayReader& reader, std::int64_t index) {
  alignas(16) std::array<std::byte, 16> element;
  reader.read(index, 1, element.data());
  std::array<double, 2> value{};
  convert_to_double(element.data(), reader.header().dtype, 1, value.data());
  return value[0];
}

// Numbers that are no measurements: tokens, masks.
bool is_exact(DType dtype) { return !is_floating(dtype) && !is_complex(dtype); }

Difference compare_part(const OpenPair& open, std::int64_t begin, std::int64_t count, Tolerance tolerance) {
  if (is_exact(open.reference->header().dtype) && is_exact(open.target->header().dtype)) tolerance = {0, 0};
  Room& room = room_of_this_thread();
  Difference difference;
  for (std::int64_t at = begin; at < begin + count; at += static_cast<std::int64_t>(kPieceElements)) {
    const auto some = static_cast<std::size_t>(std::min<std::int64_t>(kPieceElements, begin + count - at));
    open.reference->read(at, some, room.reference.data());
    open.target->read(at, some, room.target.data());
    add_pairs(room.reference.data(), open.reference->header().dtype, room.target.data(),
              open.target->header().dtype, at, some, tolerance, difference);
  }
  return difference;
}

void complete(Row& row, OpenPair& open, const std::vector<Difference>& parts) {
  if (open.reference && open.target) {
    row.reference_shape = open.reference->header().shape;
    row.target_shape = open.target->header().shape;
    row.reference_dtype = open.reference->header().dtype;
    row.target_dtype = open.target->header().dtype;
    row.compared = open.part.shape;
  }
  row.problem = std::move(open.problem);
  if (!row.problem.empty()) return;
  for (const Difference& part : parts) append(row.difference, part);
  const Difference& found = row.difference;
  const std::optional<std::int64_t> shown = found.first_beyond ? found.first_beyond : found.first_mismatch;
  if (!shown) return;
  row.reference_value = value_at(*open.reference, *shown);
  row.target_value = value_at(*open.target, *shown);
}

Cell number_cell(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? std::string_view("nan") : std::string_view(value > 0 ? "inf" : "-inf");
}

Cell share_cell(std::int64_t some, std::int64_t all) {
  if (all == 0) return {};
  return static_cast<double>(some) / static_cast<double>(all) * 100;
}

// Of an entry: its number; its name where a dict has several; 0 where it is the only one of its key.
Cell id_cell(const std::string& entry, bool is_alone) {
  std::int64_t number = 0;
  const bool is_number =
      !entry.empty() && entry.size() < 19 && entry.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) number = std::stoll(entry);
  if (is_number || entry.empty() || is_alone) return number;
  return std::string_view(entry);
}

}  // namespace

OpenPair open_pair(const Paired::Pair& pair) {
  OpenPair open;
  try {
    open.reference = std::make_unique<ArrayReader>(pair.reference);
    open.target = std::make_unique<ArrayReader>(pair.target);
    open.part = common_part(open.reference->header().shape, open.target->header().shape);
    open.reference->choose(open.part);
    open.target->choose(open.part);
    open.count = 1;
    for (const std::int64_t extent : open.part.shape) open.count *= extent;
    const auto refuse_complex = [&](const ArrayReader& side, const std::filesystem::path& path) {
      if (is_complex(side.header().dtype)) {
        throw UnsupportedError(path.string() + ": complex numbers are not compared");
      }
    };
    refuse_complex(*open.reference, pair.reference);
    refuse_complex(*open.target, pair.target);
  } catch (const Error& error) {
    open.problem = error.what();
  }
  return open;
}

KeyComparison compare_key(const std::filesystem::path& reference, const std::filesystem::path& target,
                          const std::string& key, const CompareOptions& options) {
  Paired both = paired(arrays(reference, key), arrays(target, key));
  KeyComparison result;
  result.rows.resize(both.pairs.size());
  std::vector<std::vector<Difference>> parts(both.pairs.size());
  for_batches(
      both.pairs, options.threads, options.progress,
      [&](std::size_t i, const OpenPair& open) {
        parts[i].resize(static_cast<std::size_t>((open.count + kPartElements - 1) / kPartElements));
      },
      [&](std::size_t i, std::size_t part, const OpenPair& open, std::int64_t first, std::int64_t count) {
        parts[i][part] = compare_part(open, first, count, options.tolerance);
      },
      [&](std::size_t i, OpenPair& open) {
        complete(result.rows[i], open, std::exchange(parts[i], {}));
        result.rows[i].place = std::move(both.pairs[i].place);
      });
  result.reference_only = std::move(both.reference_only);
  result.target_only = std::move(both.target_only);
  return result;
}

void write_table(const std::filesystem::path& path, const KeyComparison& comparison) {
  std::set<std::string_view> entries;
  for (const Row& row : comparison.rows) {
    if (entries.size() < 2) entries.insert(row.place.entry);
  }
  io::SheetWriter sheet(path);
  sheet.begin_sheet("Sheet1", kColumns);
  for (const Row& row : comparison.rows) {
    if (!row.problem.empty()) continue;
    const Difference& found = row.difference;
    const std::string reference_shape = shape_text(row.reference_shape);
    const std::string target_shape = shape_text(row.target_shape);
    sheet.add_row(std::array<Cell, 12>{
        row.place.step, row.place.rank, row.place.micro_step, id_cell(row.place.entry, entries.size() == 1),
        std::string_view(reference_shape), std::string_view(target_shape),
        share_cell(found.same, found.count), found.first_mismatch ? Cell(*found.first_mismatch) : Cell(),
        number_cell(found.max_absolute), number_cell(found.max_relative),
        share_cell(found.within_thousandth, found.count), share_cell(found.within_hundredth, found.count)});
  }
  sheet.commit();
}

}  // namespace msprobe::rl
