// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/database.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include "graph/graph_trees.h"
#include "graph/legend.h"
#include "io/sqlite_binder.h"
#include "io/sqlite_error.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/version.h"

namespace msprobe::graph {
namespace {

using std::string_view_literals::operator""sv;

// The first three are those of mindstudio-probe, in every column; ours come after them.
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
CREATE TABLE msprobe_findings (step INTEGER, rank INTEGER, number INTEGER, node TEXT, sentence TEXT, side INTEGER);
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

SQLite::Database open_database(const std::filesystem::path& path) {
  // One thread at a time uses it, so that it needs no locks of its own.
  const int flags = SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX;
  SQLite::Database database(path.string(), flags);
  database.exec(std::string(kSettings));
  return database;
}

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

}  // namespace

struct GraphDatabase::State {
  // What belongs into rows that are written. It may take more than the memory: SQLite keeps a database
  // without a name in a file when it grows.
  class Links {
   public:
    Links() { database_.exec("PRAGMA journal_mode = OFF; BEGIN"); }

    void add(std::string_view id, std::string_view json) { io::Binder(add_).text(id).text(json).run(); }

    template <typename Take>
    void each(const Take& take) {
      SQLite::Statement rows(database_, "SELECT id, json FROM links");
      while (rows.executeStep()) take(rows.getColumn(0).getString(), rows.getColumn(1).getString());
    }

   private:
    static SQLite::Database create() {
      SQLite::Database database("", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX);
      database.exec("CREATE TABLE links (id TEXT, json TEXT)");
      return database;
    }

    SQLite::Database database_ = create();
    SQLite::Statement add_{database_, "INSERT INTO links VALUES (?,?)"};
  };

  explicit State(const std::filesystem::path& path)
      : path(path),
        file(path),
        trees(std::make_unique<GraphTrees>(file.temporary(), path, create_tables(file.temporary()))) {}

  std::filesystem::path path;
  io::AtomicFile file;
  std::unique_ptr<GraphTrees> trees;           // until end_graphs()
  std::unique_ptr<Links> links;                // until then
  std::unique_ptr<SQLite::Database> database;  // from then on
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

  void set_links() {
    if (!links) return;
    SQLite::Statement update(*database, "UPDATE tb_nodes SET matched_distributed = ? WHERE id = ?");
    links->each([&](const std::string& id, const std::string& json) {
      io::Binder(update).text(json).text(id).run();
    });
    links.reset();
  }

  void add_config(const FileConfig& config) {
    const std::string task(config.is_comparison ? task_name(config.mode) : "");
    const std::string colours = config.is_comparison ? colours_json(config.mode) : "null";
    const std::string metrics = config.is_comparison ? metrics_json(config.mode) : "";
    SQLite::Statement statement(*database, "INSERT INTO tb_config VALUES ('1',?,?,?,?,?,?,?,?)");
    io::Binder(statement)
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
    io::Binder(info).text("schema"sv).text("1"sv).run();
    io::Binder(info).text("version"sv).text(std::string_view(MSPROBE_VERSION)).run();
    io::Binder(info).text("target"sv).text(config.target).run();
    if (config.is_comparison) io::Binder(info).text("golden"sv).text(config.reference).run();
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

void GraphDatabase::add_nodes(std::span<const NodeRow> rows) {
  for (const NodeRow& row : rows) state_->trees->add_node(row);
}

void GraphDatabase::end_unit() { state_->trees->end_unit(); }

void GraphDatabase::set_distributed(std::string_view id, std::string_view json) {
  state_->go([&] {
    if (!state_->links) state_->links = std::make_unique<State::Links>();
    state_->links->add(id, json);
  });
}

void GraphDatabase::end_graphs() {
  state_->trees->finish();
  state_->trees.reset();  // and what it has in memory
  state_->go([&] {
    state_->database = std::make_unique<SQLite::Database>(open_database(state_->file.temporary()));
    state_->database->exec("BEGIN EXCLUSIVE");
    state_->set_links();
  });
}

void GraphDatabase::add_finding(const Finding& finding) {
  state_->go([&] {
    SQLite::Statement statement(*state_->database, "INSERT INTO msprobe_findings VALUES (?,?,?,?,?,?)");
    io::Binder(statement)
        .number(finding.step)
        .number(finding.rank)
        .number(++state_->findings)
        .text(finding.node)
        .text(finding.sentence)
        .number(finding.is_of_reference ? 1 : 0)
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
