// The values of the metadata with their counts, to click: each narrows the search to documents that have it.

import { ApiError, call } from "./api.js";
import { route } from "./collections.js";
import { byId, el, say, show } from "./dom.js";
import { parse, readable } from "./json.js";
import { NO_FIELDS } from "./result.js";
import { number, t } from "./words.js";

const MOST_FIELDS = 8; // to show
const FEW = 8; // values to show before the others are asked for
const LEAST = 2; // documents that the commonest value of a field has: ids are no facets
const NUMBER_OR_BOOLEAN = /^(true|false|-?\d+(\.\d+)?([eE][+-]?\d+)?)$/;

const types = new Map(); // field -> the types of its values, as far as documents were seen
const useful = new Set(); // fields that were shown; they stay when few documents are left
const unfolded = new Set(); // fields all of whose values are shown
let partly = false; // whether more documents match than were counted, as may be in Milvus
let running = null;
let counted = ""; // the question that the shown counts answer

/** Count again, as documents were changed. */
export function outdateFacets() {
  counted = "";
}

/** The fields that were seen. */
export const fieldNames = () => [...types.keys()];

/** Forget the fields of another collection. */
export function forgetFacets() {
  running?.abort();
  counted = "";
  types.clear();
  useful.clear();
  unfolded.clear();
  show(byId("facets"), false);
}

/**
 * Count the values of the fields that these and earlier documents have, and show them.
 * filterNow: gives the filter, an object.  choose: called with the filter that a click asks for.
 * most: fields that the service counts.
 */
export async function showFacets(documents, { filterNow, choose, most }) {
  for (const { metadata } of documents) learn(metadata ?? {});
  const fields = [...types.keys()].slice(0, most);
  if (fields.length === 0) return show(byId("facets"), false);
  const filter = filterNow() ?? {};
  const question = JSON.stringify([fields, filter]);
  if (question === counted) return;
  running?.abort();
  const mine = (running = new AbortController());
  counted = "";
  try {
    const counts = await count(fields, filter, mine.signal);
    // Of a field that the filter names, its other values stay to choose from.
    for (const field of fields.filter((name) => chosen(filter, name).length > 0)) {
      const { [field]: _, ...others } = filter;
      Object.assign(counts, await count([field], others, mine.signal));
    }
    say(byId("facets-trouble"), "");
    draw(counts, { filterNow, choose });
    counted = question;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof ApiError)) throw error;
    byId("facet-list").replaceChildren();
    show(byId("facets"), true);
    say(byId("facets-trouble"), error.message);
  }
}

/** Note the fields of an object, and of objects in it by their path. */
function learn(values, path = "") {
  for (const [key, value] of Object.entries(values)) {
    const field = path + key;
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === null || Array.isArray(one) || NO_FIELDS.includes(field)) continue;
      if (typeof one === "object" && !JSON.isRawJSON?.(one)) learn(one, `${field}.`);
      else types.set(field, (types.get(field) ?? new Set()).add(typeof one));
    }
  }
}

async function count(facets, filter, signal) {
  const { data } = await call("POST", route("documents/count"), JSON.stringify({ facets, filter }), { signal });
  partly = data.facets_are === "at_least";
  return data.facets;
}

function draw(counts, options) {
  const filter = options.filterNow() ?? {};
  // Sorted here: JavaScript puts keys that look like whole numbers first.
  const sorted = (values) => Object.entries(values).sort(([, one], [, other]) => other - one);
  const fields = Object.entries(counts).map(([field, values]) => [field, sorted(values)]);
  for (const [field, [commonest]] of fields) {
    if (commonest?.[1] >= LEAST || chosen(filter, field).length > 0) useful.add(field);
  }
  const groups = fields.filter(([field]) => useful.has(field)).slice(0, MOST_FIELDS);
  const { facet } = document.activeElement.dataset;
  const more = { ...options, filter, redraw: () => draw(counts, options) };
  byId("facet-list").replaceChildren(...groups.map(([field, values]) => group(field, values, more)));
  show(byId("facets"), groups.length > 0);
  if (facet) [...byId("facet-list").querySelectorAll("button")].find((one) => one.dataset.facet === facet)?.focus();
}

function group(field, values, options) {
  const pressed = chosen(options.filter, field).map(readable);
  const isShort = values.length <= FEW + 1 || unfolded.has(field);
  const shown = isShort ? values : values.filter(([value], at) => at < FEW || pressed.includes(value));
  const items = shown.map(([value, n]) => el("li", {}, button(field, value, n, { pressed, ...options })));
  if (shown.length < values.length) {
    // Once they are shown, the focus goes to the first of them.
    const facts = { type: "button", className: "link", "data-facet": identity(field, values[FEW][0]) };
    const more = el("button", facts, t("facets.more", { n: values.length - shown.length }));
    more.addEventListener("click", () => {
      unfolded.add(field);
      options.redraw();
    });
    items.push(el("li", {}, more));
  }
  const title = el("h3", {}, el("bdi", {}, field));
  return el("section", {}, title, el("ul", { className: "chips", "aria-label": field }, ...items));
}

const identity = (field, value) => JSON.stringify([field, value]);

function button(field, value, n, { pressed, filterNow, choose }) {
  const isPressed = pressed.includes(value);
  const data = { "aria-pressed": String(isPressed), "data-facet": identity(field, value) };
  const facts = { type: "button", className: "chip", ...data };
  const documents = `${partly ? "≥ " : ""}${number(n)}`;
  const chip = el("button", facts, el("bdi", {}, value), " ", el("span", { className: "field" }, documents));
  chip.addEventListener("click", () => {
    const filter = filterNow();
    if (filter === null) return; // the page says what is wrong with it
    const kept = chosen(filter, field).filter((one) => readable(one) !== value);
    const values = chosen(filter, field).length > kept.length ? kept : [...kept, ...meant(field, value)];
    const { [field]: _, ...others } = filter;
    const condition = values.length === 1 ? values[0] : { in: values };
    choose(values.length === 0 ? others : { ...others, [field]: condition });
  });
  return chip;
}

/** The values of a field that a filter asks for by equality. */
function chosen(filter, field) {
  const condition = filter[field];
  if (Array.isArray(condition?.in)) return condition.in;
  return ["string", "number", "boolean"].includes(typeof condition) || JSON.isRawJSON?.(condition) ? [condition] : [];
}

/** What a facet's spelling stands for: the text, the number or boolean, or both where a field has both. */
function meant(field, spelled) {
  const known = types.get(field);
  const isOther = NUMBER_OR_BOOLEAN.test(spelled) && [...known].some((type) => type !== "string");
  if (!isOther) return [spelled];
  return known.has("string") ? [spelled, parse(spelled)] : [parse(spelled)];
}
