// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/database.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <map>
#include <numeric>

#include "base/text_order.h"
#include "graph/legend.h"
#include "io/in_quotes.h"
#include "io/sqlite_error.h"
#include "io/sqlite_trees.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/version.h"

namespace msprobe::graph {
namespace {

using io::sqlite::KeyRun;
using io::sqlite::KeyTree;
using io::sqlite::PageFile;
using io::sqlite::Record;
using io::sqlite::RowTree;
using std::string_view_literals::operator""sv;

// The first three are those of the existing tool, in every column; ours come after them.
constexpr std::string_view kTables = R"(
CREATE TABLE tb_nodes (
    id TEXT PRIMARY KEY,
    graph_id TEXT NOT NULL,
    node_order INTEGER NOT NULL,
    node_name TEXT NOT NULL,
    node_type TEXT NOT NULL,
    up_node TEXT,
    sub_nodes TEXT,
    precision_index INTEGER,
    overflow_level TEXT,
    micro_step_id INTEGER NOT NULL,
    matched_node_link TEXT,
    stack_id TEXT,
    parallel_merge_info TEXT,
    matched_distributed TEXT,
    modified INTEGER NOT NULL,
    input_data TEXT,
    output_data TEXT,
    data_source TEXT,
    dump_data_dir TEXT,
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL
);
CREATE TABLE tb_stack (
    id TEXT PRIMARY KEY,
    stack_info TEXT
);
CREATE TABLE tb_config (
    id TEXT PRIMARY KEY,
    graph_type TEXT NOT NULL,
    task TEXT,
    tool_tip TEXT,
    micro_steps INTEGER,
    overflow_check INTEGER,
    node_colors TEXT NOT NULL,
    rank_list TEXT NOT NULL,
    step_list TEXT NOT NULL
);
CREATE TABLE msprobe_info (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE msprobe_nodes (
    id TEXT PRIMARY KEY,
    counterpart TEXT,
    how TEXT,
    reason TEXT,
    input_ulps REAL,
    output_ulps REAL,
    weight_ulps REAL,
    gradient_ulps REAL,
    worst_ulps REAL,
    worst_node TEXT,
    worst_index REAL,
    nodes INTEGER,
    unmatched INTEGER,
    colours TEXT,
    overflow TEXT
);
CREATE TABLE msprobe_findings (step INTEGER, rank INTEGER, number INTEGER, node TEXT, sentence TEXT);
)";

constexpr std::string_view kIndices = R"(
CREATE INDEX index1 ON tb_nodes (step, rank, data_source, up_node, node_order);
CREATE INDEX index2 ON tb_nodes (step, rank, data_source, node_name);
CREATE INDEX index3 ON tb_nodes (step, rank, data_source, node_order);
CREATE INDEX index4 ON tb_nodes (step, rank, node_order);
CREATE INDEX index5 ON tb_nodes (step, rank, micro_step_id, node_order);
CREATE INDEX index6 ON tb_nodes (step, rank, modified, matched_node_link);
)";

// The file has another name until it is complete, so nothing has to be undone in it.
constexpr std::string_view kSettings = R"(
PRAGMA page_size = 4096;
PRAGMA auto_vacuum = NONE;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;
)";

std::string text_of(NodeKind kind) { return std::to_string(static_cast<int>(kind)); }

// Binds values one after the other. A std::string must outlive run(); of other texts a copy is made.
class Binder {
 public:
  explicit Binder(SQLite::Statement& statement, int last_position = 0)
      : statement_(statement), position_(last_position) {}

  Binder& text(const std::string& text) {
    statement_.bindNoCopy(++position_, text);
    return *this;
  }
  Binder& text(std::string_view text) {
    statement_.bind(++position_, std::string(text));
    return *this;
  }
  template <typename Text>
  Binder& text_or_null(const Text& text) {
    return text.empty() ? null() : this->text(text);
  }
  Binder& number(std::int64_t value) {
    statement_.bind(++position_, value);
    return *this;
  }
  Binder& real(std::optional<double> value) {
    if (!value) return null();
    statement_.bind(++position_, *value);
    return *this;
  }
  Binder& null() {
    statement_.bind(++position_);
    return *this;
  }
  void run() {
    statement_.exec();
    statement_.reset();
  }

