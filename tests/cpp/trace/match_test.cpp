// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "msprobe/trace_match.h"
#include "temp_dir.h"

using namespace msprobe::trace;
using msprobe::test::TempDir;

namespace {

struct Call {
  std::string name;  // without count: "Torch.add"
  std::string shape = "[2, 3]";
  std::string dtype = "torch.float32";
};

std::string leaf(const std::string& shape, const std::string& dtype) {
  return R"({"type": "torch.Tensor", "dtype": ")" + dtype + R"(", "shape": )" + shape +
         R"(, "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0})";
}

std::string record(const std::string& name, const std::string& tensor) {
  const bool backward = name.find(".backward") != std::string::npos;
  const std::string in = backward ? R"("input": [)" : R"("input_args": [)";
  return '"' + name + "\": {" + in + tensor + R"(], "output": [)" + tensor + "]}";
}

Trace trace_of(const std::string& records) {
  return parse_trace(R"({"task": "statistics", "level": "L1", "data": {)" + records + "}}", "dump.json");
}

// A run of these calls, each counted as the dump counts: how often its operator was called before.
std::string records_of(const std::vector<Call>& calls) {
  std::vector<std::pair<std::string, int>> counts;
  std::string records;
  for (const Call& call : calls) {
    auto found =
        std::find_if(counts.begin(), counts.end(), [&](auto& one) { return one.first == call.name; });
    if (found == counts.end()) found = counts.insert(counts.end(), {call.name, 0});
    if (!records.empty()) records += ", ";
    const std::string name = call.name + "." + std::to_string(found->second++) + ".forward";
    records += record(name, leaf(call.shape, call.dtype));
  }
  return records;
}

Trace run_of(const std::vector<Call>& calls) { return trace_of(records_of(calls)); }

RecordMatches match(const Trace& target, const Trace& reference) {
  return match_records(target, nullptr, reference, nullptr);
}

// "Torch.add.1.forward = Torch.add.0.forward (aligned)", and those of the reference that are alone.
std::vector<std::string> told(const Trace& target, const Trace& reference, const RecordMatches& matches) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < matches.of_target.size(); ++i) {
    const Match& match = matches.of_target[i];
    std::string line(target.name(target.records()[i]));
    if (match) {
      line += " = " + std::string(reference.name(reference.records()[match.index]));
      REQUIRE(matches.of_reference[match.index].index == i);
      REQUIRE(matches.of_reference[match.index].how == match.how);
    }
    lines.push_back(line + " (" + std::string(match_name(match.how)) + ")");
  }
  for (std::size_t i = 0; i < matches.of_reference.size(); ++i) {
    if (!matches.of_reference[i])
      lines.push_back("only " + std::string(reference.name(reference.records()[i])));
  }
  return lines;
}

using Lines = std::vector<std::string>;

std::string_view operator_of(std::string_view name) {
  name = name.substr(0, name.rfind('.'));
  return name.substr(0, name.rfind('.'));
}

Construct construct_of(const TempDir& dir, const std::string& text) {
  msprobe::test::write_bytes(dir / "construct.json", text);
  return read_construct(dir / "construct.json");
}

}  // namespace

TEST_CASE("match: a call that only one run has shifts the counts of the later ones, not the pairs") {
  const std::vector<Call> one = {{"Torch.add"}, {"Torch.mul"}, {"Torch.add"}, {"Torch.add"}};
  std::vector<Call> more = one;
  more.insert(more.begin(), Call{"Torch.add", "[7]"});
  const Trace target = run_of(more), reference = run_of(one);
  CHECK(told(target, reference, match(target, reference)) ==
        Lines{"Torch.add.0.forward (none)", "Torch.add.1.forward = Torch.add.0.forward (aligned)",
              "Torch.mul.0.forward = Torch.mul.0.forward (exact)",
              "Torch.add.2.forward = Torch.add.1.forward (aligned)",
              "Torch.add.3.forward = Torch.add.2.forward (aligned)"});
}

TEST_CASE("match: of calls of equal shapes those are paired whose tensors need gradients alike") {
  const auto needs = [](const char* gradient) {
    return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "requires_grad": )" +
           std::string(gradient) + "}";
  };
  const std::string both = record("Torch.mul.0.forward", needs("false")) + ", " +
                           record("Torch.mul.1.forward", needs("true")) + ", ";
  const std::string end = record("Torch.sum.0.forward", needs("false"));
  const Trace target = trace_of(both + end);
  const Trace reference = trace_of(both + record("Torch.mul.2.forward", needs("false")) + ", " + end);
  CHECK(told(target, reference, match(target, reference)) ==
        Lines{"Torch.mul.0.forward = Torch.mul.0.forward (exact)",
              "Torch.mul.1.forward = Torch.mul.1.forward (exact)",
              "Torch.sum.0.forward = Torch.sum.0.forward (exact)", "only Torch.mul.2.forward"});
}

