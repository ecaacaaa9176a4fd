// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Builds the page into the Python package: three files without a hash in their names, so that the same source gives
// the same files. The worker is part of app.js: one page must also work as one file (msprobe view --export).
import { defineConfig } from "vite";

export default defineConfig({
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
