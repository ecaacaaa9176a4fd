// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "io/sqlite/sqlite_binder.h"
#include "io/sqlite/sqlite_error.h"
#include "msprobe/error.h"
#include "msprobe/viewer_cell.h"
#include "msprobe/viewer_digest.h"
#include "trace/item/bad_number.h"
#include "trace/item/uninitialised.h"
#include "viewer/json_texts.h"
#include "viewer/node_tree.h"
#include "viewer/result_reader.h"

namespace msprobe::viewer {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();  // SQLite keeps it as NULL
constexpr std::uint32_t kNone = NodeTree::kNone;
constexpr std::size_t kRowsPerReport = 2000;

// Of the inputs, weights, gradients and outputs of a node, then the worst of them.
enum Group : std::size_t { kInput, kWeight, kGradient, kOutput, kWorst };
constexpr std::array<const char*, 5> kGroupColumns = {"input_ulps", "weight_ulps", "gradient_ulps",
                                                      "output_ulps", "worst_ulps"};

using Ulps = std::array<double, kGroupColumns.size()>;
using Metrics = std::array<double, kCellMetrics>;

constexpr Ulps kNoUlps = {kNothing, kNothing, kNothing, kNothing, kNothing};

std::string metric_column(std::size_t number) { return "m" + std::to_string(number); }

// The larger one; of NaN and a number the number.
void raise(double& worst, double value) {
  if (!(worst >= value)) worst = std::isnan(value) ? worst : value;
}

// ---- one side

struct NodeValues {
  std::int64_t kind = 0, micro = 0, source = 0;
  double value = kNothing;
  int overflow = 0;
  std::uint32_t link = kNone;  // name of the counterpart
  std::uint32_t stack = 0, shape = 0;
  bool has_links = false, is_merged = false;
};

// A tensor that a node gives or receives.
struct Mark {
  std::int64_t mark;
  bool is_given;
  std::uint32_t node;
  auto key() const { return std::tie(mark, is_given, node); }
};

struct Side {
  std::vector<NodePlace> places;
  std::vector<NodeValues> values;
  std::vector<Ulps> ulps;        // empty: nothing is known of any node
  std::vector<Metrics> metrics;  // likewise
  std::vector<Mark> marks;
  NodeTree tree;
  std::vector<std::uint32_t> peers;    // by place, of the other side
  std::vector<std::string_view> hows;  // by place; empty: no counterpart
};

// What both sides share.
struct Texts {
  TextPool names, shapes, stacks, hows;
};

int overflow_level(std::string_view text) {
  return text == "medium" ? 1 : text == "high" ? 2 : text == "critical" ? 3 : 0;
}

// ---- values

trace::Badness worst_number(const Cells& cells) {
  trace::Badness worst = trace::Badness::kGood;
  for (const auto& [name, cell] : cells) {
    for (const char* const statistic : {"Max", "Min", "Mean"}) {
      worst = std::max(worst, trace::badness(cell.number(statistic).value_or(0)));
    }
  }
  return worst;
}

// As the overflow check of a graph has it, for files that were made without one. What stands in memory that
// nobody has written yet means nothing.
int overflow_of_cells(std::string_view name, const Cells& inputs, const Cells& outputs) {
  if (trace::is_uninitialised(name)) return 0;
  const trace::Badness worst_in = worst_number(inputs), worst_out = worst_number(outputs);
  const bool is_bad = worst_in != trace::Badness::kGood;
  if (worst_out == trace::Badness::kGood) return is_bad ? 1 : 0;
  if (trace::is_deliberate_fill(name, worst_in, worst_out)) return 0;
  return is_bad ? 2 : 3;
}

std::string shape_text(const Cells& inputs, const Cells& outputs) {
  std::set<std::string> texts;
  for (const Cells* cells : {&inputs, &outputs}) {
    for (const auto& [name, cell] : *cells) {
      std::string text(cell.shown("dtype"));
      text.erase(0, text.rfind('.') + 1);  // of npos: nothing
      text.append(cell.shown("shape"));
      if (!text.empty()) texts.insert(std::move(text));
    }
  }
  std::string result;
  for (const std::string& text : texts) result.append(result.empty() ? "" : " ").append(text);
  return result;
}

bool is_weight(std::string_view name) { return name.find(".parameters.") != std::string_view::npos; }

// The cells of one group, in their order.
void select(Group group, const Cells& inputs, const Cells& outputs, bool gradients,
            std::vector<const Cell*>& into) {
  into.clear();
  if (group == kOutput) {
    for (const auto& [name, cell] : outputs) into.push_back(&cell);
    return;
  }
  for (const auto& [name, cell] : inputs) {
    const Group of = gradients ? kGradient : is_weight(name) ? kWeight : kInput;
    if (of == group) into.push_back(&cell);
  }
}

// Metrics of a target's outputs: of each, the worst one.
Metrics metrics_of(const Cells& cells) {
  Metrics worst;
  worst.fill(kNothing);
  for (std::size_t i = 0; i < kCellMetrics; ++i) {
    const CellMetric& metric = cell_metrics()[i];
    for (const auto& [name, cell] : cells) {
      const auto value = cell.number(metric.name);
      if (!value || std::isnan(*value)) continue;
      if (!metric.small_is_bad) {
        raise(worst[i], std::abs(*value));
      } else if (!(worst[i] <= *value)) {
        worst[i] = *value;
      }
    }
  }
  return worst;
}

// ---- reading

class Reader {
 public:
  Reader(const DigestSource& source, const DigestProgress& progress)
      : result_(source), progress_(progress), total_(result_.count()) {}

