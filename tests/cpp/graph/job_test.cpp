// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <SQLiteCpp/SQLiteCpp.h>

#include <atomic>

#include "catch.h"
#include "graph/made_up.h"
#include "msprobe/error.h"
#include "msprobe/graph_file.h"
#include "temp_dir.h"

using namespace msprobe;
using namespace msprobe::graph;
using test::has;
using test::MadeDump;
using test::MadeTensor;
using test::problem_of;
using test::TempDir;

namespace {

void write(const MadeDump& made, const std::filesystem::path& folder) {
  test::write_bytes(folder / "dump.json", made.dump_json());
  test::write_bytes(folder / "construct.json", made.construct_json());
  test::write_bytes(folder / "stack.json", made.stack_json());
}

// A model of some thousand nodes; `seed` changes numbers, not names.
MadeDump model(int seed, int calls = 3000) {
  MadeDump made;
  for (int i = 0; i < calls; ++i) {
    MadeTensor output;
    output.mean = std::to_string((i * 7919 % 1000 + seed * (i % 13)) / 1000.0);
    const std::string module = "Module.m" + std::to_string(i / 10) + ".M.forward.0";
    made.call("Torch.x." + std::to_string(i) + ".forward", module, output);
    if (i % 10 == 9) made.call(module);
    if (i % 7 == 0) made.stack(module, {"File a.py, line " + std::to_string(i % 50)});
  }
  return made;
}

// Two runs of some ranks in a folder of its own.
class Runs {
 public:
  explicit Runs(int ranks = 1, int calls = 3000) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = "rank" + std::to_string(rank);
      write(model(rank + 1, calls), dir_ / "target" / name);
      write(model(rank, calls), dir_ / "golden" / name);
    }
    ranks_ = ranks;
  }

  const TempDir& dir() const { return dir_; }

  GraphJob job(bool compares = true, const std::string& output = "out.vis.db") const {
    GraphJob job;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::string name = "rank" + std::to_string(rank);
      GraphUnit unit;
      unit.target.push_back({rank, dir_ / "target" / name});
      if (compares) unit.reference.push_back({rank, dir_ / "golden" / name});
      job.units.push_back(unit);
    }
    job.output = dir_ / output;
    return job;
  }

  // What lies beside the dumps.
  std::vector<std::string> results() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (!entry.is_directory()) names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  TempDir dir_;
  int ranks_ = 0;
};

class File {
 public:
  explicit File(const std::filesystem::path& path) : database_(path.string(), SQLite::OPEN_READONLY) {}

  std::string value(const std::string& query) {
    SQLite::Statement statement(database_, query);
    return statement.executeStep() ? statement.getColumn(0).getString() : std::string("no row");
  }
  std::vector<std::string> values(const std::string& query) {
    std::vector<std::string> result;
    SQLite::Statement statement(database_, query);
    while (statement.executeStep()) result.push_back(statement.getColumn(0).getString());
    return result;
  }

 private:
  SQLite::Database database_;
};

}  // namespace

TEST_CASE("write_graph_file: a graph alone") {
  const Runs runs;
  const GraphSummary summary = write_graph_file(runs.job(false));
  CHECK((summary.graphs == 1 && summary.nodes == 3301 && summary.unmatched == 0));
  CHECK(summary.worst_node.empty());
  File file(runs.dir() / "out.vis.db");
  CHECK(file.value("SELECT count(*) FROM tb_nodes") == "3301");
  CHECK(file.value("SELECT count(*) FROM msprobe_nodes") == "3301");
  CHECK(file.value("SELECT graph_type || task || node_colors FROM tb_config") == "buildnull");
  CHECK(file.value("SELECT count(*) FROM tb_nodes WHERE matched_node_link <> '[]'") == "0");
  CHECK(file.value("SELECT node_order FROM tb_nodes WHERE up_node = ''") == "3300");
  CHECK(file.value("PRAGMA integrity_check") == "ok");
  CHECK(file.value("PRAGMA journal_mode") == "delete");
  CHECK(file.values("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").size() == 6);
}

TEST_CASE("write_graph_file: every stack a node names is there") {
  const Runs runs;
  write_graph_file(runs.job());
  File file(runs.dir() / "out.vis.db");
  CHECK(file.value("SELECT count(*) FROM tb_nodes WHERE stack_id NOT IN (SELECT id FROM tb_stack)") == "0");
  CHECK(file.value("SELECT count(*) FROM msprobe_nodes WHERE id NOT IN (SELECT id FROM tb_nodes)") == "0");
}

TEST_CASE("write_graph_file: any number of threads gives the same bytes") {
  const Runs runs(3);
  GraphJob job = runs.job(true, "one.vis.db");
  job.overflow_check = true;
  job.threads = 1;
  write_graph_file(job);
  const std::string expected = test::read_bytes(job.output);
  for (const unsigned threads : {2u, 4u, 4u}) {
    job.threads = threads;
    job.output = runs.dir() / "other.vis.db";
    write_graph_file(job);
    CHECK((test::read_bytes(job.output) == expected));
    std::filesystem::remove(job.output);
  }
}

TEST_CASE("write_graph_file: an existing file is not touched") {
  const Runs runs(1, 10);
  test::write_bytes(runs.dir() / "out.vis.db", "mine");
  const std::string problem = problem_of<InvalidArgument>([&] { write_graph_file(runs.job()); });
  CHECK(has(problem, "out.vis.db exists"));
  CHECK(test::read_bytes(runs.dir() / "out.vis.db") == "mine");
  CHECK(runs.results() == std::vector<std::string>{"out.vis.db"});
}

