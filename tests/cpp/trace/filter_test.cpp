// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "catch.h"
#include "msprobe/error.h"
#include "msprobe/event_log.h"
#include "msprobe/trace.h"

using msprobe::InvalidArgument;
using msprobe::trace::Filter;

namespace {

constexpr const char* kOuter = "Module.blocks.0.Block.forward.0";
constexpr const char* kAttention = "Module.blocks.0.attn.Attention.forward.0";
constexpr const char* kNorm = "Module.blocks.0.norm.LayerNorm.forward.0";

}  // namespace

TEST_CASE("filter: without list and scope everything is kept") {
  Filter filter;
  CHECK(filter.keeps_all());
  CHECK(filter.keeps_api("Torch.add.0.forward"));
  filter.open_module(kOuter);
  CHECK(filter.close_module(kOuter));
  CHECK(filter.keeps("anything"));
}

TEST_CASE("filter: list keeps names that contain an entry") {
  Filter filter({"relu", "Torch.add.1"}, {});
  CHECK_FALSE(filter.keeps_all());
  CHECK(filter.keeps_api("Functional.relu.0.forward"));
  CHECK(filter.keeps_api("Functional.leaky_relu.0.backward"));
  CHECK(filter.keeps_api("Torch.add.1.forward"));
  CHECK(filter.keeps_api("Torch.add.12.forward"));
  CHECK_FALSE(filter.keeps_api("Torch.add.0.forward"));
  CHECK_FALSE(filter.keeps("Functional.linear.0.forward"));
}

TEST_CASE("filter: a module that list names keeps everything inside it") {
  Filter filter({"blocks.0.attn"}, {});
  filter.open_module(kOuter);
  CHECK_FALSE(filter.keeps_api("Functional.layer_norm.0.forward"));
  filter.open_module(kAttention);
  CHECK(filter.keeps_api("Functional.linear.0.forward"));
  filter.open_module("Module.blocks.0.drop.Dropout.forward.0");
  CHECK(filter.close_module("Module.blocks.0.drop.Dropout.forward.0"));
  CHECK(filter.keeps_api("Functional.linear.1.forward"));
  CHECK(filter.close_module(kAttention));
  CHECK_FALSE(filter.keeps_api("Functional.linear.2.forward"));
  CHECK_FALSE(filter.close_module(kOuter));
}

TEST_CASE("filter: of nested modules that list names the outermost ends it") {
  Filter filter({"blocks.0"}, {});
  filter.open_module(kOuter);
  filter.open_module(kAttention);
  CHECK(filter.close_module(kAttention));
  CHECK(filter.keeps_api("Torch.add.0.forward"));
  CHECK(filter.close_module(kOuter));
  CHECK_FALSE(filter.keeps_api("Torch.add.1.forward"));
}

TEST_CASE("filter: a module that calls itself ends with its outer call") {
  Filter filter({"rec"}, {});
  filter.open_module("Module.rec.R.forward.0");
  filter.open_module("Module.rec.R.forward.1");
  CHECK(filter.close_module("Module.rec.R.forward.1"));
  CHECK(filter.keeps_api("Torch.add.0.forward"));
  CHECK(filter.close_module("Module.rec.R.forward.0"));
  CHECK_FALSE(filter.keeps_api("Torch.add.1.forward"));
}

TEST_CASE("filter: scope of APIs includes both ends") {
  Filter filter({}, {"Torch.b.0.forward", "Torch.d.0.forward"});
  CHECK_FALSE(filter.keeps_api("Torch.a.0.forward"));
  CHECK(filter.keeps_api("Torch.b.0.forward"));
  CHECK(filter.keeps_api("Torch.c.0.forward"));
  CHECK(filter.keeps("Torch.c.0.backward"));
  CHECK(filter.keeps_api("Torch.d.0.forward"));
  CHECK_FALSE(filter.keeps_api("Torch.e.0.forward"));
  CHECK_FALSE(filter.keeps("Torch.c.0.backward"));
}

TEST_CASE("filter: a scope of one API keeps that one") {
  Filter filter({}, {"Torch.b.0.forward", "Torch.b.0.forward"});
  CHECK_FALSE(filter.keeps_api("Torch.a.0.forward"));
  CHECK(filter.keeps_api("Torch.b.0.forward"));
  CHECK_FALSE(filter.keeps_api("Torch.c.0.forward"));
}

TEST_CASE("filter: keeps() does not move the scope") {
  Filter filter({}, {"Torch.b.0.forward", "Torch.d.0.forward"});
  CHECK_FALSE(filter.keeps("Torch.b.0.forward"));
  CHECK_FALSE(filter.keeps_api("Torch.c.0.forward"));
}

TEST_CASE("filter: a scope of modules runs from the start of the first to the end of the last") {
  Filter filter({}, {kAttention, kNorm});
  filter.open_module(kOuter);
  CHECK_FALSE(filter.keeps_api("Torch.add.0.forward"));
  filter.open_module(kAttention);
  CHECK(filter.keeps_api("Functional.linear.0.forward"));
  CHECK(filter.close_module(kAttention));
  CHECK(filter.keeps_api("Torch.add.1.forward"));
  filter.open_module(kNorm);
  CHECK(filter.keeps_api("Functional.layer_norm.0.forward"));
  CHECK(filter.close_module(kNorm));
  CHECK_FALSE(filter.keeps_api("Torch.add.2.forward"));
  // Open at the closing end, and finished later.
  CHECK_FALSE(filter.close_module(kOuter));
}

TEST_CASE("filter: a scope may begin with a module and end with an API") {
  Filter filter({}, {kAttention, "Functional.linear.1.forward"});
  filter.open_module(kAttention);
  CHECK(filter.keeps_api("Functional.linear.0.forward"));
  CHECK(filter.keeps_api("Functional.linear.1.forward"));
  CHECK_FALSE(filter.close_module(kAttention));
}

TEST_CASE("filter: of scope and list both must hold") {
  Filter filter({"linear"}, {"Functional.linear.1.forward", "Functional.linear.2.forward"});
  CHECK_FALSE(filter.keeps_api("Functional.linear.0.forward"));
  CHECK(filter.keeps_api("Functional.linear.1.forward"));
  CHECK_FALSE(filter.keeps_api("Functional.relu.0.forward"));
  CHECK(filter.keeps_api("Functional.linear.2.forward"));
  CHECK_FALSE(filter.keeps_api("Functional.linear.3.forward"));
}

TEST_CASE("filter: a scope has two names") {
  CHECK_THROWS_AS(Filter({}, {"Torch.a.0.forward"}), InvalidArgument);
  CHECK_THROWS_AS(Filter({}, {"a", "b", "c"}), InvalidArgument);
}
