// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/links.h"

#include <map>

#include "catch.h"
#include "graph/table.h"
#include "msprobe/error.h"

using namespace msprobe;
using namespace msprobe::graph;
using test::TempDir;

namespace {

const std::string kLinksData = MSPROBE_TEST_DATA "/graph/links/";

// The column of all linked nodes: (rank, node) -> JSON.
using Columns = std::map<std::pair<int, std::string>, std::string>;

Graph read_graph(const std::filesystem::path& folder, int rank) {
  return build(std::make_shared<Dump>(read_dump(folder, 0, rank)));
}

Columns columns_of(const std::vector<Graph>& graphs, const NodeText& text) {
  std::vector<CommunicationCalls> calls;
  std::map<int, const Graph*> by_rank;
  for (const Graph& graph : graphs) {
    calls.push_back(read_calls(graph));
    by_rank[graph.rank()] = &graph;
  }
  Columns columns;
  for (const Link& link : link_calls(calls)) {
    const std::string name((*by_rank.at(link.rank))[link.node].name);
    CHECK(columns.try_emplace({link.rank, name}, matched_distributed_json(link, text)).second);
  }
  return columns;
}

// ---- Ranks that were made up

std::string tensor(const std::string& max = "1.0") {
  return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":)" + max +
         R"(,"Min":0.0,"Mean":0.5,"Norm":1.0,"requires_grad":false})";
}

std::string whole(int number) { return R"({"type":"int","value":)" + std::to_string(number) + "}"; }

std::string group(const std::string& ranks, const std::string& id = "g") {
  return R"("group":{"type":"torch.ProcessGroup","group_ranks":[)" + ranks + R"(],"group_id":")" + id + "\"}";
}

std::string operation(const std::string& op, int peer, const std::string& id = "g") {
  return R"({"class_type":"torch.distributed.P2POp","tensor":)" + tensor() + R"(,"op":")" + op +
         R"(","peer":)" + std::to_string(peer) + R"(,"tag":0,"group_id":")" + id + "\"}";
}

class Ranks {
 public:
  // A call of a function, the n-th of its name on this rank.
  Ranks& call(int rank, const std::string& function, const std::string& kwargs,
              const std::string& args = tensor(), const std::string& output = tensor()) {
    const int count = counts_[{rank, function}]++;
    const std::string name = "\"Distributed." + function + "." + std::to_string(count) + ".forward\"";
    Texts& texts = ranks_[rank];
    const std::string comma = texts.data.empty() ? "" : ",";
    texts.data += comma + name + R"(:{"input_args":[)" + args + R"(],"input_kwargs":{)" + kwargs +
                  R"(},"output":[)" + output + "]}";
    texts.construct += comma + name + ":null";
    return *this;
  }
  Ranks& batch(int rank, const std::string& operations) {
    return call(rank, "batch_isend_irecv", "", "[" + operations + "]", "[" + operations + "]");
  }

  Columns columns() const {
    const TempDir dir;
    std::vector<Graph> graphs;
    for (const auto& [rank, texts] : ranks_) {
      const std::filesystem::path folder = dir / ("rank" + std::to_string(rank));
      test::write_bytes(folder / "dump.json", R"({"data":{)" + texts.data + "}}");
      test::write_bytes(folder / "construct.json", "{" + texts.construct + "}");
      graphs.push_back(read_graph(folder, rank));
    }
    return columns_of(graphs, [](int rank, std::string_view) { return "r" + std::to_string(rank); });
  }

 private:
  struct Texts {
    std::string data, construct;
  };
  std::map<int, Texts> ranks_;
  std::map<std::pair<int, std::string>, int> counts_;
};

std::string name(const std::string& function, int count = 0) {
  return "Distributed." + function + "." + std::to_string(count) + ".forward";
}

