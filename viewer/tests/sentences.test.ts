// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// sentences.json has an example of every sentence that the server or a file says, by the source that says it:
// tests/python/viewer/test_viewer_sentences.py sees that none is missing, and here each one must have its Chinese.
import { describe, expect, it } from "vitest";
import { inChinese } from "../src/chinese_sentences";
import sentences from "./sentences.json";

const isChinese = (text: string): boolean => /\p{Script=Han}/u.test(text);
/** What is left of English: two words in a row, but for the commands. */
const english = (text: string): string[] => text.replace(/msprobe \w+( --\w+)?/g, "").match(/[A-Za-z]{2,} [A-Za-z]{2,}/g) ?? [];

describe.each(Object.entries(sentences))("what %s says", (_, examples) => {
  it.each(examples)("%s", (example) => {
    const chinese = inChinese(example);
    expect(isChinese(chinese), chinese).toBe(true);
    expect(english(chinese), chinese).toEqual([]);
  });
});

describe("the sources of the page", () => {
  const sources = import.meta.glob<string>("../src/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });
  const refused = Object.values(sources).flatMap((text) => [...text.matchAll(/(?:new Refused|said)\((?:[^()`"]*\?\? )?["`]([^"`]+)["`]\)/g)].map((found) => found[1]!));

  it("refuse with these sentences only", () => {
    const beginnings = refused.map((text) => text.split("${")[0]!);
    expect(beginnings.length).toBeGreaterThan(3);
    for (const beginning of beginnings) expect(sentences["viewer/src"].some((one) => one.startsWith(beginning)), beginning).toBe(true);
  });
});