 private:
  SQLite::Statement& statement_;
  int position_;
};

SQLite::Database open_database(const std::filesystem::path& path) {
  // One thread at a time uses it, so that it needs no locks of its own.
  const int flags = SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX;
  SQLite::Database database(path.string(), flags);
  database.exec(std::string(kSettings));
  return database;
}

// By the name of a table or an index, the page of its root.
using Roots = std::map<std::string, std::uint32_t, std::less<>>;

Roots create_tables(const std::filesystem::path& path) {
  SQLite::Database database = open_database(path);
  database.exec("BEGIN EXCLUSIVE");
  database.exec(std::string(kTables));
  database.exec(std::string(kIndices));
  database.exec("COMMIT");
  Roots roots;
  SQLite::Statement statement(database, "SELECT name, rootpage FROM sqlite_master");
  while (statement.executeStep()) {
    roots.emplace(statement.getColumn(0).getString(), statement.getColumn(1).getUInt());
  }
  return roots;
}

Record& add_text_or_null(Record& record, std::string_view text) {
  return text.empty() ? record.null() : record.text(text);
}

Record& add_real_or_null(Record& record, std::optional<double> value) {
  return value ? record.real(*value) : record.null();
}

// ---- Indices

// What the indices need of a row.
struct RowKeys {
  std::string_view name, parent;
  std::uint32_t order = 0;
  std::int32_t micro_step = 0;
  std::string link;
};

struct GraphKeys {
  GraphKey graph;
  std::int64_t first_row = 0, first_stack = 0;
  std::vector<RowKeys> rows;
  std::vector<std::string> stacks;
};

using Numbers = std::vector<std::uint32_t>;

template <typename Values, typename TextOf>
Numbers order_of(const Values& values, const TextOf& text_of) {
  std::vector<std::string_view> texts;
  texts.reserve(values.size());
  for (const auto& value : values) texts.push_back(text_of(value));
  return text_order(texts);
}

// A row of one of the graphs of a unit.
struct UnitRow {
  const GraphKeys* keys = nullptr;
  std::uint32_t number = 0;

  const RowKeys& operator*() const { return keys->rows[number]; }
  const RowKeys* operator->() const { return &keys->rows[number]; }
  std::int64_t row() const { return keys->first_row + number; }
};

std::vector<UnitRow> rows_of(const std::vector<GraphKeys>& graphs) {
  std::vector<UnitRow> rows;
  for (const GraphKeys& keys : graphs) {
    for (std::uint32_t i = 0; i < keys.rows.size(); ++i) rows.push_back({&keys, i});
  }
  return rows;
}

template <typename KeyOf>
std::vector<UnitRow> sorted_by(const KeyOf& key_of, std::vector<UnitRow> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const UnitRow& a, const UnitRow& b) { return key_of(*a) < key_of(*b); });
  return rows;
}

std::vector<UnitRow> sorted_by_link(const std::vector<UnitRow>& rows) {
  std::vector<UnitRow> sorted;
  sorted.reserve(rows.size());
  for (const std::uint32_t i :
       order_of(rows, [](const UnitRow& row) { return std::string_view(row->link); })) {
    sorted.push_back(rows[i]);
  }
  return sorted;
}

// Where a run of keys belongs in its index.
struct Place {
  std::string id;  // of the graph, in an index of ids
  int step = 0, rank = 0;
  std::string source;

  auto operator<=>(const Place&) const = default;
};

// An index, whose keys come in runs.
class Index {
 public:
  Index(PageFile& file, const Roots& roots, std::string_view name)
      : file_(&file), root_(roots.at(std::string(name))) {}

  template <typename Fill>
  void add(Place place, const Fill& fill) {
    KeyRun run(*file_);
    fill(run);
    run.finish();
    runs_.emplace_back(std::move(place), std::move(run));
  }

  void finish() {
    std::sort(runs_.begin(), runs_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    KeyTree tree(*file_);
    for (auto& [place, run] : runs_) tree.add(std::move(run));
    tree.finish(root_);
  }

 private:
  PageFile* file_;
  std::uint32_t root_;
  std::vector<std::pair<Place, KeyRun>> runs_;
};

// The tables whose rows are many, and their indices.
class Trees {
 public:
  Trees(const std::filesystem::path& file, const std::filesystem::path& shown, const Roots& roots)
      : path_(shown), file_(file, shown), roots_(roots) {}

