// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";

const sources = import.meta.glob<string>("../src/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });

/** What each file imports, types too. */
function importsOf(files: Record<string, string>): Map<string, string[]> {
  const nameOf = (path: string): string => path.replace(/^.*\/|\.tsx?$/g, "");
  return new Map(
    Object.entries(files).map(([path, text]) => [nameOf(path), [...text.matchAll(/^(?:import|export)\b[^;]*?"\.\/(\w+)[?"]/gm)].map((found) => found[1]!)]),
  );
}

/** A way from a file back to itself, if there is one. */
function cycleIn(imports: Map<string, string[]>): string[] | undefined {
  const done = new Set<string>();
  const search = (name: string, way: string[]): string[] | undefined => {
    if (way.includes(name)) return [...way.slice(way.indexOf(name)), name];
    if (done.has(name)) return undefined;
    for (const next of imports.get(name) ?? []) {
      const found = search(next, [...way, name]);
      if (found) return found;
    }
    done.add(name);
    return undefined;
  };
  for (const name of imports.keys()) {
    const found = search(name, []);
    if (found) return found;
  }
  return undefined;
}

describe("the files of the page", () => {
  it("import each other one way", () => {
    const imports = importsOf(sources);
    expect(imports.get("main")).toContain("app");
    expect(imports.get("arranging")).toContain("layout_worker");
    expect(cycleIn(imports)).toBe(undefined);
  });

  it("would be caught in a circle", () => {
    const files = { "../src/a.ts": 'import { b } from "./b";', "../src/b.tsx": 'import {\n  type C,\n} from "./c";', "../src/c.ts": 'export * from "./b";' };
    expect(cycleIn(importsOf(files))).toEqual(["b", "c", "b"]);
  });
});
