// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { fromFragment, toFragment } from "../src/address";
import { inChinese } from "../src/chinese_sentences";
import { boundsOf, classOf, contrast, isOnlyRounding, palette, softOn, textOn } from "../src/colours";
import { EmbeddedSource, type Content } from "../src/embedded";
import { marksOf } from "../src/marks";
import { cellNumber, label, short } from "../src/names";
import { ownColoursKey, readOwnColours } from "../src/own_colours";
import { notesOf, ownKey } from "../src/own_data";
import { suspicious } from "../src/suspicious";
import { columnsOf, csv, difference, sorted, tabbed } from "../src/tensors";
import { Tree } from "../src/tree";
import type { ChildList, Info, NodeRow, OverviewCell, Side, TensorRow, TreeAnswer } from "../src/types";
import { dictionaries, say } from "../src/words";

const node = (side: Side, name: string, more: Partial<NodeRow> = {}): NodeRow => ({
  side, name, pos: 0, depth: 1, kind: 1, children: 0, micro: 0, index: null, overflow: 0, peer: null, peerPos: null, how: null,
  links: 0, merged: 0, ulps: null, value: null, class: 0, ...more,
});

describe("words", () => {
  it("are complete in both languages, with the same gaps", () => {
    const gaps = (text: string): number => text.split("{}").length;
    expect(Object.keys(dictionaries.zh).sort()).toEqual(Object.keys(dictionaries.en).sort());
    for (const [word, text] of Object.entries(dictionaries.en)) {
      expect(gaps(dictionaries.zh[word as keyof typeof dictionaries.zh]), word).toBe(gaps(text));
    }
  });
});

describe("a word with a gap", () => {
  it("takes names as they are", () => {
    expect(say("en", "notHere", "$&$1.vis.db")).toBe("There is no file $&$1.vis.db here.");
  });
});

describe("colours", () => {
  const info = { colours: ["#FFFCF3", "#FFEDBE", "#FFDC7F", "#FFC62E", "#FF704D"], unmatchedColour: "#C7C7C7" } as Info;
  it.each(["index", "difference", "overflow", "kind"].flatMap((by) => [true, false].map((dark) => [by, dark] as const)))(
    "of %s (dark: %s) are readable",
    (by, dark) => {
      const all = palette(info, by, by === "overflow" || by === "kind" ? 4 : 5, dark);
      for (const fill of [...all.classes, all.unmatched, all.none]) {
        expect(contrast(textOn(fill), fill), fill).toBeGreaterThan(4.5);
        expect(contrast(softOn(fill), fill), fill).toBeGreaterThan(4.45); // rounded to whole channels
      }
    },
  );
});

describe("the limits of the classes of a file", () => {
  it("are those between its intervals", () => {
    expect(boundsOf([[0, 0.2], [0.2, 0.8], [0.8, 1]])).toEqual([0.2, 0.8]);
    expect([boundsOf([[1, 1], [0, 0]]), boundsOf([])]).toEqual([[], []]);
  });
});

describe("a graph in the heat map", () => {
  const info = { rounding: 64, intervals: [[0, 0.2], [0.2, 0.8], [0.8, 1]] } as unknown as Info;
  const cell = (worst: OverviewCell["worst"], ulps: OverviewCell["ulps"]): OverviewCell => ({ step: 0, rank: 0, nodes: 1, unmatched: 0, worst, overflow: 0, counts: [], ulps });

  it("has the class of its worst index", () => {
    expect([0, 0.2, 0.8, 1, null].map((worst) => classOf(info, worst))).toEqual([0, 1, 2, 2, -1]);
  });

  it("is no alarm where all differences are rounding", () => {
    expect([cell(1, 64), cell(1, 65), cell(1, "inf"), cell(1, null), cell(null, 0)].map((one) => isOnlyRounding(info, one))).toEqual([true, false, false, false, false]);
  });
});

