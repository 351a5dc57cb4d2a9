// One document as an item of the list: its score, text, id and metadata.

import { el } from "./dom.js";
import { readable } from "./json.js";
import { folded, marked } from "./marks.js";
import { score, t } from "./words.js";

export const NO_FIELDS = ["and", "or", "not"]; // in a filter these combine conditions

/**
 * result: as the API gives it; a document that was not searched for has no score.
 * narrow: called with a field and its value when the visitor wants only documents that have it.  ungroup: likewise,
 * with the field `groupBy`.  edit: with an id.
 */
export function resultItem(result, { rank, isDoubtful, groupBy, narrow, ungroup, edit }) {
  const fields = Object.entries(result.metadata ?? {});
  const chips = [idChip(result.id), ...fields.map(([field, value]) => chip(field, value, narrow))];
  const label = t("result.edit", { id: result.id });
  const group = groupOf(result, groupBy, ungroup);
  const button = el("button", { type: "button", className: "link edit", "aria-label": label }, t("result.change"));
  button.addEventListener("click", () => edit(result.id));
  return el(
    "li",
    { className: isDoubtful ? "result doubtful" : "result", "data-score": String(result.score ?? "") },
    el("span", { className: "rank", "aria-hidden": "true" }, String(rank)),
    el("div", { className: "document" }, ...textOf(result), el("ul", { className: "chips" }, ...chips), group),
    el("div", { className: "score" }, ...((result.score ?? null) === null ? [] : bar(result.score)), button),
  );
}

/** How many documents the result stands for, to see them all; null: for itself. */
function groupOf({ group, group_size: n }, groupBy, ungroup) {
  if (!(n > 1)) return null;
  const words = t("result.group", { n, field: groupBy, value: readable(group) });
  const button = el("button", { type: "button", className: "link" }, words);
  button.addEventListener("click", () => ungroup(groupBy, group));
  return button;
}

function textOf(result) {
  const points = Array.from(result.text ?? "");
  const part = folded(points, result);
  const nodes = marked(points, part, result.highlights);
  const paragraph = el("p", { className: "text", dir: "auto", tabIndex: -1 }, ...nodes);
  if (part.end - part.start === points.length) return [paragraph];
  if (part.start > 0) paragraph.prepend("… ");
  if (part.end < points.length) paragraph.append(" …");
  const whole = el("button", { type: "button", className: "link" }, t("result.whole"));
  whole.addEventListener("click", () => {
    const before = el("span", { className: "around" }, ...marked(points, { start: 0, end: part.start }));
    const after = el("span", { className: "around" }, ...marked(points, { start: part.end, end: points.length }));
    paragraph.replaceChildren(before, ...nodes, after);
    paragraph.focus({ preventScroll: true }); // the button is about to go
    whole.remove();
  });
  return [paragraph, whole];
}

function bar(value) {
  const fill = el("span", { className: "fill" });
  fill.style.inlineSize = `${Math.min(Math.max(value, 0), 1) * 100}%`;
  const facts = { className: "bar", role: "meter", "aria-label": t("result.score"), "aria-valuetext": score(value) };
  const limits = { "aria-valuemin": "-1", "aria-valuemax": "1", "aria-valuenow": String(value) };
  const meter = el("div", { ...facts, ...limits }, fill);
  return [el("span", { className: "number", title: String(value) }, score(value)), meter];
}

function idChip(id) {
  return el("li", { className: "chip id" }, el("span", { className: "field" }, "id"), " ", el("bdi", {}, id));
}

function chip(field, value, narrow) {
  const content = [el("bdi", { className: "field" }, field), " ", el("bdi", {}, readable(value))];
  const canFilter = ["string", "number", "boolean"].includes(typeof value) && !NO_FIELDS.includes(field);
  if (!canFilter) return el("li", { className: "chip" }, ...content);
  const label = t("result.narrow", { field, value: String(value) });
  const button = el("button", { type: "button", className: "chip", title: label, "aria-label": label }, ...content);
  button.addEventListener("click", () => narrow(field, value));
  return el("li", {}, button);
}