  void read(Side& side, int number, const Side* reference) {
    result_.nodes(number, [&](const ResultRow& row) {
      add(side, row, reference);
      ++done_;
      if (done_ % kRowsPerReport == 0 && progress_ && !progress_(done_, total_)) {
        throw InvalidArgument("reading the values of a graph was ended");
      }
    });
    side.tree = NodeTree(side.places, texts_.names.size(), empty_, root_);
    side.peers.assign(side.tree.size(), kNone);
    side.hows.resize(side.tree.size());
  }

  // What msprobe itself has written is better than what the cells tell.
  void adopt(Side& side, int number, const Side& other) {
    if (!result_.has_own_tables()) return;
    side.ulps.resize(side.places.size(), kNoUlps);
    result_.own_rows(number, [&](const OwnRow& row) {
      const auto name = texts_.names.find(row.name);
      const std::uint32_t pos = name ? side.tree.find(*name) : kNone;
      if (pos == kNone) return;
      const auto peer = row.counterpart.empty() ? std::nullopt : texts_.names.find(row.counterpart);
      if (side.peers[pos] == kNone && peer) side.peers[pos] = other.tree.find(*peer);
      if (!row.how.empty()) side.hows[pos] = texts_.hows[texts_.hows.add(row.how)];
      Ulps& ulps = side.ulps[side.tree.node(pos)];
      ulps = {row.input_ulps.value_or(kNothing), row.weight_ulps.value_or(kNothing),
              row.gradient_ulps.value_or(kNothing), row.output_ulps.value_or(kNothing), kNothing};
      for (std::size_t i = 0; i < kWorst; ++i) raise(ulps[kWorst], ulps.at(i));
    });
  }

  // Lines of the stacks, by their number.
  std::vector<std::string> stack_lines() {
    std::vector<std::string> lines(texts_.stacks.size());
    result_.stacks([&](std::string_view id, std::string_view json) {
      const auto number = texts_.stacks.find(id);
      if (!number) return;
      for (const std::string& line : list_texts(json)) {
        lines[*number].append(lines[*number].empty() ? "" : "\n").append(line);
      }
    });
    return lines;
  }

  const Texts& texts() const noexcept { return texts_; }

 private:
  void add(Side& side, const ResultRow& row, const Side* reference) {
    const auto node = static_cast<std::uint32_t>(side.places.size());
    side.places.push_back(
        {.name = texts_.names.add(row.name), .parent = texts_.names.add(row.parent), .order = row.order});
    inputs_.read(row.inputs);
    outputs_.read(row.outputs);
    side.values.push_back({.kind = row.kind,
                           .micro = row.micro,
                           .source = row.source,
                           .value = row.value.value_or(kNothing),
                           .overflow = has_levels_ ? overflow_level(row.overflow)
                                                   : overflow_of_cells(row.name, inputs_, outputs_),
                           .link = row.link.empty() ? kNone : texts_.names.add(row.link),
                           .stack = texts_.stacks.add(row.stack),
                           .shape = texts_.shapes.add(shape_text(inputs_, outputs_)),
                           .has_links = row.has_links,
                           .is_merged = row.is_merged});
    add_marks(side, node);
    const bool is_compared =
        reference != nullptr && !row.link.empty() && !(inputs_.empty() && outputs_.empty());
    if (is_compared) measure(side, node, row.name.ends_with("parameters_grad"), *reference);
  }

