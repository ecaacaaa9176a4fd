// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/overflow.h"
#include "overflow/dump_builder.h"

using namespace msprobe;
using namespace msprobe::overflow;
using namespace msprobe::test;

namespace {

struct Place {
  int rank;
  std::string record;
  bool operator==(const Place&) const = default;
};

std::vector<Place> places(const Analysis& analysis) {
  std::vector<Place> result;
  for (const Origin& origin : analysis.origins) result.push_back({origin.rank, origin.record});
  return result;
}

std::string all_reduce(int number) { return "Distributed.all_reduce." + std::to_string(number) + ".forward"; }

Analysis of_single(const RankDump& dump) {
  const TempDir dir;
  dump.write(dir / "rank");
  return find_origins(dir.path());
}

}  // namespace

TEST_CASE(
    "find_origins: the first call with good inputs and a bad output, on each rank before it communicates") {
  const TempDir dir;
  RankDump a, b;
  a.call("Torch.add.0.forward", good(), good()).call(all_reduce(0), good(), bad());
  b.call("Torch.log.0.forward", good(), bad()).call("Torch.exp.0.forward", bad(), bad());
  b.call(all_reduce(0), bad(), bad());
  a.write(dir / "rank2");
  b.write(dir / "rank10");
  const Analysis found = find_origins(dir.path());
  CHECK(found.ranks == std::vector<int>{2, 10});
  CHECK(found.record_count == 5);
  CHECK(found.communication_count == 2);
  REQUIRE(places(found) == std::vector<Place>{{10, "Torch.log.0.forward"}});
  CHECK(found.origins[0].cause == Cause::kComputed);
  CHECK(found.origins[0].phase == Phase::kBefore);
  CHECK(found.origins[0].json.find("NaN") != std::string::npos);
}

TEST_CASE("find_origins: tensors in lists count") {
  RankDump out, in;
  out.call("Torch.split.0.forward", good(), "[" + good() + "," + bad() + "]");
  CHECK(places(of_single(out)) == std::vector<Place>{{0, "Torch.split.0.forward"}});
  in.call("Torch.cat.0.forward", "[" + good() + "," + bad() + "]", bad());
  const Analysis found = of_single(in);
  REQUIRE(found.origins.size() == 1);
  CHECK(found.origins[0].cause == Cause::kOutside);
}

TEST_CASE("find_origins: a bad scalar and a bad parameter are named as what was bad") {
  RankDump scalar, module;
  scalar.call("Torch.mul.0.forward", good() + "," + value("float", "Infinity"), tensor("Infinity"));
  Analysis found = of_single(scalar);
  REQUIRE(found.origins.size() == 1);
  CHECK(found.origins[0].cause == Cause::kArgument);
  CHECK(found.origins[0].reason == "the argument input_args.1 is Infinity; output.0 has Max Infinity");
  module.raw("Module.fc.Linear.forward.0", R"({"input_args":[)" + good() +
                                               R"(],"input_kwargs":{},"output":[)" + bad() +
                                               R"(],"parameters":{"weight":)" + bad() + "}}");
  found = of_single(module);
  REQUIRE(found.origins.size() == 1);
  CHECK(found.origins[0].cause == Cause::kParameter);
  CHECK(found.origins[0].reason ==
        "the parameter weight has Max NaN when the call begins; output.0 has Max NaN");
}

TEST_CASE("find_origins: names keep letters that are not ASCII, and lose control characters") {
  RankDump module;
  module.raw("Module.fc.Linear.forward.0", R"({"input_args":[)" + good() +
                                               R"(],"input_kwargs":{},"output":[)" + bad() +
                                               R"(],"parameters":{"gr\u001bö\u00dfe":)" + bad() + "}}");
  const Analysis found = of_single(module);
  REQUIRE(found.origins.size() == 1);
  CHECK(found.origins[0].reason ==
        "the parameter gr?öße has Max NaN when the call begins; output.0 has Max NaN");
}