// {"communications_type": direction, "nodes_info": {peers}}
std::string exchange(const std::string& direction, const std::vector<std::pair<int, std::string>>& peers) {
  std::string json = R"({"communications_type": ")" + direction + R"(", "nodes_info": {)";
  for (const auto& [rank, node] : peers) {
    if (!json.ends_with('{')) json += ", ";
    json += "\"" + std::to_string(rank) + "\": [\"r" + std::to_string(rank) + "\", \"" + node + "\"]";
  }
  return json + "}}";
}

const std::string kPair = "0, 1";

}  // namespace

TEST_CASE("links: the column of real runs") {
  struct Case {
    std::map<std::pair<int, std::string>, std::string> texts;
    Columns columns;
  };
  std::map<std::pair<std::string, std::string>, Case> cases;  // by graph and folder of the dump
  for (const auto& row : test::read_table(kLinksData + "expected.tsv")) {
    Case& that = cases[{row[0], row[1]}];
    const std::pair node{std::stoi(row[2]), row[3]};
    const bool is_integer = row[4].find('.') == std::string::npos;
    that.texts[node] = row[4].empty() ? "Nan" : index_text(std::stod(row[4]), is_integer);
    that.columns[node] = row[5];
  }
  REQUIRE(cases.size() == 7);
  for (const auto& [key, expected] : cases) {
    CAPTURE(key.first, key.second);
    std::vector<Graph> graphs;
    for (const int rank : {0, 1})
      graphs.push_back(read_graph(kLinksData + key.second + "/rank" + std::to_string(rank), rank));
    const auto text = [&expected](int rank, std::string_view node) {
      return expected.texts.at({rank, std::string(node)});
    };
    CHECK(columns_of(graphs, text) == expected.columns);
  }
}

TEST_CASE("links: point to point, by the number of the call to the same rank") {
  Ranks ranks;
  ranks.call(0, "isend", "\"dst\":" + whole(1)).call(0, "isend", "\"dst\":" + whole(2));
  ranks.call(0, "isend", "\"dst\":" + whole(1)).call(0, "isend", "\"dst\":" + whole(1));
  ranks.call(1, "irecv", "\"src\":" + whole(0)).call(1, "irecv", "\"src\":" + whole(0));
  ranks.call(2, "irecv", "\"src\":" + whole(0));
  CHECK(ranks.columns() == Columns{{{0, name("isend", 0)}, exchange("send", {{1, name("irecv", 0)}})},
                                   {{0, name("isend", 1)}, exchange("send", {{2, name("irecv", 0)}})},
                                   {{0, name("isend", 2)}, exchange("send", {{1, name("irecv", 1)}})},
                                   {{1, name("irecv", 0)}, exchange("receive", {{0, name("isend", 0)}})},
                                   {{1, name("irecv", 1)}, exchange("receive", {{0, name("isend", 2)}})},
                                   {{2, name("irecv", 0)}, exchange("receive", {{0, name("isend", 1)}})}});
}

TEST_CASE("links: point to point needs partners that name each other and saw the same result") {
  const std::string to_1 = "\"dst\":" + whole(1), from_0 = "\"src\":" + whole(0);
  const auto linked = [&](const std::string& sent, const std::string& received) {
    return Ranks()
        .call(0, "send", to_1, tensor(), sent)
        .call(1, "recv", from_0, tensor(), received)
        .columns();
  };
  CHECK(linked(tensor(), tensor()).size() == 2);
  CHECK(linked(tensor("1"), tensor("1.0")).size() == 2);
  CHECK(linked(tensor("NaN"), tensor("NaN")).size() == 2);
  CHECK(linked("", "").size() == 2);
  CHECK(linked(tensor("1.0"), tensor("2.0")).empty());
  CHECK(linked(tensor(), "").empty());

  CHECK(Ranks().call(0, "send", to_1).call(1, "recv", "\"src\":" + whole(2)).columns().empty());
  CHECK(Ranks().call(0, "send", to_1).call(1, "irecv", from_0).columns().empty());
  CHECK(Ranks().call(0, "send", to_1).columns().empty());
  CHECK(Ranks().call(0, "send", "", tensor() + "," + whole(1)).call(1, "recv", from_0).columns().empty());
  CHECK(Ranks()
            .call(0, "send", R"("dst":{"type":"str","value":"1"})")
            .call(1, "recv", from_0)
            .columns()
            .empty());
}