TEST_CASE("write_graph_file: a failure leaves nothing, wherever it happens") {
  const Runs runs(1, 500);  // of several ranks one that cannot be read is left out
  const std::string last = "rank0";
  const std::filesystem::path broken = runs.dir() / "golden" / last / "construct.json";
  test::write_bytes(broken, R"({"Module.a.A.forward.0":"Module.b.B.forward.0",)"
                            R"("Module.b.B.forward.0":"Module.a.A.forward.0"})");
  CHECK(has(problem_of<FormatError>([&] { write_graph_file(runs.job()); }), broken.string()));
  CHECK(runs.results().empty());
  std::filesystem::remove(runs.dir() / "golden" / last / "dump.json");
  CHECK_THROWS_AS(write_graph_file(runs.job()), IoError);
  CHECK(runs.results().empty());
  // Ranks of different tasks.
  const Runs two(2, 500);
  write(MadeDump("structure").call("Torch.x.0.forward"), two.dir() / "golden" / "rank1");
  write(MadeDump("structure").call("Torch.x.0.forward"), two.dir() / "target" / "rank1");
  CHECK(has(problem_of<InvalidArgument>([&] { write_graph_file(two.job()); }), "different tasks"));
  CHECK(two.results().empty());
}

TEST_CASE("write_graph_file: progress only grows, and may end the job at any time") {
  const Runs runs(2);
  std::vector<std::size_t> done;
  GraphJob job = runs.job();
  job.progress = [&](std::size_t now, std::size_t all) {
    CHECK(now <= all);
    CHECK((done.empty() || now >= done.back()));
    done.push_back(now);
    return true;
  };
  write_graph_file(job);
  REQUIRE(done.size() > 4);
  CHECK(done.back() == 2 * 1000);
  for (std::size_t calls = 0; calls < done.size(); ++calls) {
    job = runs.job(true, "cancelled.vis.db");
    std::size_t left = calls;
    job.progress = [&](std::size_t, std::size_t) { return left-- > 0; };
    CHECK(has(problem_of<InvalidArgument>([&] { write_graph_file(job); }), "cancelled"));
    CHECK(runs.results() == std::vector<std::string>{"out.vis.db"});
  }
}

TEST_CASE("write_graph_file: units that do not go together are refused") {
  const Runs runs(2, 10);
  const auto problem = [](const GraphJob& job) {
    return problem_of<InvalidArgument>([&] { write_graph_file(job); });
  };
  GraphJob job = runs.job();
  job.units.clear();
  CHECK(has(problem(job), "there is no rank"));
  job = runs.job();
  job.units[1].reference.clear();
  CHECK(has(problem(job), "some ranks have a reference"));
  job = runs.job();
  job.units[1].target[0].rank = 0;
  CHECK(has(problem(job), "twice the same step and rank"));
  job = runs.job();
  job.units[0].target.push_back(job.units[1].target[0]);
  CHECK(has(problem(job), "one by one"));
  job = runs.job();
  job.merge = true;
  CHECK(has(problem(job), "twice the same step and rank"));
  CHECK(runs.results().empty());
}

TEST_CASE("write_graph_file: folders without stack.json are named") {
  const Runs runs(3, 10);
  std::vector<std::string> expected;
  for (const char* const folder : {"golden/rank0", "golden/rank2", "target/rank1"}) {
    std::filesystem::remove(runs.dir() / folder / "stack.json");
    expected.push_back((runs.dir() / folder).string());
  }
  test::write_bytes(runs.dir() / "target/rank0/stack.json", "{}");  // there, and nothing in it
  CHECK(write_graph_file(runs.job()).without_stacks == expected);
}

TEST_CASE("write_graph_file: what compare found stands beside the nodes") {
  const Runs runs(1, 10);
  GraphJob job = runs.job();
  job.findings = [] {
    return std::vector<Finding>{{0, 0, "Torch.x.1.forward", "it's \"first\"", {}, {}},
                                {0, 0, "Torch.x.2.forward", "second", {}, {}}};
  };
  write_graph_file(job);
  File file(runs.dir() / "out.vis.db");
  CHECK(
      file.values("SELECT number || ' ' || node || ' ' || sentence FROM msprobe_findings ORDER BY number") ==
      std::vector<std::string>{"1 Torch.x.1.forward it's \"first\"", "2 Torch.x.2.forward second"});
  CHECK(file.value("SELECT value FROM msprobe_info WHERE key = 'golden'") ==
        (runs.dir() / "golden/rank0").string());
  CHECK(file.value("SELECT value FROM msprobe_info WHERE key = 'schema'") == "1");
}

TEST_CASE("write_graph_file: names of any characters are the names of nodes") {
  const TempDir dir;
  const std::string name = R"(Module.'; DROP TABLE tb_nodes; --\n\t\"\u4e2d.A.forward.0)";
  MadeDump made;
  made.call(name).call("Torch.x.0.forward", name);
  write(made, dir / "run");
  GraphJob job;
  GraphUnit unit;
  unit.target.push_back({0, dir / "run"});
  job.units.push_back(unit);
  job.output = dir / "out.vis.db";
  CHECK(write_graph_file(job).nodes == 3);
  File file(job.output);
  CHECK(file.value("SELECT node_name FROM tb_nodes WHERE up_node = 'DefaultModel'") ==
        "Module.'; DROP TABLE tb_nodes; --\n\t\"\u4e2d.A.forward.0");
  CHECK(has(file.value("SELECT sub_nodes FROM tb_nodes WHERE up_node = ''"), R"(\n\t\"\u4e2d.A)"));
}
