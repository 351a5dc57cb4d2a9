// The search: its form, what it sends and when, and the documents that come back. An empty query lists all documents.

import { ApiError, call } from "./api.js";
import { chosen, chosenName, route } from "./collections.js";
import { command, showCommand } from "./curl.js";
import { byId, el, say, show } from "./dom.js";
import { editDocument } from "./edit.js";
import { fieldNames, forgetFacets, outdateFacets, showFacets } from "./facets.js";
import { parse } from "./json.js";
import { place, setPlace } from "./place.js";
import { resultItem } from "./result.js";
import { languageName, number, score, t } from "./words.js";

const OWN = "own"; // the menu entry for another minimum score
const KEY_MS = 100; // from a key to an answer by keywords
const DOUBTFUL = 0.5; // below this confidence the results are marked
const PAUSE_MS = 350; // from the last key to the answer of the chosen mode
const TYPING = { byKeywords: true, isTyping: true };
const PAUSED = { isTyping: true };
const ASKED = {};
const SORTED = 100; // best results of a query to sort
const LANGUAGE = "lang"; // the field of the documents' language
// What the address has of the form.
const FIELDS = {
  ...{ q: "query", mode: "mode", filter: "filter", min: "min-score", score: "own-score", k: "top-k" },
  ...{ group: "group-by", sort: "sort-by" },
};
const FLAGS = ["rerank", "prefer"];

const modes = document.documentElement.dataset.modes.split(" ").filter(Boolean);
const hasKeywords = modes.length > 1; // an old Milvus has none

let info = null;
let defaults = {}; // of the form
let shown = 0; // documents on the page
let nextCursor = null; // of the listed documents on the page
let isOld = true; // the form asks for others
let running = null;
let [keyTimer, pauseTimer] = [null, null];
let [onStart, onDocumentsChanged] = [null, null];
let isSettled = true; // the address is one to come back to: a change becomes a new entry of the history

/** Make the form work; `onStart` is to fetch the facts where they are missing, `onChange` is called after changes. */
export function startSearch({ onStart: start, onChange }) {
  [onStart, onDocumentsChanged] = [start, onChange];
  byId("mode").append(...modes.map((mode) => el("option", { value: mode, textContent: mode })));
  show(byId("mode-field"), hasKeywords);
  defaults = Object.fromEntries(Object.values(FIELDS).map((id) => [id, byId(id).value]));
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  byId("query").addEventListener("input", (event) => event.isComposing || typed());
  byId("query").addEventListener("compositionend", typed);
  byId("more").addEventListener("click", () => (isOld ? run(ASKED) : run(stageNow(), shown)));
  byId("search-curl").addEventListener("click", () => {
    if (filterOf() === null) return;
    showCommand(isList() ? command("GET", listRoute()) : command("POST", route("search"), request(ASKED, 0)));
  });
  byId("filter").addEventListener("input", filterOf);
  for (const id of [...Object.values(FIELDS).filter((id) => id !== "query"), ...FLAGS]) {
    byId(id).addEventListener("change", () => byId("search-form").reportValidity() && ask());
  }
  byId("min-score").addEventListener("change", showOwnScore);
  byId("search-form").addEventListener("invalid", () => (byId("options").open = true), true);
  byId("options").open = byId("facets").open = matchMedia("(min-width: 60rem)").matches;
  restore(); // before a change of the form goes into the address
  return { show: showInfo, clear: forget, ask, restore, again, focus };
}

/** Search again, as documents were changed, or the language of the page. */
function again() {
  outdateFacets();
  run(stageNow());
}

/** The stage that ends what the visitor has begun: keywords alone would not. */
const stageNow = () => (isSettled ? ASKED : PAUSED);

/** Put the cursor into the search box. */
function focus() {
  byId("query").focus({ preventScroll: true });
  byId("query").select();
}