TEST_CASE("match: of calls of equal shapes those are paired that are given the same number") {
  const auto add = [](int count, const char* alpha) {
    return "\"Tensor.add_." + std::to_string(count) + R"(.forward": {"input_args": [)" +
           leaf("[2]", "torch.float32") + R"(], "input_kwargs": {"alpha": {"type": "float", "value": )" +
           alpha + R"(}}, "output": [)" + leaf("[2]", "torch.float32") + "]}";
  };
  const Trace target = trace_of(add(0, "0.08"));
  const Trace reference = trace_of(add(0, "0.02") + ", " + add(1, "0.08"));
  CHECK(told(target, reference, match(target, reference)) ==
        Lines{"Tensor.add_.0.forward = Tensor.add_.1.forward (aligned)", "only Tensor.add_.0.forward"});
}

TEST_CASE("match: the arguments of a product are paired crosswise where one of them stands there") {
  const auto mul = [](double first, double second) {
    const auto one = [](double size) {
      const std::string number = std::to_string(size);
      return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": )" + number +
             R"(, "Min": -)" + number + R"(, "Norm": )" + number + "}";
    };
    return trace_of(R"("Torch.mul.0.forward": {"input_args": [)" + one(first) + ", " + one(second) +
                    R"(], "output": [)" + one(1) + "]}");
  };
  const auto is_crossed = [&](double a, double b, double x, double y) {
    const Trace target = mul(a, b), reference = mul(x, y);
    const auto items = match_items(target, reference, match(target, reference));
    return items.pairs.front().target != items.pairs.front().reference.index;
  };
  CHECK_FALSE(is_crossed(1, 5000, 1, 5001));
  CHECK(is_crossed(5000, 1, 1, 5001));
  CHECK(is_crossed(5000, 1, 1, 8000));  // a small divisor stands behind it
  CHECK_FALSE(is_crossed(1, 8000, 1, 5000));
  CHECK_FALSE(is_crossed(5000, 5000, 1, 5000));  // another argument
}

TEST_CASE("match: a backward record follows its forward record") {
  const std::string tensor = leaf("[2]", "torch.float32");
  const Trace target =
      trace_of(record("Torch.add.0.forward", leaf("[9]", "torch.float32")) + ", " +
               record("Torch.add.1.forward", tensor) + ", " + record("Torch.add.1.backward", tensor) + ", " +
               record("Torch.add.0.backward", tensor));
  const Trace reference =
      trace_of(record("Torch.add.0.forward", tensor) + ", " + record("Torch.add.0.backward", tensor));
  CHECK(told(target, reference, match(target, reference)) ==
        Lines{"Torch.add.0.forward (none)", "Torch.add.1.forward = Torch.add.0.forward (aligned)",
              "Torch.add.1.backward = Torch.add.0.backward (aligned)", "Torch.add.0.backward (none)"});
}

TEST_CASE("match: calls are aligned within the call of their module") {
  const TempDir dir;
  const std::string tensor = leaf("[2]", "torch.float32");
  const auto run = [&](bool extra) {
    std::string text = record("Torch.add.0.forward", tensor);
    if (extra) text += ", " + record("Torch.add.1.forward", tensor);
    text += ", " + record(extra ? "Torch.add.2.forward" : "Torch.add.1.forward", tensor);
    return trace_of(text);
  };
  const Trace target = run(true), reference = run(false);
  const Construct target_construct = construct_of(
      dir, R"({"Torch.add.0.forward": "Module.a.A.forward.0", "Torch.add.1.forward": "Module.a.A.forward.0",
                            "Torch.add.2.forward": "Module.b.B.forward.0"})");
  const Construct reference_construct = construct_of(
      dir,
      R"({"Torch.add.0.forward": "Module.a.A.forward.0", "Torch.add.1.forward": "Module.b.C.forward.0"})");
  CHECK(told(target, reference, match_records(target, &target_construct, reference, &reference_construct)) ==
        Lines{"Torch.add.0.forward = Torch.add.0.forward (exact)", "Torch.add.1.forward (none)",
              "Torch.add.2.forward = Torch.add.1.forward (aligned)"});
}

