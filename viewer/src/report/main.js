// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// The pages of results: one build, fed JSON. `kind` says which page it is.
import "./report.css";
import * as check from "./check.js";
import * as checkpoint from "./checkpoint.js";
import * as compare from "./compare.js";
import {$, element} from "./dom.js";
import * as gradients from "./gradients.js";
import * as rl from "./rl.js";

const data = JSON.parse($("data").textContent);
const page = {check, checkpoint, compare, gradients, rl}[data.kind];
document.body.className = data.kind;
const main = element("main", {});
main.innerHTML = page.html; // of the build, not of the data
main.append(element("footer", {id: "footer", textContent: `Made by msprobe ${data.version}`}));
document.body.prepend(main, element("div", {id: "tip", className: "hidden", role: "presentation"}));
page.show(data);