TEST_CASE("find_origins: text arguments, empty memory and masks are not bad") {
  RankDump dump;
  dump.call("Torch.norm.0.forward", good() + "," + value("str", "\"inf\""), good());
  dump.call("Torch.empty.0.forward", value("int", "2"), bad());
  dump.call("Tensor.masked_fill.0.forward", good() + "," + value("float", "-Infinity"), tensor("-Infinity"));
  dump.call("Tensor.__add__.0.forward", good() + "," + tensor("-Infinity"), tensor("-Infinity"));
  dump.call("Torch.softmax.0.forward", tensor("-Infinity"), good());
  dump.call(all_reduce(0), tensor("-Infinity"), tensor("-Infinity"));
  const Analysis found = of_single(dump);
  CHECK(found.origins.empty());
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0].find("Tensor.masked_fill.0.forward") != std::string::npos);

  dump.call("Torch.softmax.1.forward", tensor("-Infinity"), bad());  // but a NaN is never a mask's
  CHECK(of_single(dump).origins.empty());                            // behind a bad arrival it is no origin
}

TEST_CASE("find_origins: a weight that is bad from the start is said to come from outside") {
  RankDump dump;
  dump.call("Functional.linear.0.forward", good() + "," + bad(), bad());
  dump.call("Torch.exp.0.forward", bad(), bad());
  const Analysis found = of_single(dump);
  REQUIRE(places(found) == std::vector<Place>{{0, "Functional.linear.0.forward"}});
  CHECK(found.origins[0].cause == Cause::kOutside);
}

TEST_CASE("find_origins: a backward of a forward with NaN makes none of its own") {
  RankDump dump;
  dump.call("Functional.linear.0.forward", bad() + "," + good(), bad());  // a batch with a NaN
  dump.call("Functional.cross_entropy.0.forward", bad(), bad());
  const auto backward = R"({"input":[)" + good() + R"(],"output":[)" + bad() + "]}";
  dump.raw("Functional.cross_entropy.0.backward", backward);
  const Analysis found = of_single(dump);
  REQUIRE(places(found) == std::vector<Place>{{0, "Functional.linear.0.forward"}});
  CHECK(found.origins[0].cause == Cause::kOutside);

  RankDump of_backward;  // sqrt of 0 is good, its gradient is not
  of_backward.call("Torch.sqrt.0.forward", good(), good()).raw("Torch.sqrt.0.backward", backward);
  CHECK(places(of_single(of_backward)) == std::vector<Place>{{0, "Torch.sqrt.0.backward"}});
}

TEST_CASE("find_origins: the call that makes NaN of the infinities of a mask") {
  const std::string infinite = tensor("-Infinity");
  RankDump dump;
  dump.call("Tensor.masked_fill.0.forward", good() + "," + value("float", "-Infinity"), infinite);
  dump.call("Torch.softmax.0.forward", infinite, bad());
  dump.call("Torch.matmul.0.forward", bad() + "," + good(), bad());
  const Analysis found = of_single(dump);
  REQUIRE(places(found) == std::vector<Place>{{0, "Torch.softmax.0.forward"}});
  CHECK(found.origins[0].cause == Cause::kComputed);
  CHECK(found.origins[0].reason ==
        "input_args.0 has Max -Infinity since the program wrote infinities, first in "
        "Tensor.masked_fill.0.forward; output.0 has Max NaN");
}

TEST_CASE("find_origins: bad values are followed from rank to rank") {
  const TempDir dir;
  RankDump a, b, c;
  const auto to = [](int rank) { return R"("dst":)" + value("int", std::to_string(rank)); };
  const auto from = [](int rank) { return R"("src":)" + value("int", std::to_string(rank)); };
  a.call(all_reduce(0), good(), good()).call("Torch.log.0.forward", good(), bad());
  a.call("Distributed.send.0.forward", bad(), bad(), to(1)).call(all_reduce(1), bad(), bad());
  b.call(all_reduce(0), good(), good()).call("Distributed.recv.0.forward", good(), bad(), from(0));
  b.call("Torch.where.0.forward", good(), bad());  // would be first in its rank, but bad values were there
  b.call("Distributed.send.0.forward", bad(), bad(), to(2)).call(all_reduce(1), bad(), bad());
  c.call("Distributed.recv.0.forward", good(), bad(), from(1));
  c.call(all_reduce(0), good(), good()).call(all_reduce(1), good(), bad());
  a.write(dir / "rank0");
  b.write(dir / "rank1");
  c.write(dir / "rank2");
  const Analysis found = find_origins(dir.path());
  // rank 2 calls in another order than the others, so something is a guess; the answer is the same
  REQUIRE(places(found) == std::vector<Place>{{0, "Torch.log.0.forward"}});
  CHECK(found.origins[0].phase == Phase::kDuring);
}