TEST_CASE("match: a call that ran in another module is found by its name") {
  const TempDir dir;
  const Trace trace = run_of({{"Torch.add"}});
  const Construct in_a = construct_of(dir, R"({"Torch.add.0.forward": "Module.a.A.forward.0"})");
  const Construct in_b = construct_of(dir, R"({"Torch.add.0.forward": "Module.b.B.forward.0"})");
  CHECK(told(trace, trace, match_records(trace, &in_a, trace, &in_b)) ==
        Lines{"Torch.add.0.forward = Torch.add.0.forward (moved)"});
}

TEST_CASE("match: modules by name, then without their class") {
  const std::string tensor = leaf("[2]", "torch.float32");
  const Trace target = trace_of(record("Module.a.Linear.forward.0", tensor) + ", " +
                                record("Module.a.Linear.forward.1", tensor));
  const Trace reference = trace_of(record("Module.a.FusedLinear.forward.1", tensor) + ", " +
                                   record("Module.a.Linear.forward.0", tensor));
  CHECK(told(target, reference, match(target, reference)) ==
        Lines{"Module.a.Linear.forward.0 = Module.a.Linear.forward.0 (exact)",
              "Module.a.Linear.forward.1 = Module.a.FusedLinear.forward.1 (fuzzy)"});
}

// A run of layers that all call one module, "rot", or do not: its dump and its construct.json.
struct SharedRun {
  Trace trace;
  Construct construct;
};

SharedRun shared_run(const TempDir& dir, const std::vector<std::pair<std::string, bool>>& layers,
                     const std::string& around = "") {
  const std::string tensor = leaf("[2]", "torch.float32");
  std::string records, places;
  int calls = 0;
  const auto add = [&](const std::string& name, const std::string& parent) {
    if (!records.empty()) records += ", ", places += ", ";
    records += record(name, tensor);
    places += '"' + name + "\": " + (parent.empty() ? "null" : '"' + parent + '"');
  };
  for (const auto& [layer, calls_rot] : layers) {
    add(layer, around);
    if (!calls_rot) continue;
    const std::string count = std::to_string(calls++), rot = "Module.rot.Rot.forward." + count;
    add(rot, layer);
    add("Torch.cos." + count + ".forward", rot);
  }
  return {trace_of(records), construct_of(dir, "{" + places + "}")};
}

// Those that are not paired by their names.
Lines told_others(const SharedRun& target, const SharedRun& reference) {
  Lines lines = told(target.trace, reference.trace,
                     match_records(target.trace, &target.construct, reference.trace, &reference.construct));
  std::erase_if(lines, [](const std::string& line) { return line.ends_with("(exact)"); });
  return lines;
}

TEST_CASE("match: a call that only one run makes of a module with several places is alone where it is") {
  const TempDir dir;
  const auto run = [&dir](bool in_second) {
    return shared_run(dir, {{"Module.a.A.forward.0", true},
                            {"Module.b.A.forward.0", in_second},
                            {"Module.c.A.forward.0", true},
                            {"Module.d.A.forward.0", true}});
  };
  const SharedRun all = run(true), fewer = run(false);
  CHECK(told_others(fewer, all) == Lines{"Module.rot.Rot.forward.1 = Module.rot.Rot.forward.2 (aligned)",
                                         "Torch.cos.1.forward = Torch.cos.2.forward (aligned)",
                                         "Module.rot.Rot.forward.2 = Module.rot.Rot.forward.3 (aligned)",
                                         "Torch.cos.2.forward = Torch.cos.3.forward (aligned)",
                                         "only Module.rot.Rot.forward.1", "only Torch.cos.1.forward"});
  CHECK(told_others(all, fewer) == Lines{"Module.rot.Rot.forward.1 (none)", "Torch.cos.1.forward (none)",
                                         "Module.rot.Rot.forward.2 = Module.rot.Rot.forward.1 (aligned)",
                                         "Torch.cos.2.forward = Torch.cos.1.forward (aligned)",
                                         "Module.rot.Rot.forward.3 = Module.rot.Rot.forward.2 (aligned)",
                                         "Torch.cos.3.forward = Torch.cos.2.forward (aligned)"});
}