function showInfo(given) {
  info = given;
  byId("top-k").max = info.limits.max_top_k;
  show(byId("rerank-field"), Boolean(info.reranker));
  const n = chosen(info).documents;
  show(byId("search-empty"), n === 0);
  byId("query").placeholder = n === 0 ? t("search.query") : t("search.placeholder", { n });
  const { all, ...languages } = minScores();
  const recommended = Object.entries(languages).map(([code, least]) => [languageName(code), least]);
  recommended.sort(([one], [other]) => one.localeCompare(other));
  if (all !== undefined) recommended.unshift([t("search.anyLanguage"), all]);
  const group = el("optgroup", { label: t("search.recommended") });
  group.append(...recommended.map(([name, least]) => option(least, `${name} · ${score(least)}`)));
  const parts = [option("", t("search.noMinimum")), group, option(OWN, t("search.ownMinimum"))];
  fill(byId("min-score"), parts.filter((part) => part !== group || recommended.length > 0));
  showOwnScore();
  showFields();
}

const option = (value, textContent) => el("option", { value: String(value), textContent });

function fill(menu, options) {
  const kept = menu.value;
  menu.replaceChildren(...options);
  menu.value = kept;
  if (menu.selectedIndex === -1) menu.selectedIndex = 0; // there is no such entry now
}

/** Offer the fields to group and to sort by; without any, the page has neither menu. */
function showFields() {
  const used = [byId("group-by").value, sorting()?.field].filter(Boolean);
  const names = [...new Set([...fieldNames(), ...used])].sort();
  const orders = (field) => [
    option(`asc:${field}`, t("search.asc", { field })),
    option(`desc:${field}`, t("search.desc", { field })),
  ];
  fill(byId("group-by"), [option("", t("search.noGroups")), ...names.map((name) => option(name, name))]);
  fill(byId("sort-by"), [option("", t("search.unsorted")), ...names.flatMap(orders)]);
  for (const id of ["group-by", "sort-by"]) show(byId(id).parentElement, info !== null && names.length > 0);
  show(byId("prefer-field"), names.includes(LANGUAGE) || byId("prefer").checked);
}

/** The field and the order of the results, or null. */
function sorting() {
  const [, order, field] = /^(asc|desc):(.*)$/s.exec(byId("sort-by").value) ?? [];
  return field === undefined ? null : { order, field };
}

/** The recommended scores; they are of the model's own space. */
const minScores = () => (info.document_space === null ? info.min_scores : {});

function showOwnScore() {
  byId("own-score").disabled = byId("min-score").value !== OWN; // what is hidden must not be found invalid
  show(byId("own-score-field"), !byId("own-score").disabled);
}

