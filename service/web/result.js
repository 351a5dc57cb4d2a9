// One found document as an item of the list: its score, text, id and metadata.

import { el } from "./dom.js";
import { readable } from "./json.js";
import { score, t } from "./words.js";

const LONG = 600; // characters; a longer text is folded
const NO_FIELDS = ["and", "or", "not"]; // in a filter these combine conditions

/** narrow: called with a field and its value when the visitor wants only documents that have it. */
export function resultItem(result, { rank, isDoubtful, narrow }) {
  const fields = Object.entries(result.metadata ?? {});
  const chips = [idChip(result.id), ...fields.map(([field, value]) => chip(field, value, narrow))];
  return el(
    "li",
    { className: isDoubtful ? "result doubtful" : "result", "data-score": String(result.score) },
    el("span", { className: "rank", "aria-hidden": "true" }, String(rank)),
    el("div", { className: "found" }, ...textOf(result), el("ul", { className: "chips" }, ...chips)),
    bar(result.score),
  );
}

function textOf({ text = "", passage }) {
  const paragraph = el("p", { className: "text", dir: "auto" }, text);
  if (text.length <= LONG && !passage) return [paragraph];
  if (passage) paragraph.replaceChildren("… ", el("mark", {}, passage.text), " …");
  else paragraph.textContent = `${text.slice(0, LONG).trimEnd()}…`;
  const whole = el("button", { type: "button", className: "link" }, t("result.whole"));
  whole.addEventListener("click", () => {
    paragraph.replaceChildren(...(passage ? marked(text, passage) : [text]));
    whole.remove();
  });
  return [paragraph, whole];
}

/** The text with its passage marked; its offsets count code points, JavaScript's UTF-16 units. */
function marked(text, { start, end }) {
  const points = Array.from(text);
  const part = (from, to) => points.slice(from, to).join("");
  return [part(0, start), el("mark", {}, part(start, end)), part(end)];
}

function bar(value) {
  const fill = el("span", { className: "fill" });
  fill.style.inlineSize = `${Math.min(Math.max(value, 0), 1) * 100}%`;
  const facts = { className: "bar", role: "meter", "aria-label": t("result.score"), "aria-valuetext": score(value) };
  const limits = { "aria-valuemin": "-1", "aria-valuemax": "1", "aria-valuenow": String(value) };
  const meter = el("div", { ...facts, ...limits }, fill);
  const digits = el("span", { className: "number", title: String(value) }, score(value));
  return el("div", { className: "score" }, digits, meter);
}

const idChip = (id) => el("li", { className: "chip id" }, el("span", { className: "field" }, "id"), " ", id);

function chip(field, value, narrow) {
  const content = [el("span", { className: "field" }, field), " ", readable(value)];
  const canFilter = ["string", "number", "boolean"].includes(typeof value) && !NO_FIELDS.includes(field);
  if (!canFilter) return el("li", { className: "chip" }, ...content);
  const label = t("result.narrow", { field, value: String(value) });
  const button = el("button", { type: "button", className: "chip", title: label, "aria-label": label }, ...content);
  button.addEventListener("click", () => narrow(field, value));
  return el("li", {}, button);
}
