// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// What the page says to the user in passing.
import { toClipboard } from "./clipboard";
import { Refused } from "./source";
import * as state from "./state";
import { said, t } from "./state";

/** Runs an action; what cannot be answered is said in the page. */
export async function attempt(action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    tell(said(error.message));
  }
}

let noticeTimer = 0;
export function tell(text: string): void {
  state.notice.value = text;
  window.clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => (state.notice.value = ""), 7000);
}

export async function copy(text: string, done: string): Promise<void> {
  tell((await toClipboard(text)) ? done : t("copyRefused"));
}