  void add_marks(Side& side, std::uint32_t node) {
    const std::size_t before = side.marks.size();
    for (const auto& [name, cell] : inputs_) {
      if (name.find(".parameters") == std::string_view::npos) add_mark(side, cell, false, node);
    }
    for (const auto& [name, cell] : outputs_) add_mark(side, cell, true, node);
    const auto own = side.marks.begin() + static_cast<std::ptrdiff_t>(before);
    std::sort(own, side.marks.end(), [](const Mark& a, const Mark& b) { return a.key() < b.key(); });
    side.marks.erase(
        std::unique(own, side.marks.end(), [](const Mark& a, const Mark& b) { return a.key() == b.key(); }),
        side.marks.end());
  }

  static void add_mark(Side& side, const Cell& cell, bool is_given, std::uint32_t node) {
    if (const auto mark = mark_of(cell)) side.marks.push_back({*mark, is_given, node});
  }

  void measure(Side& side, std::uint32_t node, bool gradients, const Side& reference) {
    Metrics none;
    none.fill(kNothing);
    side.metrics.resize(node, none);
    side.metrics.push_back(metrics_of(gradients ? inputs_ : outputs_));
    if (result_.has_own_tables()) return;  // the differences are in the file
    const bool has_reference = doubtful() && read_reference(side.values[node].link, reference);
    side.ulps.resize(node, kNoUlps);
    side.ulps.push_back(ulps_of_groups(gradients, has_reference));
  }

  bool doubtful() const {
    for (const Cells* cells : {&inputs_, &outputs_}) {
      for (const auto& [name, cell] : *cells) {
        if (needs_reference(cell)) return true;
      }
    }
    return false;
  }

  bool read_reference(std::uint32_t name, const Side& reference) {
    const std::uint32_t pos = reference.tree.find(name);
    if (pos == kNone) return false;
    result_.cells(reference.values[reference.tree.node(pos)].source,
                  [&](std::string_view in, std::string_view out) {
                    reference_inputs_.read(in);
                    reference_outputs_.read(out);
                  });
    return true;
  }

  Ulps ulps_of_groups(bool gradients, bool has_reference) {
    Ulps found = kNoUlps;
    for (const Group group : {kInput, kWeight, kGradient, kOutput}) {
      select(group, inputs_, outputs_, gradients, ours_);
      theirs_.assign(ours_.size(), nullptr);
      if (has_reference) select(group, reference_inputs_, reference_outputs_, gradients, theirs_);
      for (std::size_t i = 0; i < std::min(ours_.size(), theirs_.size()); ++i) {
        if (const auto value = ulps(*ours_[i], theirs_[i])) raise(found.at(group), *value);
      }
      raise(found[kWorst], found.at(group));
    }
    return found;
  }