  void begin_graph(const GraphKey& graph) {
    unit_.push_back(
        {.graph = graph, .first_row = rows_ + 1, .first_stack = stack_rows_ + 1, .rows = {}, .stacks = {}});
  }

  void add_stack(std::string_view id, std::string_view frames) {
    record_.clear();
    stack_rows_ = stacks_.add(record_.text(id).text(frames));
    unit_.back().stacks.emplace_back(id);
  }

  void add_node(NodeRow&& row) {
    const GraphKey& graph = unit_.back().graph;
    record_.clear();
    record_.text(row.id)
        .text(graph.id)
        .integer(row.order)
        .text(row.name)
        .text(text_of(row.kind))
        .text(row.parent)
        .text(row.children);
    add_real_or_null(record_, row.index);
    add_text_or_null(record_, row.overflow)
        .integer(row.micro_step)
        .text(row.link)
        .text(row.stack_id)
        .text(row.notes)
        .text("{}")
        .integer(0)
        .text(row.inputs)
        .text(row.outputs)
        .text(graph.source);
    add_text_or_null(record_, graph.dump_data_dir).integer(graph.step).integer(graph.rank);
    rows_ = nodes_.add(record_);
    add_own(row);
    unit_.back().rows.push_back({.name = row.name,
                                 .parent = row.parent,
                                 .order = row.order,
                                 .micro_step = row.micro_step,
                                 .link = std::move(row.link)});
  }

  void end_unit() {
    if (unit_.empty()) return;
    const GraphKey& graph = unit_.front().graph;
    const Place place{.id = {}, .step = graph.step, .rank = graph.rank, .source = {}};
    const std::vector<UnitRow> rows = rows_of(unit_);
    auto by_link = std::async(std::launch::async, [&rows] { return sorted_by_link(rows); });
    for (const GraphKeys& keys : unit_) add_graph(keys);
    const auto order = [](const RowKeys& row) { return row.order; };
    add_unit_index(by_order_, place, sorted_by(order, rows),
                   [](Record& key, const RowKeys& row) { key.integer(row.order); });
    const auto in_micro_step = [](const RowKeys& row) { return std::pair(row.micro_step, row.order); };
    add_unit_index(by_micro_step_, place, sorted_by(in_micro_step, rows),
                   [](Record& key, const RowKeys& row) { key.integer(row.micro_step).integer(row.order); });
    add_unit_index(by_link_, place, by_link.get(),
                   [](Record& key, const RowKeys& row) { key.integer(0).text(row.link); });
    unit_.clear();
  }

  void finish() {
    nodes_.finish();
    own_.finish();
    stacks_.finish();
    for (Index* const index : {&by_id_, &own_by_id_, &stacks_by_id_, &by_parent_, &by_name_,
                               &by_order_of_side_, &by_order_, &by_micro_step_, &by_link_}) {
      index->finish();
    }
    file_.close();
  }

 private:
  void add_own(const NodeRow& row) {
    record_.clear();
    record_.text(row.id);
    for (const std::string_view text : {row.counterpart, row.how, std::string_view(row.reason)}) {
      add_text_or_null(record_, text);
    }
    for (const auto& ulps :
         {row.input_ulps, row.output_ulps, row.weight_ulps, row.gradient_ulps, row.worst_ulps}) {
      add_real_or_null(record_, ulps);
    }
    add_text_or_null(record_, row.worst_node);
    add_real_or_null(record_, row.worst_index);
    record_.integer(row.nodes).integer(row.unmatched).text(row.colours);
    own_.add(add_text_or_null(record_, row.worst_overflow));
  }

