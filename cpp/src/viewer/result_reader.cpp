// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "viewer/result_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <vector>

#include "io/sqlite/sqlite_address.h"
#include "io/sqlite/sqlite_guard.h"
#include "io/utf8.h"
#include "msprobe/error.h"
#include "msprobe/viewer_cell.h"
#include "viewer/json_texts.h"

namespace msprobe::viewer {
namespace {

constexpr std::array<const char*, 2> kSides = {"NPU", "Bench"};

// What is read of a node, in this order; a release may lack any but the first three.
enum Column : int {
  kRow,
  kName,
  kParent,
  kOrder,
  kKind,
  kMicro,
  kValue,
  kOverflow,
  kLink,
  kStack,
  kLinks,
  kMerged,
  kInputs,
  kOutputs
};
constexpr std::array<std::string_view, 14> kColumns = {
    "rowid",           "node_name",           "up_node",
    "node_order",      "node_type",           "micro_step_id",
    "precision_index", "overflow_level",      "matched_node_link",
    "stack_id",        "matched_distributed", "parallel_merge_info",
    "input_data",      "output_data"};

// SQLite reads the file as it is: no lock, no log beside it.
constexpr std::string_view kAsItIs = "?mode=ro&immutable=1";

// Of a column that may hold anything: bytes that are not UTF-8 become U+FFFD, into `buffer`.
std::string_view text_of(const SQLite::Column& column, std::string& buffer) {
  const char* const data = column.getText("");
  std::string_view text(data, static_cast<std::size_t>(column.getBytes()));
  std::size_t bad = io::find_invalid_utf8(text);
  if (bad == std::string_view::npos) return text;
  buffer.clear();
  for (; bad != std::string_view::npos; bad = io::find_invalid_utf8(text)) {
    buffer.append(text.substr(0, bad)).append("\xef\xbf\xbd");
    text.remove_prefix(bad + 1);
  }
  return buffer.append(text);
}

std::int64_t integer_of(const SQLite::Column& column) { return column.isInteger() ? column.getInt64() : 0; }

// "3" and 3; 0 for anything else.
std::int64_t digits_of(const SQLite::Column& column) {
  std::string buffer;
  const std::string_view text = text_of(column, buffer);
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && value >= 0 ? value : 0;
}

std::optional<double> number_of(const SQLite::Column& column) {
  if (column.isNull()) return std::nullopt;
  if (!column.isText()) return column.getDouble();
  std::string buffer;
  return cell_number(text_of(column, buffer));
}

std::optional<double> real_of(const SQLite::Column& column) {
  if (!column.isFloat() && !column.isInteger()) return std::nullopt;
  return column.getDouble();
}

// Neither NULL nor an empty text, object or list.
bool holds_something(const SQLite::Column& column) {
  if (column.isNull()) return false;
  std::string buffer;
  const std::string_view text = text_of(column, buffer);
  return !text.empty() && text != "{}" && text != "[]";
}

}  // namespace

struct ResultReader::State {
  DigestSource source;
  SQLite::Database database;
  io::SqliteGuard guard{database, std::filesystem::file_size(source.path)};
  bool has_own_tables = false;
  bool is_alone = false;                 // the file holds no other graph
  std::string selected, selected_cells;  // columns
  std::optional<SQLite::Statement> cells;

  explicit State(const DigestSource& of)
      : source(of), database(io::sqlite_address(of.path, kAsItIs), SQLite::OPEN_READONLY | SQLite::OPEN_URI) {
    database.exec(
        "PRAGMA query_only=1; PRAGMA trusted_schema=0; PRAGMA cache_size=-4000; PRAGMA temp_store=2");
    guard.require_tables({"tb_nodes", "tb_stack", "tb_config", "msprobe_nodes", "msprobe_findings"},
                         of.path.string());
    has_own_tables = database.tableExists("msprobe_nodes");
    is_alone = number("SELECT NOT EXISTS(SELECT 1 FROM tb_nodes WHERE step<>" + std::to_string(source.step) +
                      " OR rank<>" + std::to_string(source.rank) + ")") != 0;
    std::set<std::string, std::less<>> present = {"rowid"};
    SQLite::Statement columns(database, "PRAGMA table_info(tb_nodes)");
    while (columns.executeStep()) present.insert(columns.getColumn(1).getString());
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const std::string_view column = present.contains(kColumns.at(i)) ? kColumns.at(i) : "NULL";
      selected.append(selected.empty() ? "" : ", ").append(column);
      if (i >= kInputs) selected_cells.append(selected_cells.empty() ? "" : ", ").append(column);
    }
  }

  SQLite::Statement query(const std::string& sql, int side) {
    SQLite::Statement statement(database, sql);
    statement.bind(1, source.step);
    statement.bind(2, source.rank);
    statement.bind(3, kSides.at(static_cast<std::size_t>(side)));
    return statement;
  }

  std::int64_t number(const std::string& sql) { return database.execAndGet(sql).getInt64(); }

