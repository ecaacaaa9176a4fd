// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import { App } from "./app";
import { start } from "./graphs";
import "./style.css";

render(<App />, document.getElementById("app")!);
void start();