  void add_graph(const GraphKeys& keys) {
    const GraphKey& graph = keys.graph;
    auto by_parent = std::async(std::launch::async, [&keys] {
      return order_of(keys.rows, [](const RowKeys& row) { return row.parent; });
    });
    const Place ids{.id = graph.id + "_", .step = 0, .rank = 0, .source = {}};
    const Place place{.id = {}, .step = graph.step, .rank = graph.rank, .source = std::string(graph.source)};
    const Numbers by_name = order_of(keys.rows, [](const RowKeys& row) { return row.name; });
    check_names(keys, by_name);
    for (Index* const index : {&by_id_, &own_by_id_}) {
      std::string id = ids.id;
      add_run(*index, ids, by_name, [&](std::uint32_t i) {
        id.resize(ids.id.size());
        id += keys.rows[i].name;
        record_.text(id).integer(keys.first_row + i);
      });
    }
    const auto stack_id = [](const std::string& id) { return std::string_view(id); };
    add_run(stacks_by_id_, ids, order_of(keys.stacks, stack_id),
            [&](std::uint32_t i) { record_.text(keys.stacks[i]).integer(keys.first_stack + i); });
    const auto begin = [&]() -> Record& {
      return record_.integer(graph.step).integer(graph.rank).text(graph.source);
    };
    add_run(by_name_, place, by_name,
            [&](std::uint32_t i) { begin().text(keys.rows[i].name).integer(keys.first_row + i); });
    add_run(by_parent_, place, by_parent.get(), [&](std::uint32_t i) {
      begin().text(keys.rows[i].parent).integer(keys.rows[i].order).integer(keys.first_row + i);
    });
    Numbers in_order(keys.rows.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    add_run(by_order_of_side_, place, in_order,
            [&](std::uint32_t i) { begin().integer(keys.rows[i].order).integer(keys.first_row + i); });
  }

  template <typename SetKey>
  void add_run(Index& index, const Place& place, const Numbers& numbers, const SetKey& set_key) {
    index.add(place, [&](KeyRun& run) {
      for (const std::uint32_t number : numbers) {
        record_.clear();
        set_key(number);
        run.add(record_);
      }
    });
  }

  template <typename SetKey>
  void add_unit_index(Index& index, const Place& place, const std::vector<UnitRow>& rows,
                      const SetKey& set_key) {
    index.add(place, [&](KeyRun& run) {
      for (const UnitRow& row : rows) {
        record_.clear();
        record_.integer(place.step).integer(place.rank);
        set_key(record_, *row);
        record_.integer(row.row());
        run.add(record_);
      }
    });
  }

  void check_names(const GraphKeys& keys, const Numbers& by_name) const {
    const auto same = std::adjacent_find(by_name.begin(), by_name.end(), [&](auto a, auto b) {
      return keys.rows[a].name == keys.rows[b].name;
    });
    if (same == by_name.end()) return;
    throw FormatError(path_.string(), io::in_quotes(keys.graph.id + "_" + std::string(keys.rows[*same].name)),
                      "found twice");
  }

  std::filesystem::path path_;
  PageFile file_;
  const Roots& roots_;
  RowTree nodes_{file_, roots_.at("tb_nodes")};
  RowTree own_{file_, roots_.at("msprobe_nodes")};
  RowTree stacks_{file_, roots_.at("tb_stack")};
  Index by_id_{file_, roots_, "sqlite_autoindex_tb_nodes_1"};
  Index own_by_id_{file_, roots_, "sqlite_autoindex_msprobe_nodes_1"};
  Index stacks_by_id_{file_, roots_, "sqlite_autoindex_tb_stack_1"};
  Index by_parent_{file_, roots_, "index1"};
  Index by_name_{file_, roots_, "index2"};
  Index by_order_of_side_{file_, roots_, "index3"};
  Index by_order_{file_, roots_, "index4"};
  Index by_micro_step_{file_, roots_, "index5"};
  Index by_link_{file_, roots_, "index6"};
  std::int64_t rows_ = 0, stack_rows_ = 0;
  std::vector<GraphKeys> unit_;
  Record record_;
};

}  // namespace

struct GraphDatabase::State {
  explicit State(const std::filesystem::path& path)
      : path(path),
        file(path),
        roots(create_tables(file.temporary())),
        trees(std::in_place, file.temporary(), path, roots) {}

  std::filesystem::path path;
  io::AtomicFile file;
  Roots roots;
  std::optional<Trees> trees;                // until end_graphs()
  std::optional<SQLite::Database> links;     // until then: what goes into rows that are written
  std::optional<SQLite::Database> database;  // from then on
  int findings = 0;

