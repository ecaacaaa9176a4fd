// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0

/** Whether the text is in the clipboard now. */
export async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text); // plain http from another machine has no clipboard, or the user refused it
  }
}

function copySelected(text: string): boolean {
  const area = document.createElement("textarea");
  const focused = document.activeElement as HTMLElement | null;
  area.value = text;
  area.style.cssText = "position: fixed; opacity: 0";
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isCopied;
}