TEST_CASE("links: calls of one source or destination") {
  const std::string all = "0, 1, 2";
  for (const auto& [function, keyword, of_root, of_others] :
       {std::array<std::string, 4>{"scatter", "src", "send", "receive"},
        std::array<std::string, 4>{"gather", "dst", "receive", "send"}}) {
    CAPTURE(function);
    Ranks ranks;
    for (const int rank : {0, 1, 2})
      ranks.call(rank, function, "\"" + keyword + "\":" + whole(1) + "," + group(all));
    const std::string node = name(function);
    CHECK(ranks.columns() == Columns{{{0, node}, exchange(of_others, {{1, node}})},
                                     {{1, node}, exchange(of_root, {{0, node}, {2, node}})},
                                     {{2, node}, exchange(of_others, {{1, node}})}});
  }
  Ranks ranks;
  for (const int rank : {0, 1}) ranks.call(rank, "broadcast", group(kPair), tensor() + "," + whole(1));
  for (const int rank : {0, 1}) ranks.call(rank, "broadcast", group(kPair), tensor() + "," + whole(0));
  const std::string first = name("broadcast", 0), second = name("broadcast", 1);
  CHECK(ranks.columns() == Columns{{{0, first}, exchange("receive", {{1, first}})},
                                   {{1, first}, exchange("send", {{0, first}})},
                                   {{0, second}, exchange("send", {{1, second}})},
                                   {{1, second}, exchange("receive", {{0, second}})}});
  // The source is not there.
  CHECK(Ranks().call(0, "broadcast", group(kPair), tensor() + "," + whole(1)).columns().empty());
  // Another root, so it is another call.
  Ranks other;
  other.call(0, "broadcast", group(kPair), tensor() + "," + whole(0));
  other.call(1, "broadcast", group(kPair), tensor() + "," + whole(1));
  CHECK(other.columns().empty());
}

TEST_CASE("links: calls of a whole group") {
  Ranks ranks;
  for (const int rank : {0, 1, 2, 3}) {
    ranks.call(rank, "all_reduce", group(rank < 2 ? "0, 1" : "2, 3", rank < 2 ? "a" : "b"));
    ranks.call(rank, "all_reduce", group("0, 1, 2, 3, 4", "all"));  // rank 4 was not recorded
  }
  const std::string first = name("all_reduce", 0), second = name("all_reduce", 1);
  Columns expected;
  for (const int rank : {0, 1, 2, 3}) {
    expected[{rank, first}] = exchange("send_receive", {{rank ^ 1, first}});
    std::vector<std::pair<int, std::string>> others;
    for (const int other : {0, 1, 2, 3}) {
      if (other != rank) others.emplace_back(other, second);
    }
    expected[{rank, second}] = exchange("send_receive", others);
  }
  CHECK(ranks.columns() == expected);
}

TEST_CASE("links: calls of a whole group are numbered by group and function") {
  Ranks ranks;
  ranks.call(0, "all_reduce", group(kPair, "a")).call(0, "all_reduce", group(kPair, "b"));
  ranks.call(0, "barrier", group(kPair, "b"));
  ranks.call(1, "barrier", group(kPair, "b")).call(1, "all_reduce", group(kPair, "b"));
  ranks.call(1, "all_reduce", group(kPair, "c"));
  CHECK(ranks.columns() ==
        Columns{{{0, name("all_reduce", 1)}, exchange("send_receive", {{1, name("all_reduce", 0)}})},
                {{1, name("all_reduce", 0)}, exchange("send_receive", {{0, name("all_reduce", 1)}})},
                {{0, name("barrier")}, exchange("send_receive", {{1, name("barrier")}})},
                {{1, name("barrier")}, exchange("send_receive", {{0, name("barrier")}})}});
  Ranks without;
  for (const int rank : {0, 1}) without.call(rank, "all_reduce", "");
  for (const int rank : {0, 1})
    without.call(rank, "barrier", R"("group":{"type":"torch.ProcessGroup","group_ranks":[0,1]})");
  CHECK(without.columns().empty());
}

