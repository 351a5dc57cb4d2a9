// Marks what matched in a text. Offsets count code points, as the API's do; JavaScript's strings count UTF-16 units.

import { el } from "./dom.js";

const LONG = 600; // code points; a longer text is folded
const BEFORE = 80; // that are shown before the best sentence of a folded text

/** The part of a text to show first: its passage, or the surroundings of its best sentence. */
export function folded(points, { passage, highlights = [] }) {
  if (passage || points.length <= LONG) return passage ?? { start: 0, end: points.length };
  const sentence = highlights.find(({ kind }) => kind === "sentence");
  const start = Math.max(0, Math.min((sentence?.start ?? 0) - BEFORE, points.length - LONG));
  return { start, end: start + LONG };
}

/** Nodes for a part of a text, its words marked, and its best sentence unless that is all of the part. */
export function marked(points, { start, end }, highlights = []) {
  const words = highlights.filter(({ kind }) => kind === "word");
  const [sentence] = highlights.filter(({ kind }) => kind === "sentence").map((span) => within(span, start, end));
  if (!sentence || sentence.start >= sentence.end || sentence.end - sentence.start === end - start) {
    return withWords(points, start, end, words);
  }
  return [
    ...withWords(points, start, sentence.start, words),
    el("span", { className: "sentence" }, ...withWords(points, sentence.start, sentence.end, words)),
    ...withWords(points, sentence.end, end, words),
  ];
}

const within = (span, start, end) => ({ start: Math.max(span.start, start), end: Math.min(span.end, end) });

function withWords(points, start, end, words) {
  const nodes = [];
  let at = start;
  for (const word of words.map((span) => within(span, start, end)).filter((one) => one.start < one.end)) {
    nodes.push(points.slice(at, word.start).join(""), el("mark", {}, points.slice(word.start, word.end).join("")));
    at = word.end;
  }
  return [...nodes, points.slice(at, end).join("")].filter((node) => node !== "");
}