describe("marks", () => {
  it("say what is on one side only, whatever the class", () => {
    const alone = (side: Side, compare: boolean, more: Partial<NodeRow> = {}) => marksOf(node(side, "a", { class: 0, ...more }), compare);
    expect([alone(0, true), alone(1, true), alone(0, false), alone(0, true, { depth: 0 })]).toEqual([["+"], ["−"], [], []]);
  });

  it("say what happened to a node", () => {
    const all = node(0, "a", { peer: "b", links: 1, merged: 2 });
    expect([marksOf({ ...all, how: "manual" }, true), marksOf({ ...all, how: "moved" }, true)]).toEqual([["⇄", "Σ", "✎"], ["⇄", "Σ", "⇅"]]);
  });
});

describe("suspicious", () => {
  const file = (compare: boolean, levels: boolean, task = "summary") => ({ compare, levels, task });

  it("is nothing in a graph without levels that is compared with nothing", () => {
    expect(["kind", "overflow", "own:a"].map((by) => suspicious(file(false, false, ""), by))).toEqual([null, null, null]);
  });

  it("is what overflows, or what differs, whatever the graph is coloured by", () => {
    expect(["kind", "overflow"].map((by) => suspicious(file(false, true, ""), by))).toEqual(["overflowing", "overflowing"]);
    expect(["index", "kind", "overflow"].map((by) => suspicious(file(true, false), by))).toEqual(["suspicious", "suspicious", "suspicious"]);
    expect(["index", "overflow"].map((by) => suspicious(file(true, true), by))).toEqual(["suspicious", "overflowing"]);
    expect(suspicious(file(true, false, "structure"), "index")).toBe("added");
  });
});

describe("own data", () => {
  it("have a key of their own", () => {
    const texts = ["{}", '{"a":1}', '{"a":2}', '{"b":1}', "x".repeat(100_000)];
    const keys = texts.map(ownKey);
    expect(new Set(keys).size).toBe(texts.length);
    expect(keys.every((key) => /^[a-z0-9]{8,16}$/.test(key))).toBe(true);
    expect(texts.map(ownKey)).toEqual(keys);
  });
});

describe("sentences in Chinese", () => {
  it.each([
    ["input 0 has the shape [2, 3] here and [2, 4] in the other run", "输入 0 的形状在本侧为 [2, 3],在另一侧为 [2, 4]"],
    ["this file has no step 1 with a rank 7", "该文件的步 1 中没有卡 7"],
    ["own data: none of its members is a number", "自有数据:没有任何一项是数值"],
    ["something nobody knows {} $&", "something nobody knows {} $&"],
  ])("%s", (english, chinese) => {
    expect(inChinese(english)).toBe(chinese);
  });
});

describe("names", () => {
  it.each([
    ["Module.layers.1.mlp.fc1.Linear.forward.0", "Module.layers.1.mlp.MLP.forward.0", ["fc1", "Linear forward 0"]],
    ["Module.layers.1.Block.forward.0", "DefaultModel", ["layers.1", "Block forward 0"]],
    ["Functional.linear.6.forward", "x", ["linear", "Functional 6 forward"]],
    ["Module.emb.Embedding.parameters_grad", "Module.emb.Embedding.backward.0", ["Embedding", "parameters_grad"]],
    ["optimizer", "DefaultModel", ["optimizer", ""]],
    ["DefaultModel", "", ["model", ""]],
    ["Apis_Between_Modules.0", "DefaultModel", ["between modules 0", ""]],
    ["Apis_Between_Modules_Rank1.0", "DefaultModel", ["between modules 0", "rank1"]],
  ])("%s", (name, parent, expected) => {
    expect(label(name, parent)).toEqual(expected);
    expect(label("DefaultModel", "", "GPT")).toEqual(["GPT", ""]);
  });

  it("shortens numbers", () => {
    expect([0, 0.13731, 1, 4847700, 1e-9, Infinity].map((n) => short(n === Infinity ? "inf" : n))).toEqual(["0", "0.137", "1", "4.8e6", "1.0e-9", "∞"]);
  });

  it("reads cells", () => {
    expect([cellNumber("13.5%"), cellNumber("-inf\t"), cellNumber("1e-3")]).toEqual([0.135, -Infinity, 0.001]);
    expect([cellNumber("N/A"), cellNumber(""), cellNumber(undefined)].every(Number.isNaN)).toBe(true);
  });
});