TEST_CASE("links: operations of batch_isend_irecv") {
  const std::string node = name("batch_isend_irecv");
  Ranks one;
  one.batch(0, operation("isend", 1)).batch(1, operation("irecv", 0));
  CHECK(one.columns() ==
        Columns{{{0, node}, exchange("send", {{1, node}})}, {{1, node}, exchange("receive", {{0, node}})}});

  Ranks ring;
  for (const int rank : {0, 1, 2}) {
    ring.batch(rank, operation("isend", (rank + 1) % 3) + "," + operation("irecv", (rank + 2) % 3));
  }
  Columns expected;
  for (const int rank : {0, 1, 2}) {
    expected[{rank, node}] = "[" + exchange("send", {{(rank + 1) % 3, node}}) + ", " +
                             exchange("receive", {{(rank + 2) % 3, node}}) + "]";
  }
  CHECK(ring.columns() == expected);

  // Numbered by operation, peer and group; a list although one of two has a partner.
  Ranks groups;
  groups.batch(0, operation("isend", 1, "a") + "," + operation("isend", 1, "b"));
  groups.batch(1, operation("irecv", 0, "b"));
  CHECK(groups.columns() == Columns{{{0, node}, "[" + exchange("send", {{1, node}}) + "]"},
                                    {{1, node}, exchange("receive", {{0, node}})}});
  // Not numbered with calls that stand alone.
  Ranks mixed;
  mixed.batch(0, operation("isend", 1)).call(1, "irecv", "\"src\":" + whole(0));
  CHECK(mixed.columns().empty());
  CHECK(Ranks().batch(0, "").batch(1, "").columns().empty());
}

TEST_CASE("links: the second batch of operations belongs to the second") {
  Ranks ranks;
  for (int i = 0; i < 2; ++i) {
    ranks.batch(0, operation("isend", 1)).batch(1, operation("irecv", 0));
  }
  for (const auto& [node, json] : ranks.columns()) {
    CHECK(json == exchange(node.first == 0 ? "send" : "receive", {{1 - node.first, node.second}}));
  }
}

TEST_CASE("links: texts are escaped, and modules are no calls") {
  CommunicationCalls a, b;
  a.rank = 0;
  b.rank = 1;
  a.nodes = {{.id = 7, .name = "a"}};
  b.nodes = {{.id = 3, .name = "b\"\n\xc3\xa4"}};
  a.groups = b.groups = {{0, 1}};
  a.channels[{.function = "barrier", .group = "g"}].push_back({});
  b.channels[{.function = "barrier", .group = "g"}].push_back({});
  const std::vector<CommunicationCalls> ranks = {a, b};
  const auto links = link_calls(ranks);
  REQUIRE(links.size() == 2);
  CHECK(links[0].node == 7);
  CHECK(matched_distributed_json(links[0], [](int, std::string_view) { return "\\"; }) ==
        R"({"communications_type": "send_receive", "nodes_info": {"1": ["\\", "b\"\n\u00e4"]}})");
}

TEST_CASE("links: the text of a precision index") {
  CHECK(index_text(0, true) == "0");
  CHECK(index_text(1, true) == "1");
  CHECK(index_text(0, false) == "0.0");
  CHECK(index_text(1, false) == "1.0");
  CHECK(index_text(0.28782738345916425, false) == "0.28782738345916425");
  CHECK(index_text(1e-5, false) == "1e-05");
}
