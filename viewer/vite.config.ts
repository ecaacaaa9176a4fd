// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Builds the pages into the Python package, without a hash in their names, so that the same source gives the same files.
// The viewer (graphs and records of the monitor): three files. The worker is part of app.js: one page must also work as
// one file (msprobe view --export). --mode report: the pages of results, a script and a style that stand inside of each.
import { defineConfig } from "vite";

const mit =
  "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation " +
  'files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, ' +
  "modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software " +
  "is furnished to do so, subject to the following conditions: The above copyright notice and this permission notice shall be " +
  'included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, ' +
  "EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND " +
  "NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER " +
  "IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS " +
  "IN THE SOFTWARE.";
// The licences of what is bundled ask for this.
const banner =
  "/*! The page of msprobe view. Copyright 2026 The msprobe authors, Apache-2.0. Contains, under the MIT licence: " +
  "Preact, Copyright (c) 2015-present Jason Miller; Preact Signals, Copyright (c) 2022-present Preact Team; " +
  `TanStack Virtual, Copyright (c) 2021-present Tanner Linsley. ${mit} */`;

const report = {
  outDir: "../python/msprobe/files/report",
  emptyOutDir: true,
  target: "es2022",
  lib: { entry: "src/report/main.js", formats: ["iife" as const], name: "report", fileName: () => "report.js", cssFileName: "report" },
};

const viewer = defineConfig({
  plugins: [
    {
      name: "licences",
      generateBundle(_, bundle) {
        for (const part of Object.values(bundle)) if (part.type === "chunk") part.code = `${banner}\n${part.code}`;
      },
    },
  ],
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../python/msprobe/viewer/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app.[ext]", format: "es" },
    },
  },
});

export default defineConfig(({ mode }) => (mode === "report" ? { build: report } : viewer));