  // Runs `work`; what the database complains of becomes an IoError.
  template <typename Work>
  void go(const Work& work) {
    try {
      work();
    } catch (const SQLite::Exception& error) {
      throw IoError(std::string("cannot write (") + error.what() + ")", path.string(),
                    io::error_number_of(error));
    }
  }

  // Links may take more than the memory: SQLite keeps those of a database without a name in a file.
  void keep_link(std::string_view id, std::string_view json) {
    if (!links) {
      links.emplace("", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX);
      links->exec("PRAGMA journal_mode = OFF; CREATE TABLE links (id TEXT, json TEXT); BEGIN");
    }
    SQLite::Statement insert(*links, "INSERT INTO links VALUES (?,?)");
    Binder(insert).text(id).text(json).run();
  }

  void set_links() {
    if (!links) return;
    SQLite::Statement update(*database, "UPDATE tb_nodes SET matched_distributed = ? WHERE id = ?");
    SQLite::Statement link(*links, "SELECT json, id FROM links");
    while (link.executeStep()) {
      Binder(update).text(link.getColumn(0).getString()).text(link.getColumn(1).getString()).run();
    }
  }

  void add_config(const FileConfig& config) {
    const std::string task(config.is_comparison ? task_name(config.mode) : "");
    const std::string colours = config.is_comparison ? colours_json(config.mode) : "null";
    const std::string metrics = config.is_comparison ? metrics_json(config.mode) : "";
    SQLite::Statement statement(*database, "INSERT INTO tb_config VALUES ('1',?,?,?,?,?,?,?,?)");
    Binder(statement)
        .text(std::string_view(config.is_comparison ? "compare" : "build"))
        .text(task)
        .text_or_null(metrics)
        .number(config.micro_steps)
        .number(config.overflow_check ? 1 : 0)
        .text(colours)
        .text(config.rank_list)
        .text(config.step_list)
        .run();
    SQLite::Statement info(*database, "INSERT INTO msprobe_info VALUES (?,?)");
    Binder(info).text("schema"sv).text("1"sv).run();
    Binder(info).text("version"sv).text(std::string_view(MSPROBE_VERSION)).run();
    Binder(info).text("target"sv).text(config.target).run();
    if (config.is_comparison) Binder(info).text("golden"sv).text(config.golden).run();
  }
};

GraphDatabase::GraphDatabase(const std::filesystem::path& path) {
  try {
    state_ = std::make_unique<State>(path);
  } catch (const SQLite::Exception& error) {
    throw IoError(std::string("cannot create (") + error.what() + ")", path.string(),
                  io::error_number_of(error));
  }
}

GraphDatabase::~GraphDatabase() = default;

void GraphDatabase::begin_graph(const GraphKey& graph) { state_->trees->begin_graph(graph); }

void GraphDatabase::add_stack(std::string_view id, std::string_view frames) {
  state_->trees->add_stack(id, frames);
}

void GraphDatabase::add_nodes(std::vector<NodeRow> rows) {
  for (NodeRow& row : rows) state_->trees->add_node(std::move(row));
}

void GraphDatabase::end_unit() { state_->trees->end_unit(); }

void GraphDatabase::set_distributed(std::string_view id, std::string_view json) {
  state_->go([&] { state_->keep_link(id, json); });
}

void GraphDatabase::end_graphs() {
  state_->trees->finish();
  state_->trees.reset();
  state_->go([&] {
    state_->database.emplace(open_database(state_->file.temporary()));
    state_->database->exec("BEGIN EXCLUSIVE");
    state_->set_links();
  });
}

void GraphDatabase::add_finding(const Finding& finding) {
  state_->go([&] {
    SQLite::Statement statement(*state_->database, "INSERT INTO msprobe_findings VALUES (?,?,?,?,?)");
    Binder(statement)
        .number(finding.step)
        .number(finding.rank)
        .number(++state_->findings)
        .text(finding.node)
        .text(finding.sentence)
        .run();
  });
}

void GraphDatabase::finish(const FileConfig& config) {
  state_->go([&] {
    state_->add_config(config);
    state_->database->exec("COMMIT");
    state_->database->exec("PRAGMA journal_mode = DELETE");
  });
}

void GraphDatabase::commit() { state_->file.commit(); }

}  // namespace msprobe::graph
