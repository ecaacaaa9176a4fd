// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// Colours that a user has chosen for classes: for each colouring and theme, kept in this browser.

/** By ownColoursKey: from the first class to the last. */
export type OwnColours = Record<string, string[]>;

const KEY = "msprobe.colours";

export const ownColoursKey = (by: string, dark: boolean): string => `${by} ${dark ? "dark" : "light"}`;

const isColour = (value: unknown): value is string => typeof value === "string" && /^#[0-9a-f]{6}$/.test(value);

/** What is kept, without what is not of its form. */
export function readOwnColours(text: string | null): OwnColours {
  let found: unknown = null;
  try {
    found = JSON.parse(text ?? "");
  } catch {
    // nothing, or not ours
  }
  if (typeof found !== "object" || found === null) return {};
  return Object.fromEntries(Object.entries(found).filter(([, list]) => Array.isArray(list) && list.length > 0 && list.every(isColour)));
}

export function keptOwnColours(): OwnColours {
  try {
    return readOwnColours(localStorage.getItem(KEY));
  } catch {
    return {}; // a page that may not keep anything
  }
}

export function keepOwnColours(colours: OwnColours): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(colours));
  } catch {
    // as above
  }
}