TEST_CASE("match: of the calls of a module those are paired that are given the same words") {
  const TempDir dir;
  const auto run = [&](const std::vector<std::string>& words) {
    std::string calls, around;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string count = std::to_string(i), tensor = leaf("[2]", "torch.float32");
      const std::string word = R"({"type": "str", "value": ")" + words[i] + "\"}";
      if (i > 0) calls += ", ";
      calls += record("Torch.cos." + count + ".forward", tensor) + ", " +
               record("Module.rot.Rot.forward." + count, tensor + ", " + word);
      around += (i > 0 ? ", " : "") + ("\"Module.rot.Rot.forward." + count) + R"(": null, "Torch.cos.)" +
                count + R"(.forward": "Module.rot.Rot.forward.)" + count + '"';
    }
    return SharedRun{trace_of(calls), construct_of(dir, "{" + around + "}")};
  };
  const Lines turned = {"Torch.cos.0.forward = Torch.cos.1.forward (aligned)",
                        "Module.rot.Rot.forward.0 = Module.rot.Rot.forward.1 (aligned)",
                        "Torch.cos.1.forward = Torch.cos.0.forward (aligned)",
                        "Module.rot.Rot.forward.1 = Module.rot.Rot.forward.0 (aligned)"};
  CHECK(told_others(run({"full", "near"}), run({"near", "full"})) == turned);
  CHECK(told_others(run({"full", "near"}), run({"full", "far"})).empty());
}

TEST_CASE("match: a module that one run calls at one place and the other at another is not paired") {
  const TempDir dir;
  const auto run = [&dir](bool in_first) {
    return shared_run(dir, {{"Module.a.A.forward.0", in_first}, {"Module.b.A.forward.0", !in_first}});
  };
  const SharedRun target = run(true), reference = run(false);
  const Lines lines = told_others(target, reference);
  CHECK(lines.front() == "Module.rot.Rot.forward.0 (none)");
  CHECK(std::find(lines.begin(), lines.end(), "only Module.rot.Rot.forward.0") != lines.end());
}

TEST_CASE("match: a layer that one of several micro steps leaves out is alone in that step") {
  const TempDir dir;
  const SharedRun reference = shared_run(dir, {{"Module.a.A.forward.0", false},
                                               {"Module.b.B.forward.0", false},
                                               {"Module.c.C.forward.0", false},
                                               {"Module.a.A.forward.1", false},
                                               {"Module.b.B.forward.1", false},
                                               {"Module.c.C.forward.1", false}});
  const SharedRun target = shared_run(dir, {{"Module.a.A.forward.0", false},
                                            {"Module.c.C.forward.0", false},
                                            {"Module.a.A.forward.1", false},
                                            {"Module.b.B.forward.0", false},
                                            {"Module.c.C.forward.1", false}});
  CHECK(told_others(target, reference) ==
        Lines{"Module.b.B.forward.0 = Module.b.B.forward.1 (aligned)", "only Module.b.B.forward.0"});
}

TEST_CASE("match: modules in another order, below another module, or inside of each other keep their pairs") {
  const TempDir dir;
  const std::vector<std::pair<std::string, bool>> layers = {
      {"Module.a.A.forward.0", true}, {"Module.b.A.forward.0", false}, {"Module.a.A.forward.1", true}};
  const SharedRun plain = shared_run(dir, layers), below = shared_run(dir, layers, "Module.w.W.forward.0");
  CHECK(told_others(below, plain).empty());
  CHECK(told_others(plain, below).empty());
  const SharedRun other_order = shared_run(dir, {layers[1], layers[0], layers[2]});
  CHECK(told_others(plain, other_order).empty());
  const SharedRun inside_itself = shared_run(dir, layers, "Module.a.A.forward.0");
  CHECK(told_others(inside_itself, inside_itself).empty());
  CHECK(told_others(inside_itself, plain).empty());
}

TEST_CASE("match: different operators are never paired, each at most once, and equal runs exactly") {
  std::mt19937 random(7);
  const auto random_run = [&random] {
    static const char* const kNames[] = {"Torch.add", "Torch.mul", "Functional.linear", "Tensor.__add__"};
    std::vector<Call> calls(random() % 30);
    for (Call& call : calls) call = {kNames[random() % 4], random() % 2 == 0 ? "[2]" : "[3, 4]"};
    return run_of(calls);
  };
  for (int round = 0; round < 300; ++round) {
    const Trace target = random_run(), reference = random_run();
    const RecordMatches matches = match(target, reference);
    const Lines lines = told(target, reference, matches);  // checks that both sides say the same
    for (std::size_t i = 0; i < matches.of_target.size(); ++i) {
      if (!matches.of_target[i]) continue;
      REQUIRE(operator_of(target.name(target.records()[i])) ==
              operator_of(reference.name(reference.records()[matches.of_target[i].index])));
    }
    const RecordMatches own = match(target, target);
    for (const Match& one : own.of_target) REQUIRE(one.how == MatchKind::kExact);
  }
}

