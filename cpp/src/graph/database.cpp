// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/database.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <array>

#include "graph/legend.h"
#include "io/sqlite_error.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/version.h"

namespace msprobe::graph {
namespace {

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
) WITHOUT ROWID;
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

// What all rows of a graph share comes last: it is bound once for many rows.
constexpr const char* kInsertNode =
    "INSERT INTO tb_nodes VALUES "
    "(?1,?15,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,'{}',0,?13,?14,?16,?17,?18,?19)";
constexpr int kOwnOfNode = 14;

SQLite::Database open_database(const std::filesystem::path& path) {
  // One thread at a time uses it, so that it needs no locks of its own.
  const int flags = SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX;
  SQLite::Database database(path.string(), flags);
  database.exec(std::string(kSettings));
  database.exec(std::string(kTables));
  database.exec("BEGIN EXCLUSIVE");
  return database;
}

}  // namespace

struct GraphDatabase::State {
  explicit State(const std::filesystem::path& path)
      : path(path), file(path), database(open_database(file.temporary())) {}

  std::filesystem::path path;
  io::AtomicFile file;
  SQLite::Database database;
  SQLite::Statement node{database, kInsertNode};
  SQLite::Statement own{database, "INSERT INTO msprobe_nodes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"};
  SQLite::Statement stack{database, "INSERT INTO tb_stack VALUES (?,?)"};
  SQLite::Statement distributed{database, "UPDATE tb_nodes SET matched_distributed = ? WHERE id = ?"};
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

  void begin_graph(const GraphKey& graph) {
    Binder(node, kOwnOfNode)
        .text(graph.id)
        .text(graph.source)
        .text_or_null(graph.dump_data_dir)
        .number(graph.step)
        .number(graph.rank);
  }

  void add_node(const NodeRow& row) {
    const std::string kind = text_of(row.kind);
    Binder(node)
        .text(row.id)
        .number(row.order)
        .text(row.name)
        .text(kind)
        .text(row.parent)
        .text(row.children)
        .real(row.index)
        .text_or_null(row.overflow)
        .number(row.micro_step)
        .text(row.link)
        .text(row.stack_id)
        .text(row.notes)
        .text(row.inputs)
        .text(row.outputs)
        .run();
    Binder(own)
        .text(row.id)
        .text_or_null(row.counterpart)
        .text_or_null(row.how)
        .text_or_null(row.reason)
        .real(row.input_ulps)
        .real(row.output_ulps)
        .real(row.weight_ulps)
        .real(row.gradient_ulps)
        .real(row.worst_ulps)
        .text_or_null(row.worst_node)
        .real(row.worst_index)
        .number(row.nodes)
        .number(row.unmatched)
        .text(row.colours)
        .text_or_null(row.worst_overflow)
        .run();
  }

  void add_config(const FileConfig& config) {
    const std::string task(config.is_comparison ? task_name(config.mode) : "");
    const std::string colours = config.is_comparison ? colours_json(config.mode) : "null";
    const std::string metrics = config.is_comparison ? metrics_json(config.mode) : "";
    SQLite::Statement statement(database, "INSERT INTO tb_config VALUES ('1',?,?,?,?,?,?,?,?)");
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
    SQLite::Statement info(database, "INSERT INTO msprobe_info VALUES (?,?)");
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

void GraphDatabase::add_stack(std::string_view id, std::string_view frames) {
  state_->go([&] { Binder(state_->stack).text(id).text(frames).run(); });
}

void GraphDatabase::add_nodes(const GraphKey& graph, std::span<const NodeRow> rows) {
  state_->go([&] {
    state_->begin_graph(graph);
    for (const NodeRow& row : rows) state_->add_node(row);
  });
}

void GraphDatabase::set_distributed(std::string_view id, std::string_view json) {
  state_->go([&] { Binder(state_->distributed).text(json).text(id).run(); });
}

void GraphDatabase::add_finding(const Finding& finding) {
  state_->go([&] {
    SQLite::Statement statement(state_->database, "INSERT INTO msprobe_findings VALUES (?,?,?,?,?)");
    Binder(statement)
        .number(finding.step)
        .number(finding.rank)
        .number(++state_->findings)
        .text(finding.node)
        .text(finding.sentence)
        .run();
  });
}

void GraphDatabase::add_indices() {
  state_->go([&] { state_->database.exec(std::string(kIndices)); });
}

void GraphDatabase::finish(const FileConfig& config) {
  state_->go([&] {
    state_->add_config(config);
    state_->database.exec("COMMIT");
    state_->database.exec("PRAGMA journal_mode = DELETE");
  });
}

void GraphDatabase::commit() { state_->file.commit(); }

}  // namespace msprobe::graph