/** The filter, {} without one; null if it is no object, and the page says so. */
function filterOf() {
  const text = byId("filter").value.trim();
  let [filter, trouble] = [{}, ""];
  try {
    if (text && !/^{/.test(text)) trouble = t("search.filterNoObject");
    else if (text) filter = parse(text);
  } catch (error) {
    trouble = t("search.filterNoJson", { why: error.message });
  }
  byId("filter").setAttribute("aria-invalid", String(trouble !== ""));
  say(byId("filter-trouble"), trouble);
  return trouble === "" ? filter : null;
}

const isBlank = () => byId("query").value.trim() === "";
const isList = () => isBlank() && byId("group-by").value === "" && sorting() === null;
const sortK = () => Math.min(Math.max(SORTED, Number(byId("top-k").value)), info.limits.max_top_k);
const looksForWords = () => hasKeywords && byId("mode").value !== "dense";
const reranks = () => byId("rerank").checked && (info === null || Boolean(info.reranker));

/** The body of a search, from the form. */
function request(stage, offset, hasHighlights = hasKeywords) {
  const fields = isBlank() ? {} : question(stage, hasHighlights);
  fields.top_k = Number(byId("top-k").value);
  if (offset > 0) fields.offset = offset;
  if (byId("group-by").value) fields.group_by = byId("group-by").value;
  const by = sorting();
  if (by !== null) fields.sort = [{ [by.field]: by.order }];
  if (by !== null && !isBlank()) fields.sort_k = sortK();
  const filter = byId("filter").value.trim() || (isBlank() ? "{}" : "");
  // As typed: a number may have more digits than JavaScript keeps.
  return filter ? `${JSON.stringify(fields).slice(0, -1)},"filter":${filter}}` : JSON.stringify(fields);
}

function question({ byKeywords, isTyping }, hasHighlights) {
  const least = byId("min-score").value === OWN ? byId("own-score").value : byId("min-score").value;
  const mode = byKeywords ? "keywords" : byId("mode").value;
  const fields = { query: byId("query").value };
  if (least !== "" && mode === byId("mode").value) fields.min_score = Number(least);
  if (mode) fields.mode = mode;
  if (isTyping && looksForWords()) fields.typing = true;
  if (reranks() && !byKeywords) fields.rerank = true;
  if (byId("prefer").checked) fields.prefer = "auto";
  if (hasHighlights) fields.include = ["text", "metadata", "highlights"];
  return fields;
}

function listRoute(cursor = null) {
  const fields = new URLSearchParams({ limit: byId("top-k").value });
  const filter = byId("filter").value.trim();
  if (filter) fields.set("filter", filter);
  if (cursor !== null) fields.set("cursor", cursor);
  return `${route("documents")}?${fields}`;
}

/** Search while the visitor types: by keywords soon after each key, as chosen after a pause. */
function typed() {
  remember({ settles: false });
  isOld = true;
  clearTimeout(pauseTimer);
  pauseTimer = setTimeout(() => run(PAUSED), PAUSE_MS);
  if (looksForWords() && !isBlank()) {
    keyTimer ??= setTimeout(() => {
      keyTimer = null;
      if (!isBlank()) run(TYPING);
    }, KEY_MS);
  }
}

/** Search now, with an address to come back to; without facts of the service, ask for these again first. */
function ask() {
  remember({ settles: true });
  if (info === null) onStart();
  else run(ASKED);
}

/** Put the form into the address. While the visitor types, one entry of the history changes. */
function remember({ settles }) {
  const fields = new URLSearchParams();
  for (const [name, id] of Object.entries(FIELDS)) {
    const isUsed = id !== "own-score" || byId("min-score").value === OWN;
    if (isUsed && byId(id).value !== defaults[id]) fields.set(name, byId(id).value);
  }
  if (reranks()) fields.set("rerank", "");
  if (byId("prefer").checked) fields.set("prefer", "");
  const collection = info === null ? place().fields.get("collection") : chosenName();
  if (collection) fields.set("collection", collection);
  setPlace({ fields }, { isNew: isSettled });
  isSettled = settles;
}

/** Search for what the address says, once there are facts. */
function restore() {
  const { fields } = place();
  // These menus may lack the entry: no document with the field was seen, or there are no facts yet.
  const menus = ["group", "sort", ...(info === null ? ["min"] : [])];
  for (const name of menus) byId(FIELDS[name]).append(option(fields.get(name) ?? "", ""));
  for (const [name, id] of Object.entries(FIELDS)) byId(id).value = fields.get(name) ?? defaults[id];
  for (const menu of [byId("mode"), byId("min-score")]) {
    if (menu.selectedIndex === -1) menu.value = defaults[menu.id]; // it has no such entry
  }
  for (const id of FLAGS) byId(id).checked = fields.has(id);
  showFields();
  if (byId("filter").value || byId("group-by").value) byId("options").open = true; // what leaves documents out is to be seen
  showOwnScore();
  isSettled = true;
  run(ASKED);
}

/** Show the documents for the form's fields. A newer call ends an older one. */
async function run(stage, offset = 0) {
  if (info === null || filterOf() === null) return;
  if (stage !== TYPING) {
    clearTimeout(keyTimer);
    clearTimeout(pauseTimer);
    keyTimer = null;
  }
  isOld ||= offset === 0;
  running?.abort();
  const mine = (running = new AbortController());
  byId("panel-search").setAttribute("aria-busy", "true");
  try {
    const answer = await (isList() ? list(offset, mine.signal) : find(stage, offset, mine.signal));
    if (stage === TYPING && answer.results.length === 0) return; // the chosen mode may find more
    say(byId("search-trouble"), "");
    showResults(answer, { stage, offset });
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof ApiError)) throw error;
    if (stage === TYPING) return; // the answer after the pause says it, too
    if (offset === 0) clear();
    say(byId("search-trouble"), error.message);
  } finally {
    if (running === mine) byId("panel-search").setAttribute("aria-busy", "false");
  }
}