  std::string of_this_graph() const {
    return " FROM tb_nodes WHERE step=" + std::to_string(source.step) +
           " AND rank=" + std::to_string(source.rank);
  }
};

namespace {

// Calls `read`; what SQLite finds wrong becomes a sentence for people.
template <typename Read>
auto guarded(const DigestSource& source, const Read& read) {
  try {
    return read();
  } catch (const SQLite::Exception& error) {
    throw FormatError(
        source.path.filename().string(), "",
        std::string("the file is damaged: ") + error.what() + ". Make it again, or open another copy");
  }
}

}  // namespace

ResultReader::ResultReader(const DigestSource& source)
    : state_(guarded(source, [&] { return std::make_unique<State>(source); })) {}

ResultReader::~ResultReader() = default;

bool ResultReader::has_own_tables() const noexcept { return state_->has_own_tables; }

bool ResultReader::has_overflow_levels() {
  return guarded(state_->source, [&] {
    return state_->number("SELECT EXISTS(SELECT 1 FROM tb_config WHERE overflow_check <> 0)") != 0;
  });
}

std::size_t ResultReader::count() {
  return guarded(state_->source, [&] {
    return static_cast<std::size_t>(state_->number("SELECT count(*)" + state_->of_this_graph()));
  });
}

void ResultReader::nodes(int side, const std::function<void(const ResultRow&)>& take) {
  guarded(state_->source, [&] {
    // Rows lie in the order of the file, and an index would visit them by it only where there are others.
    SQLite::Statement query = state_->query("SELECT " + state_->selected + " FROM tb_nodes " +
                                                (state_->is_alone ? "NOT INDEXED " : "") +
                                                "WHERE step=? AND rank=? AND data_source=? ORDER BY rowid",
                                            side);
    std::array<std::string, kColumns.size()> buffers;
    const auto text = [&](int column) {
      return text_of(query.getColumn(column), buffers.at(static_cast<std::size_t>(column)));
    };
    while (query.executeStep()) {
      const std::vector<std::string> link = list_texts(text(kLink));
      take({.source = query.getColumn(kRow).getInt64(),
            .name = text(kName),
            .parent = text(kParent),
            .order = integer_of(query.getColumn(kOrder)),
            .kind = digits_of(query.getColumn(kKind)),
            .micro = integer_of(query.getColumn(kMicro)),
            .value = number_of(query.getColumn(kValue)),
            .overflow = text(kOverflow),
            .link = link.empty() ? std::string_view() : std::string_view(link.back()),
            .stack = text(kStack),
            .has_links = holds_something(query.getColumn(kLinks)),
            .is_merged = holds_something(query.getColumn(kMerged)),
            .inputs = text(kInputs),
            .outputs = text(kOutputs)});
    }
  });
}

void ResultReader::own_rows(int side, const std::function<void(const OwnRow&)>& take) {
  guarded(state_->source, [&] {
    SQLite::Statement query = state_->query(
        "SELECT t.node_name, m.counterpart, m.how, m.input_ulps, m.weight_ulps, m.gradient_ulps, "
        "m.output_ulps "
        "FROM tb_nodes t JOIN msprobe_nodes m ON m.id = t.id WHERE t.step=? AND t.rank=? AND t.data_source=?",
        side);
    std::array<std::string, 3> buffers;
    while (query.executeStep()) {
      take({.name = text_of(query.getColumn(0), buffers[0]),
            .counterpart = text_of(query.getColumn(1), buffers[1]),
            .how = text_of(query.getColumn(2), buffers[2]),
            .input_ulps = real_of(query.getColumn(3)),
            .weight_ulps = real_of(query.getColumn(4)),
            .gradient_ulps = real_of(query.getColumn(5)),
            .output_ulps = real_of(query.getColumn(6))});
    }
  });
}

void ResultReader::stacks(const std::function<void(std::string_view, std::string_view)>& take) {
  guarded(state_->source, [&] {
    if (!state_->database.tableExists("tb_stack")) return;
    SQLite::Statement query(state_->database, "SELECT id, stack_info FROM tb_stack");
    std::array<std::string, 2> buffers;
    while (query.executeStep()) {
      take(text_of(query.getColumn(0), buffers[0]), text_of(query.getColumn(1), buffers[1]));
    }
  });
}

void ResultReader::cells(std::int64_t source,
                         const std::function<void(std::string_view, std::string_view)>& take) {
  guarded(state_->source, [&] {
    if (!state_->cells) {
      state_->cells.emplace(state_->database,
                            "SELECT " + state_->selected_cells + " FROM tb_nodes WHERE rowid=?");
    }
    state_->cells->reset();
    state_->cells->bind(1, source);
    std::array<std::string, 2> buffers;
    if (state_->cells->executeStep()) {
      take(text_of(state_->cells->getColumn(0), buffers[0]),
           text_of(state_->cells->getColumn(1), buffers[1]));
    }
  });
}

}  // namespace msprobe::viewer