// ---- items

namespace {

std::vector<std::string> item_lines(const Trace& target, const Trace& reference, const ItemMatches& matches) {
  std::vector<std::string> lines;
  const auto name = [](const Trace& trace, std::uint32_t record, ItemIndex item) {
    std::string text;
    append_item_name(text, trace, trace.records()[record], trace.all_items()[item]);
    return text;
  };
  for (const ItemPair& pair : matches.pairs) {
    std::string line = name(target, pair.target_record, pair.target);
    if (pair.reference) {
      line += " = " + name(reference, pair.reference_record, pair.reference.index) + " (" +
              std::string(match_name(pair.reference.how)) + ")";
      REQUIRE(pair.reason == NoMatchReason::kMatched);
    } else {
      line += " - " + std::to_string(static_cast<int>(pair.reason));
    }
    lines.push_back(line);
  }
  for (const ReferenceItem& alone : matches.reference_only) {
    lines.push_back("only " + name(reference, alone.record, alone.item));
  }
  return lines;
}

Trace one(const std::string& shape, const std::string& dtype) {
  return trace_of(record("Torch.add.0.forward", leaf(shape, dtype)));
}

}  // namespace

TEST_CASE("match: items of another shape or of a dtype that is not compared stay alone, with the reason") {
  const Trace target = one("[2]", "torch.float32");
  const auto against = [&target](const char* shape, const char* dtype) {
    const Trace reference = one(shape, dtype);
    return item_lines(target, reference, match_items(target, reference, match(target, reference))).front();
  };
  const std::string input = "Torch.add.0.forward.input.0";
  CHECK(against("[2]", "torch.float32") == input + " = " + input + " (exact)");
  CHECK(against("[2]", "torch.bfloat16") == input + " = " + input + " (exact)");
  CHECK(against("[2]", "torch.float16") == input + " = " + input + " (exact)");
  CHECK(against("[2]", "torch.float64") == input + " - " + std::to_string(int(NoMatchReason::kDtype)));
  CHECK(against("[3]", "torch.float32") == input + " - " + std::to_string(int(NoMatchReason::kShape)));
  const Trace null = trace_of(record("Torch.add.0.forward", "null"));
  CHECK(item_lines(target, null, match_items(target, null, match(target, null))).front() ==
        input + " - " + std::to_string(int(NoMatchReason::kNoItem)));
  const Trace none = trace_of("");
  CHECK(item_lines(target, none, match_items(target, none, match(target, none))).front() ==
        input + " - " + std::to_string(int(NoMatchReason::kNoRecord)));
}

TEST_CASE("match: the arguments of a sum or a product may stand in any order") {
  const auto of_size = [](const char* shape, const char* norm) {
    return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": )" + std::string(shape) +
           R"(, "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": )" + norm + "}";
  };
  // The places in the reference of the arguments of the target.
  const auto places = [&](const std::string& name, const std::string& a, const std::string& b) {
    const auto run = [&](const std::string& first, const std::string& second) {
      return trace_of('"' + name + R"(": {"input_args": [)" + first + ", " + second + R"(], "output": []})");
    };
    const Trace target = run(b, a), reference = run(a, b);
    const ItemMatches items = match_items(target, reference, match(target, reference));
    return std::pair(items.pairs[0].reference.index, items.pairs[1].reference.index);
  };
  const std::string row = of_size("[1, 4]", "2.0"), all = of_size("[3, 4]", "6.0"),
                    more = of_size("[3, 4]", "7.0");
  CHECK(places("Tensor.__add__.0.forward", row, all) == std::pair(1U, 0U));
  CHECK(places("Torch.mul.0.forward", all, more) == std::pair(1U, 0U));
  CHECK(places("Tensor.__sub__.0.forward", all, more) == std::pair(0U, 1U));
  CHECK(places("Tensor.add_.0.forward", all, more) == std::pair(0U, 1U));  // writes into the first
}

