// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/database.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <set>

#include "graph/legend.h"
#include "io/in_quotes.h"
#include "io/sqlite/sqlite_binder.h"
#include "io/sqlite/sqlite_error.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/version.h"

namespace msprobe::graph {
namespace {

using io::Binder;
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
CREATE TABLE msprobe_findings (step INTEGER, rank INTEGER, number INTEGER, node TEXT, sentence TEXT, side INTEGER, chinese TEXT, sum TEXT);
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
PRAGMA page_size = 16384;
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

SQLite::Database create_database(const std::filesystem::path& path) {
  SQLite::Database database = open_database(path);
  database.exec("BEGIN EXCLUSIVE");
  database.exec(std::string(kTables));
  return database;
}

Binder& real_or_null(Binder& to, std::optional<double> value) { return value ? to.real(*value) : to.null(); }

}  // namespace

struct GraphDatabase::State {
  explicit State(const std::filesystem::path& path)
      : path(path), file(path), database(create_database(file.temporary())) {}

  std::filesystem::path path;
  io::AtomicFile file;
  SQLite::Database database;
  SQLite::Statement insert_node{database,
                                "INSERT INTO tb_nodes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,'{}',0,?,?,?,?,?,?)"};
  SQLite::Statement insert_own{database, "INSERT INTO msprobe_nodes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"};
  SQLite::Statement insert_stack{database, "INSERT INTO tb_stack VALUES (?,?)"};
  SQLite::Statement set_link{database, "UPDATE tb_nodes SET matched_distributed = ? WHERE id = ?"};
  SQLite::Statement insert_finding{database, "INSERT INTO msprobe_findings VALUES (?,?,?,?,?,?,?,?)"};
  std::set<std::string, std::less<>> graphs;
  GraphKey graph;  // the rows that come are of this one
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

  void add_node(const NodeRow& row) {
    Binder to(insert_node);
    to.text(row.id).text(graph.id).number(row.order).text(row.name);
    to.number(static_cast<int>(row.kind)).text(row.parent).text(row.children);
    real_or_null(to, row.index).text_or_null(row.overflow).number(row.micro_step).text(row.link);
    to.text(row.stack_id).text(row.notes).text(row.inputs).text(row.outputs).text(graph.source);
    to.text_or_null(graph.dump_data_dir).number(graph.step).number(graph.rank);
    try {
      to.run();
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() != SQLITE_CONSTRAINT) throw;
      throw FormatError(path.string(), io::in_quotes(row.id), "found twice");
    }
    add_own(row);
  }

  void add_own(const NodeRow& row) {
    Binder to(insert_own);
    to.text(row.id).text_or_null(row.counterpart).text_or_null(row.how).text_or_null(row.reason);
    for (const auto& ulps :
         {row.input_ulps, row.output_ulps, row.weight_ulps, row.gradient_ulps, row.worst_ulps}) {
      real_or_null(to, ulps);
    }
    real_or_null(to.text_or_null(row.worst_node), row.worst_index).number(row.nodes).number(row.unmatched);
    to.text(row.colours).text_or_null(row.worst_overflow).run();
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
    if (config.is_comparison) Binder(info).text("golden"sv).text(config.reference).run();
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

void GraphDatabase::begin_graph(const GraphKey& graph) {
  if (!state_->graphs.insert(graph.id).second) {
    throw FormatError(state_->path.string(), io::in_quotes(graph.id), "found twice");
  }
  state_->graph = graph;
}

void GraphDatabase::add_stack(std::string_view id, std::string_view frames) {
  state_->go([&] { Binder(state_->insert_stack).text(id).text(frames).run(); });
}

void GraphDatabase::add_nodes(std::span<const NodeRow> rows) {
  state_->go([&] {
    for (const NodeRow& row : rows) state_->add_node(row);
  });
}

void GraphDatabase::set_distributed(std::string_view id, std::string_view json) {
  state_->go([&] { Binder(state_->set_link).text(json).text(id).run(); });
}

void GraphDatabase::end_graphs() {
  state_->go([&] { state_->database.exec(std::string(kIndices)); });
}

void GraphDatabase::add_finding(const Finding& finding) {
  state_->go([&] {
    Binder(state_->insert_finding)
        .number(finding.step)
        .number(finding.rank)
        .number(++state_->findings)
        .text(finding.node)
        .text(finding.sentence)
        .number(finding.is_of_reference ? 1 : 0)
        .text(finding.chinese)
        .text(finding.sum)
        .run();
  });
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