TEST_CASE("find_origins: a collective that overflows by itself, and one whose partner is not in the dump") {
  const TempDir dir;
  RankDump dump;
  dump.call(all_reduce(0), good(), good());
  dump.call(all_reduce(1), good(), bad(), R"("group":)" + group("0,1,7"));
  dump.write(dir / "rank0");
  dump.write(dir / "rank1");
  const Analysis found = find_origins(dir.path());
  REQUIRE(places(found) == std::vector<Place>{{0, all_reduce(1)}});
  CHECK(found.origins[0].cause == Cause::kCommunication);
  CHECK(found.origins[0].reason.find("rank 7") != std::string::npos);
}

TEST_CASE("find_origins: memory that only receives may hold anything") {
  const TempDir dir;
  RankDump a, b;
  const std::string lists = "[" + bad() + "," + bad() + "]," + good();
  a.call("Distributed.all_gather.0.forward", lists, "[" + good() + "," + good() + "]," + good());
  a.call("Distributed.broadcast.0.forward", good() + "," + value("int", "0"), good());
  b.call("Distributed.all_gather.0.forward", lists, "[" + good() + "," + good() + "]," + good());
  b.call("Distributed.broadcast.0.forward", bad() + "," + value("int", "0"), good());
  a.write(dir / "rank0");
  b.write(dir / "rank1");
  CHECK(find_origins(dir.path()).origins.empty());
}

TEST_CASE("find_origins: batched sends and receives go both ways at once") {
  const TempDir dir;
  const auto operation = [](std::string_view op, int peer, const std::string& tensor) {
    return R"({"class_type":"torch.distributed.P2POp","tensor":)" + tensor + R"(,"op":")" + std::string(op) +
           R"(","peer":)" + std::to_string(peer) + R"(,"tag":0,"group_id":"0"})";
  };
  const auto batch = [&](int peer, const std::string& sent, const std::string& before,
                         const std::string& after) {
    const std::string name = "Distributed.batch_isend_irecv.0.forward";
    return std::pair{
        name, std::pair{"[" + operation("isend", peer, sent) + "," + operation("irecv", peer, before) + "]",
                        "[" + operation("isend", peer, sent) + "," + operation("irecv", peer, after) + "]"}};
  };
  RankDump a, b;
  const auto from_a = batch(1, good(), bad(), bad());
  const auto from_b = batch(0, bad(), good(), good());
  a.call(all_reduce(0), good(), good()).call(from_a.first, from_a.second.first, from_a.second.second);
  b.call(all_reduce(0), good(), good()).call("Torch.log.0.forward", good(), bad());
  b.call(from_b.first, from_b.second.first, from_b.second.second);
  a.write(dir / "rank0");
  b.write(dir / "rank1");
  const Analysis found = find_origins(dir.path());
  CHECK(found.notes.empty());
  CHECK(places(found) == std::vector<Place>{{1, "Torch.log.0.forward"}});
}

TEST_CASE("find_origins: what nobody sent is found behind the last communication, then between") {
  RankDump dump;
  dump.call(all_reduce(0), good(), good()).call("Torch.log.0.forward", good(), bad());
  dump.call(all_reduce(1), good(), good());
  Analysis found = of_single(dump);
  REQUIRE(found.origins.size() == 1);
  CHECK(found.origins[0].phase == Phase::kBetween);
  dump.call("Torch.log.1.forward", good(), bad());
  found = of_single(dump);
  REQUIRE(places(found) == std::vector<Place>{{0, "Torch.log.1.forward"}});
  CHECK(found.origins[0].phase == Phase::kAfter);
}

TEST_CASE("find_origins: a gradient that no call explains") {
  RankDump dump;
  dump.call("Torch.add.0.forward", good(), good());
  dump.raw("Module.fc.Linear.parameters_grad", R"({"weight":[)" + bad() + "]}");
  const Analysis found = of_single(dump);
  REQUIRE(found.origins.size() == 1);
  CHECK(found.origins[0].cause == Cause::kGradient);
  CHECK(found.origins[0].reason == "the gradient of weight has Max NaN");
}

TEST_CASE("find_origins: ranks that wait for each other are an answer with a note, not an endless loop") {
  const TempDir dir;
  const auto call = [](std::string_view name, int peer, bool is_send) {
    return std::pair{std::string(name),
                     (is_send ? R"("dst":)" : R"("src":)") + value("int", std::to_string(peer))};
  };
  for (int rank = 0; rank < 2; ++rank) {
    RankDump dump;
    const auto receive = call("Distributed.recv.0.forward", 1 - rank, false);
    const auto send = call("Distributed.send.0.forward", 1 - rank, true);
    dump.call(receive.first, good(), bad(), receive.second);
    dump.call(send.first, good(), good(), send.second);
    dump.write(dir / ("rank" + std::to_string(rank)));
  }
  const Analysis found = find_origins(dir.path());
  CHECK(found.origins.size() == 1);
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0].find("contradicts") != std::string::npos);
}