  ResultReader result_;
  const DigestProgress& progress_;
  const bool has_levels_ = result_.has_overflow_levels();
  const std::size_t total_;
  std::size_t done_ = 0;
  Texts texts_;
  std::uint32_t empty_ = texts_.names.add("");
  std::uint32_t root_ = texts_.names.add("DefaultModel");
  Cells inputs_, outputs_, reference_inputs_, reference_outputs_;
  std::vector<const Cell*> ours_, theirs_;
};

// Counterparts by the links of the target.
void match(Side& target, Side& reference) {
  for (std::uint32_t pos = 0; pos < target.tree.size(); ++pos) {
    const std::uint32_t link = target.values[target.tree.node(pos)].link;
    const std::uint32_t peer = link == kNone ? kNone : reference.tree.find(link);
    if (peer == kNone) continue;
    target.peers[pos] = peer;
    reference.peers[peer] = pos;
    reference.hows[peer] = "matched";
  }
  for (std::uint32_t pos = 0; pos < target.tree.size(); ++pos) {
    if (target.peers[pos] == kNone) continue;
    const std::uint32_t above = target.tree.parent(pos);
    const std::uint32_t beside = above == kNone ? kNone : target.peers[above];
    const bool is_moved = beside != kNone && beside != reference.tree.parent(target.peers[pos]);
    target.hows[pos] = is_moved ? "moved" : "matched";
  }
}

// ---- writing

std::string tables() {
  std::string columns;
  for (const char* const name : kGroupColumns) columns.append(name).append(" REAL, ");
  for (std::size_t i = 0; i < kCellMetrics; ++i) columns.append(metric_column(i)).append(" REAL, ");
  return "CREATE TABLE node (side INTEGER, pos INTEGER, name TEXT, parent INTEGER, first INTEGER, depth "
         "INTEGER, "
         "kind INTEGER, children INTEGER, micro INTEGER, source INTEGER, value REAL, overflow INTEGER, peer "
         "INTEGER, "
         "how TEXT, stack INTEGER, shape INTEGER, links INTEGER, merged INTEGER, " +
         columns +
         "PRIMARY KEY (side, pos)) WITHOUT ROWID;"
         "CREATE TABLE shape (id INTEGER PRIMARY KEY, text TEXT);"
         "CREATE TABLE stack (id INTEGER PRIMARY KEY, text TEXT);"
         "CREATE TABLE flow (side INTEGER, mark INTEGER, given INTEGER, pos INTEGER, "
         "PRIMARY KEY (side, mark, given, pos)) WITHOUT ROWID;"
         "CREATE TABLE series (side INTEGER, name TEXT, data BLOB, PRIMARY KEY (side, name));"
         "CREATE TABLE own (data TEXT, name TEXT, value REAL, PRIMARY KEY (data, name)) WITHOUT ROWID;";
}

constexpr const char* kIndices =
    "CREATE INDEX node_name ON node (side, name);"
    "CREATE INDEX node_parent ON node (side, parent, pos);"
    "CREATE INDEX node_first ON node (side, first, pos DESC);"
    "CREATE INDEX node_depth ON node (depth, side, pos);"
    "ANALYZE;";  // or the index of names is not used

constexpr int kColumnsOfNode = 18 + static_cast<int>(kGroupColumns.size() + kCellMetrics);

class Writer {
 public:
  explicit Writer(const std::filesystem::path& path)
      : database_(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
    database_.exec("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-8000; BEGIN;" +
                   tables());
  }

  void add(int number, const Side& side, const Texts& texts) {
    add_nodes(number, side, texts);
    add_series(number, side);
    add_flow(number, side);
  }

  void add_texts(const char* table, const auto& texts) {
    SQLite::Statement insert = insert_into(table, 2);
    io::Binder row(insert);
    for (std::uint32_t i = 0; i < texts.size(); ++i) row.number(i).text(texts[i]).run();
  }

  void finish() {
    database_.exec(kIndices);
    database_.exec("COMMIT");
  }

 private:
  void add_nodes(int number, const Side& side, const Texts& texts) {
    SQLite::Statement insert = insert_into("node", kColumnsOfNode);
    io::Binder row(insert);
    const auto place = [&](std::uint32_t pos) { pos == kNone ? row.null() : row.number(pos); };
    const NodeTree& tree = side.tree;
    for (std::uint32_t pos = 0; pos < tree.size(); ++pos) {
      const std::uint32_t node = tree.node(pos);
      const NodeValues& of = side.values[node];
      const std::string how(side.hows[pos]);
      row.number(number).number(pos).text(texts.names[side.places[node].name]);
      place(tree.parent(pos));
      row.number(tree.first(pos)).number(tree.depth(pos));
      row.number(of.kind).number(tree.children(pos)).number(of.micro).number(of.source);
      row.real(of.value).number(of.overflow);
      place(side.peers[pos]);
      row.text_or_null(how).number(of.stack).number(of.shape);
      row.number(of.has_links ? 1 : 0).number(of.is_merged ? 1 : 0);
      if (node < side.ulps.size()) {
        for (const double value : side.ulps[node]) row.real(value);
      } else {
        for (const double value : kNoUlps) row.real(value);
      }
      if (node < side.metrics.size()) {
        for (const double value : side.metrics[node]) row.real(value);
      }
      row.run();
    }
  }