async function find(stage, offset, signal) {
  const ask = (...highlights) => call("POST", route("search"), request(stage, offset, ...highlights), { signal });
  const { data, headers } = await ask().catch((error) => {
    if (error.status !== 422 || !error.message.startsWith("highlights are")) throw error;
    return ask(false); // the texts are too long to be looked through for words
  });
  const isCut = !/^0?$/.test(headers.get("x-truncated") ?? "");
  const wanted = Number(byId("top-k").value);
  const reached = offset + data.results.length;
  const mayGoOn = sorting() === null ? reached + wanted <= info.limits.max_top_k : reached < sortK();
  const hasMore = data.results.length === wanted && (isBlank() || mayGoOn) && reached !== data.total;
  return { ...data, isCut, hasMore };
}

async function list(offset, signal) {
  const { data } = await call("GET", listRoute(offset > 0 ? nextCursor : null), null, { signal });
  return { results: data.documents, total: data.total, cursor: data.next_cursor, hasMore: data.next_cursor !== null };
}

/** Forget what another collection has answered, or is about to. */
function forget() {
  running?.abort();
  clear();
  forgetFacets();
  for (const id of ["group-by", "sort-by"]) byId(id).value = "";
  say(byId("search-trouble"), "");
}

function clear() {
  shown = 0;
  byId("results").replaceChildren();
  say(byId("search-status"), "");
  show(byId("more"), false);
}

function showResults({ results, total, confidence, preferred, took_ms, isCut, hasMore, cursor }, { stage, offset }) {
  const hadFocus = byId("results").contains(document.activeElement) && offset === 0;
  if (offset === 0) clear();
  nextCursor = cursor;
  isOld = stage === TYPING;
  // Sorted, the first result is not the best one.
  const isDoubtful = sorting() === null && typeof confidence === "number" && confidence < DOUBTFUL;
  if (isDoubtful && offset === 0 && results.length > 0) byId("results").append(divider(confidence));
  const groupBy = byId("group-by").value;
  for (const result of results) {
    const options = { rank: (shown += 1), isDoubtful, groupBy, narrow, ungroup, edit };
    byId("results").append(resultItem(result, options));
  }
  if (hadFocus || (!hasMore && document.activeElement === byId("more"))) byId("results").focus();
  show(byId("more"), hasMore);
  if (shown > 0) show(byId("search-empty"), false);
  const isShort = typeof total === "number" && total > shown;
  const found = isShort ? t("search.of", { n: total, shown }) : t("search.found", { n: shown });
  const facts = [shown === 0 ? t("search.nothing") : found];
  if (took_ms !== undefined) facts.push(t("search.took", { ms: number(took_ms, 1) }));
  if (sorting() !== null && !isBlank()) facts.push(t("search.sorted", { n: sortK() }));
  if (preferred) facts.push(t("search.preferred", { language: languageName(preferred) }));
  if (isCut) facts.push(t("search.cut"));
  say(byId("search-status"), byId("search-empty").hidden ? facts.join(" · ") : "");
  if (stage === TYPING) return;
  byId("search-said").textContent = facts[0]; // once for all keys, not to flood who listens
  showFacets(results, { filterNow: filterOf, choose: filterBy, most: info.limits.max_facets });
  showFields();
}

const divider = (confidence) =>
  el("li", { className: "divider" }, t("search.doubtful", { percent: number(100 * confidence) }));

/** Search again, in one group. */
const ungroup = (field, value) => narrow(field, value, "");

/** Search again, only among the documents with this value in their metadata. */
function narrow(field, value, groupBy = byId("group-by").value) {
  byId("options").open = true;
  const filter = filterOf();
  if (filter === null) return; // the page says what is wrong with it
  byId("group-by").value = groupBy;
  filterBy({ ...filter, [field]: value });
}

function filterBy(filter) {
  byId("filter").value = Object.keys(filter).length === 0 ? "" : JSON.stringify(filter);
  ask();
}

const edit = (id) => editDocument(id, { hasOwnFields: Boolean(chosen(info).text), onChange: onDocumentsChanged });