TEST_CASE("find_origins: odd arguments of communication are survived") {
  RankDump dump;
  const std::string huge = value("int", "99999999999999999999");
  dump.call("Distributed.send.0.forward", good() + "," + huge, good());
  dump.call("Distributed.recv.0.forward", good(), good());
  dump.call("Distributed.recv.1.forward", good(), good(), R"("src":null)");
  dump.call("Distributed.broadcast.0.forward", good(), good(), R"("group_src":)" + huge);
  dump.call("Distributed.reduce.0.forward", good(), good(),
            R"("group":)" + group("5,6") + R"(,"group_dst":)" + value("int", "9"));
  dump.call("Distributed.all_to_all_unheard_of.0.forward", good(), bad());
  dump.raw("Distributed.batch_isend_irecv.0.forward",
           R"({"input_args":[[1,null,{"op":"isend"},[]]],"output":3})");
  dump.raw("Distributed.scatter.0.forward", "{}");
  CHECK(places(of_single(dump)) == std::vector<Place>{{0, "Distributed.all_to_all_unheard_of.0.forward"}});
}

TEST_CASE("find_origins: missing and damaged files") {
  const TempDir dir;
  CHECK_THROWS_AS(find_origins(dir / "nowhere"), IoError);
  CHECK_THROWS_AS(find_origins(dir.path()), InvalidArgument);
  RankDump dump;
  dump.call("Torch.log.0.forward", good(), bad());
  dump.write(dir / "rank0");
  std::filesystem::remove(dir / "rank0/stack.json");
  write_bytes(dir / "rank0/construct.json", R"({"Torch.log.0.forward":"a","a":"b","b":"a"})");
  write_bytes(dir / "rank3/dump.json", dump.json().substr(0, 200));
  std::filesystem::create_directories(dir / "rank4");
  std::filesystem::create_directories(dir / "ranks");
  const Analysis found = find_origins(dir.path());
  CHECK(found.unread_ranks == std::vector<int>{3, 4});
  REQUIRE(found.origins.size() == 1);
  CHECK(found.origins[0].ancestry == std::vector<std::string>{"b", "a", "Torch.log.0.forward"});
  CHECK(found.notes.size() == 3);

  CHECK_THROWS_AS(find_origins(dir / "rank3"), FormatError);
  std::filesystem::remove_all(dir / "rank0");
  CHECK_THROWS_AS(find_origins(dir.path()), FormatError);
  dump.write(dir / "rank");
  dump.write(dir / "rank00");
  CHECK_THROWS_AS(find_origins(dir.path()), InvalidArgument);
}

TEST_CASE("find_origins: one rank is given by its own folder, and names its forward's stack") {
  const TempDir dir;
  RankDump dump;
  dump.raw("Torch.log.0.backward", R"({"input":[)" + good() + R"(],"output":[)" + bad() + "]}");
  dump.write(dir / "rank5");
  write_bytes(dir / "rank5/stack.json", R"({"0":[["Torch.log.0.forward"],["here"]]})");
  const Analysis found = find_origins(dir / "rank5");
  REQUIRE(places(found) == std::vector<Place>{{5, "Torch.log.0.backward"}});
  CHECK(found.origins[0].stack.empty());
  CHECK(found.origins[0].forward_stack == std::vector<std::string>{"here"});
}

TEST_CASE("find_origins: progress is told, and can end the work") {
  const TempDir dir;
  for (int rank = 0; rank < 4; ++rank) {
    RankDump().call("Torch.add.0.forward", good(), good()).write(dir / ("rank" + std::to_string(rank)));
  }
  AnalyzeOptions options;
  options.threads = 1;
  std::size_t last = 0;
  options.progress = [&last](std::size_t done, std::size_t total) {
    CHECK(total == 4);
    last = done;
    return true;
  };
  CHECK(find_origins(dir.path(), options).origins.empty());
  CHECK(last == 4);
  options.progress = [](std::size_t, std::size_t) { return false; };
  CHECK_THROWS_AS(find_origins(dir.path(), options), InvalidArgument);
}