describe("the address", () => {
  it("comes back as it went", () => {
    const place = {
      file: "a b/ö.vis.db", step: 3, rank: 0, micro: 1, side: 1 as Side, node: "<b>&#x=1;%", by: "difference", bounds: [0, 64], classes: [4, -2],
      text: "a+b&c=d", within: "regex", kind: 9, listSide: 0 as Side, only: "leaves", sort: "difference", descending: true, tab: "search", lower: "stack",
      open: [[0, "Module.x&y"], [1, "Module.only reference"]] as [Side, string][], workspace: "ab12",
    };
    expect(fromFragment(toFragment(place))).toEqual(place);
  });

  it("of somebody else does no harm", () => {
    const place = fromFragment("#s=-1&r=1e9&m=x&w=../../etc&lim=a b&c=&qs=7");
    expect([place.step, place.rank, place.micro, place.workspace, place.bounds, place.listSide]).toEqual(Array(6).fill(undefined));
  });

  it("stays short", () => {
    const open = Array.from({ length: 500 }, (_, i): [Side, string] => [0, `Module.layers.${i}.TransformerLayer.forward.0`]);
    expect(toFragment({ file: "a", open }).length).toBeLessThan(4000);
  });
});

describe("the tree", () => {
  const list = (name: string, offset: number, total: number, count: number): ChildList => ({
    side: 0, name, offset, total, nodes: Array.from({ length: count }, (_, i) => node(0, `n${offset + i}`)),
  });
  const answer = (...lists: ChildList[]): TreeAnswer => ({ roots: [node(0, "root", { children: 9 })], lists, ready: true, progress: 1 });

  it("puts pages of children together, and says what is missing", () => {
    const tree = new Tree();
    tree.take(answer(list("root", 4, 9, 2)));
    tree.expanded.add(tree.roots[0]);
    expect(tree.layoutInput()).toMatchObject({ before: { 0: 4 }, after: { 0: 3 } });
    tree.take(answer(list("root", 6, 9, 3)));
    tree.take(answer(list("root", 0, 9, 4)));
    const input = tree.layoutInput();
    expect(input.children[0]!.map((id) => tree.node(id)!.name)).toEqual(Array.from({ length: 9 }, (_, i) => `n${i}`));
    expect([input.before, input.after]).toEqual([{}, {}]);
  });
});

describe("the table of tensors", () => {
  const words = { tensor: "Tensor", distance: "Distance", dtype: "dtype", shape: "Shape", target: "Target", reference: "Reference", value: "value", name: "Name", kind: "Kind" };
  const row = (name: string, max: string, reference: string, ulps: TensorRow["ulps"]): TensorRow => ({
    group: "input", name: `x.${name}`, peer: `y.${name}`, target: { Max: max, dtype: "torch.float32" }, reference: { Max: reference, dtype: "torch.float16" }, ulps,
  });
  const rows = [row("input.0", "2", "1", "inf"), row("input.1", "nan", "1", null), row("input.2", "3.5", "3", 7)];

  it("has reference, target and difference in one row", () => {
    const columns = columnsOf(rows, true, "x", "y", words);
    expect(columns.map((column) => column.text(rows[2]!))).toEqual(["input.2", "7", "float32 | float16", "", "3", "3.5", "0.5"]);
  });

  it("takes the difference of the file where there is one", () => {
    expect(difference({ ...rows[0]!, target: { Max: "2", "Max diff": "0.999999 " } }, "Max")).toBe("0.999999");
  });

  it("sorts what has no value to the end", () => {
    const column = columnsOf(rows, true, "x", "y", words)[1];
    expect(sorted(rows, column, true).map((one) => one.ulps)).toEqual(["inf", 7, null]);
    expect(sorted(rows, column, false).map((one) => one.ulps)).toEqual([7, "inf", null]);
  });

  it("is no program for a spreadsheet", () => {
    const evil = [{ ...row("a", "=1+1", "-2", 1), name: '=HYPERLINK("http://x","y"),\n' }];
    const text = csv(evil, columnsOf(evil, true, "x", "y", words), words);
    expect(text).toContain(`"'=HYPERLINK(""http://x"",""y""),\n"`);
    expect(text).toContain("-2,'=1+1");
  });

  it("is pasted with shapes as they are", () => {
    const shaped = [{ ...row("a", "1", "2", 1), target: { shape: "[2, 6, 16]", dtype: "a\tb" }, reference: null }];
    const [head, line, end] = tabbed(shaped, columnsOf(shaped, true, "x", "y", words), words).split("\n").map((one) => one.split("\t"));
    expect(line).toContain("[2, 6, 16]");
    expect(line).toContain("a b");
    expect(line!.length).toBe(head!.length);
    expect(end).toEqual([""]);
  });
});