  void add_series(int number, const Side& side) {
    const NodeTree& tree = side.tree;
    const auto places = [&](const char* name, const auto& value_of) {
      std::vector<std::int32_t> values(tree.size());
      for (std::uint32_t pos = 0; pos < tree.size(); ++pos) {
        values[pos] = static_cast<std::int32_t>(value_of(pos));  // kNone: -1
      }
      add_array(number, name, values);
    };
    places("first", [&](std::uint32_t pos) { return tree.first(pos); });
    places("peer", [&](std::uint32_t pos) { return side.peers[pos]; });
    places("shape", [&](std::uint32_t pos) { return side.values[tree.node(pos)].shape; });
    places("stack", [&](std::uint32_t pos) { return side.values[tree.node(pos)].stack; });

    // Where no node has a value there is no array.
    const auto numbers = [&](const std::string& name, const auto& value_of) {
      std::vector<double> values(tree.size());
      for (std::uint32_t pos = 0; pos < tree.size(); ++pos) values[pos] = value_of(tree.node(pos));
      const bool is_empty = std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
      if (!is_empty) add_array(number, name, values);
    };
    numbers("value", [&](std::uint32_t node) { return side.values[node].value; });
    numbers("overflow", [&](std::uint32_t node) { return static_cast<double>(side.values[node].overflow); });
    for (std::size_t i = 0; i < kGroupColumns.size(); ++i) {
      numbers(kGroupColumns.at(i),
              [&](std::uint32_t node) { return node < side.ulps.size() ? side.ulps[node].at(i) : kNothing; });
    }
    for (std::size_t i = 0; i < kCellMetrics; ++i) {
      numbers(metric_column(i), [&](std::uint32_t node) {
        return node < side.metrics.size() ? side.metrics[node].at(i) : kNothing;
      });
    }
  }

  template <typename T>
  void add_array(int side, const std::string& name, const std::vector<T>& values) {
    SQLite::Statement insert = insert_into("series", 3);
    io::Binder(insert).number(side).text(name).bytes(values.data(), values.size() * sizeof(T)).run();
  }

  // Only what is both given and received.
  void add_flow(int number, const Side& side) {
    std::vector<Mark> marks = side.marks;
    for (Mark& one : marks) one.node = side.tree.place_of(one.node);
    std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.key() < b.key(); });
    SQLite::Statement insert = insert_into("flow", 4);
    io::Binder row(insert);
    for (auto begin = marks.begin(); begin != marks.end();) {
      const auto end =
          std::find_if(begin, marks.end(), [&](const Mark& one) { return one.mark != begin->mark; });
      const bool is_both = begin->is_given != (end - 1)->is_given;
      for (auto one = begin; is_both && one != end; ++one) {
        row.number(number).number(one->mark).number(one->is_given ? 1 : 0).number(one->node).run();
      }
      begin = end;
    }
  }

  SQLite::Statement insert_into(const std::string& table, int columns) {
    std::string places = "?";
    for (int i = 1; i < columns; ++i) places += ",?";
    return {database_, "INSERT INTO " + table + " VALUES (" + places + ")"};
  }

  SQLite::Database database_;
};

}  // namespace

void write_digest(const DigestSource& source, const std::filesystem::path& path,
                  const DigestProgress& progress) {
  Reader reader(source, progress);
  Side target;
  Side reference;
  reader.read(reference, 1, nullptr);
  reader.read(target, 0, &reference);
  match(target, reference);
  reader.adopt(reference, 1, target);
  reader.adopt(target, 0, reference);
  const std::vector<std::string> lines = reader.stack_lines();
  try {
    Writer writer(path);
    writer.add(1, reference, reader.texts());
    writer.add(0, target, reader.texts());
    writer.add_texts("shape", reader.texts().shapes);
    writer.add_texts("stack", lines);
    writer.finish();
  } catch (const SQLite::Exception& error) {
    throw IoError(std::string("cannot write (") + error.what() + ")", path.string(),
                  io::error_number_of(error));
  }
}

}  // namespace msprobe::viewer