TEST_CASE("match: the same in threads, for more records than one takes at once") {
  std::vector<Call> calls, others;
  for (std::size_t i = 0; i < 9000; ++i) {
    const Call call{.name = "Torch.add", .shape = "[" + std::to_string(i % 7) + "]"};
    if (i % 1000 != 3) calls.push_back(call);
    if (i % 1000 != 500) others.push_back(call);
  }
  const Trace target = run_of(calls), reference = run_of(others);
  msprobe::ThreadPool pool(3);
  const RecordMatches records = match_records(target, nullptr, reference, nullptr, &pool);
  CHECK(told(target, reference, records) == told(target, reference, match(target, reference)));
  const ItemMatches items = match_items(target, reference, records, &pool);
  CHECK(items.pairs.size() == 2 * calls.size());
  CHECK(item_lines(target, reference, items) ==
        item_lines(target, reference, match_items(target, reference, records)));
}

TEST_CASE("match: fuzzy pairs skip counts and classes, in order, and never pair other shapes") {
  const Trace target = run_of({{"Torch.add", "[1]"}, {"Torch.mul", "[2]"}, {"Torch.add", "[3]"}});
  const Trace reference = run_of({{"Torch.mul", "[2]"}, {"Torch.add", "[3]"}, {"Torch.add", "[9]"}});
  CHECK(item_lines(target, reference, match_items_fuzzy(target, reference)) ==
        Lines{"Torch.add.0.forward.input.0 - 1", "Torch.add.0.forward.output.0 - 1",
              "Torch.mul.0.forward.input.0 = Torch.mul.0.forward.input.0 (exact)",
              "Torch.mul.0.forward.output.0 = Torch.mul.0.forward.output.0 (exact)",
              "Torch.add.1.forward.input.0 = Torch.add.0.forward.input.0 (fuzzy)",
              "Torch.add.1.forward.output.0 = Torch.add.0.forward.output.0 (fuzzy)",
              "only Torch.add.1.forward.input.0", "only Torch.add.1.forward.output.0"});
}

TEST_CASE("match: fuzzy pairs rise on both sides") {
  std::mt19937 random(9);
  const auto random_run = [&random] {
    std::vector<Call> calls(random() % 20);
    for (Call& call : calls)
      call = {random() % 2 == 0 ? "Torch.add" : "Torch.mul", random() % 2 == 0 ? "[2]" : "[3]"};
    return run_of(calls);
  };
  for (int round = 0; round < 300; ++round) {
    const Trace target = random_run(), reference = random_run();
    const ItemMatches matches = match_items_fuzzy(target, reference);
    std::size_t paired = 0;
    ItemIndex last = 0;
    for (const ItemPair& pair : matches.pairs) {
      if (!pair.reference) continue;
      const Item& a = target.all_items()[pair.target];
      const Item& b = reference.all_items()[pair.reference.index];
      REQUIRE(target.text(a.shape) == reference.text(b.shape));
      REQUIRE(operator_of(target.name(target.records()[pair.target_record])) ==
              operator_of(reference.name(reference.records()[pair.reference_record])));
      REQUIRE((paired++ == 0 || pair.reference.index > last));
      last = pair.reference.index;
    }
    REQUIRE(matches.pairs.size() == target.all_items().size());
    REQUIRE(paired + matches.reference_only.size() == reference.all_items().size());
  }
}

TEST_CASE("match: a mapping pairs by names, whatever the shapes") {
  const Trace target = run_of({{"Torch.add", "[1]"}, {"Torch.mul", "[2]"}});
  const Trace reference = run_of({{"Torch.sub", "[9]"}, {"Torch.mul", "[2]"}});
  CHECK(item_lines(target, reference,
                   match_items_mapped(target, reference,
                                      {{"Torch.add.0.forward.input.0", "Torch.sub.0.forward.output.0"}})) ==
        Lines{"Torch.add.0.forward.input.0 = Torch.sub.0.forward.output.0 (mapped)",
              "Torch.add.0.forward.output.0 - 1",
              "Torch.mul.0.forward.input.0 = Torch.mul.0.forward.input.0 (exact)",
              "Torch.mul.0.forward.output.0 = Torch.mul.0.forward.output.0 (exact)",
              "only Torch.sub.0.forward.input.0"});
}

TEST_CASE("match: names without count or class") {
  const auto without = [](std::string_view name) {
    std::string text;
    append_without_count(text, name);
    return text;
  };
  CHECK(without("Module.a.Linear.backward.2") == "Module.a.backward.2");
  CHECK(without("Module.a.Linear.parameters_grad") == "Module.a.parameters_grad");
  CHECK(without("x.0.debug") == "x.0.debug");
  CHECK(without("") == "");
  CHECK(without(".forward") == ".forward");
}