describe("an exported page", () => {
  const root = { ...node(0, "root", { pos: 2, depth: 0, kind: 0, children: 1 }), parent: null };
  const inner = { ...node(0, "m", { pos: 1, depth: 1, kind: 0, children: 1, peer: "m", peerPos: 1 }), parent: 2 };
  const leaf = { ...node(0, "leaf", { pos: 0, depth: 2, ulps: "inf" }), parent: 1 };
  const other = [{ ...root, side: 1 as Side }, { ...inner, side: 1 as Side }];
  const content = {
    file: "a", info: { rounding: 64 }, nodes: [root, inner, leaf, ...other], scales: { index: [0, 0, 1, 0, 0].map((c) => [c, c, null]) }, details: {}, findings: [], overview: {}, communication: {},
  } as unknown as Content;
  const source = new EmbeddedSource(content);

  it("opens the way to a node, parents first, and what is around it on the other side", async () => {
    const answer = await source.ask<TreeAnswer>("tree", { reveal: [0, "leaf"] });
    expect(answer.revealed).toEqual([{ side: 0, path: ["root", "m", "leaf"] }, { side: 1, path: ["root", "m"] }]);
    const depth = (one: ChildList): number => content.nodes.find((n) => n.name === one.name)!.depth;
    expect(answer.lists.map(depth)).toEqual([...answer.lists.map(depth)].sort());
  });

  it("searches, filters and steps", async () => {
    expect(await source.ask("list", { text: "L.*f", within: "regex" })).toMatchObject({ total: 1, nodes: [{ name: "leaf" }] });
    expect(await source.ask("list", { classes: [1] })).toMatchObject({ total: 1 });
    expect(await source.ask("next", { only: "suspicious" })).toMatchObject({ node: { name: "leaf" } });
    expect(await source.ask("next", { only: "added" })).toMatchObject({ node: { name: "leaf" } });
    expect(await source.ask("next", { only: "overflowing" })).toMatchObject({ node: null });
    await expect(source.ask("list", { text: "(", within: "regex" })).rejects.toThrow();
    await expect(source.ask("match", {})).rejects.toThrow();
  });
});

describe("own colours", () => {
  it("are kept by colouring and theme, and only what is one", () => {
    const kept = { "index light": ["#ffffff", "#ff0000"], "kind dark": ["red"], "index dark": [], overflow: 5 };
    expect(readOwnColours(JSON.stringify(kept))).toEqual({ "index light": ["#ffffff", "#ff0000"] });
    expect(["", "null", "[1", "5"].map(readOwnColours)).toEqual([{}, {}, {}, {}]);
    expect(readOwnColours(null)).toEqual({});
    expect(ownColoursKey("index", true)).toBe("index dark");
  });
});

describe("notes", () => {
  it("are the texts of own data, of two files both", () => {
    const own = (data: unknown) => ({ key: "k", name: "n", bounds: null, data });
    const notes = notesOf([own({ a: "first", b: 5, c: " ", d: ["x"] }), own({ a: "second" }), own("text"), own(["text"]), own(null)]);
    expect([...notes]).toEqual([["a", "first · second"]]);
    expect(notesOf([own({ a: "x".repeat(900) })]).get("a")!.length).toBe(500);
    expect(marksOf(node(0, "a"), true, notes)).toContain("※");
    expect(marksOf(node(0, "b"), true, notes)).not.toContain("※");
  });
});
