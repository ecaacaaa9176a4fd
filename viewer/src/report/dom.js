// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
// What the pages of results share.
export const $ = id => document.getElementById(id);

export function element(tag, properties, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children); // strings become text: a name is never read as HTML
  return node;
}

export function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A row of a table; cells: texts or elements. kinds: the class of each column.
export function tableRow(cells, kinds = [], className = "", tag = "td") {
  return element("tr", {className}, ...cells.map((cell, i) => element(tag, {className: kinds[i] ?? ""}, cell instanceof Node ? cell : String(cell))));
}

export const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const whole = number => number.toLocaleString("en-US");
export const plural = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
export const visible = text => String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, "\ufffd");

// Three digits; the words that stand for numbers JSON does not have.
export function digits(value, nothing = "\u2013") {
  if (value === null || value === undefined) return nothing;
  if (typeof value === "string") return value === "Infinity" ? "\u221e" : value;
  return Number(value.toPrecision(3)).toString();
}

// The badge and the sentence of a page, and what was compared.
export function showHead(word, kind, sentence, inputs = []) {
  $("badge").textContent = word;
  $("badge").classList.add(kind);
  $("sentence").textContent = visible(sentence);
  for (const [term, ...about] of inputs) {
    $("inputs").append(element("dt", {textContent: term}), element("dd", {}, element("code", {textContent: visible(about[0])}), ...about.slice(1)));
  }
}

// Large numbers, each with what it counts.
export function showTiles(tiles) {
  $("tiles").append(...tiles.map(([label, value]) =>
    element("div", {}, element("dt", {textContent: label}), element("dd", {textContent: whole(value)}))));
}

export const lines = texts => texts.map(text => element("div", {textContent: text}));

export function showTip(x, y, ...content) {
  const tip = $("tip");
  tip.replaceChildren(...content);
  tip.classList.remove("hidden");
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 16, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 20 + box.height > innerHeight ? y - box.height - 12 : y + 20}px`;
}
export const hideTip = () => $("tip").classList.add("hidden");
