// The search: its form, what it sends, and the documents that come back.

import { ApiError, call } from "./api.js";
import { chosen, route } from "./collections.js";
import { command, showCommand } from "./curl.js";
import { byId, el, say, show } from "./dom.js";
import { parse } from "./json.js";
import { resultItem } from "./result.js";
import { languageName, number, score, t } from "./words.js";

const OWN = "own"; // the menu entry for another minimum score

let info = null;
let shown = 0; // results on the page
let running = null;

/** Make the form work; returns functions that show new facts of the service, and that forget the results. */
export function startSearch() {
  const modes = document.documentElement.dataset.modes.split(" ").filter(Boolean);
  byId("mode").append(...modes.map((mode) => el("option", { value: mode, textContent: mode })));
  show(byId("mode-field"), modes.length > 1);
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(0);
  });
  byId("more").addEventListener("click", () => run(shown));
  byId("search-curl").addEventListener("click", () => {
    if (!filterIsGood() || !byId("search-form").reportValidity()) return;
    showCommand(command("POST", route("search"), request(0)));
  });
  byId("filter").addEventListener("input", filterIsGood);
  byId("min-score").addEventListener("change", showOwnScore);
  byId("options").open = matchMedia("(min-width: 48rem)").matches;
  return { show: showInfo, clear: forget };
}

function showInfo(given) {
  info = given;
  byId("top-k").max = info.limits.max_top_k;
  show(byId("rerank-field"), Boolean(info.reranker));
  const n = chosen(info).documents;
  show(byId("search-empty"), n === 0);
  byId("query").placeholder = n === 0 ? t("search.query") : t("search.placeholder", { n });
  const kept = byId("min-score").value;
  const { all, ...languages } = info.min_scores;
  const recommended = Object.entries(languages).map(([code, least]) => [languageName(code), least]);
  recommended.sort(([one], [other]) => one.localeCompare(other));
  if (all !== undefined) recommended.unshift([t("search.anyLanguage"), all]);
  const group = el("optgroup", { label: t("search.recommended") });
  group.append(...recommended.map(([name, least]) => option(least, `${name} · ${score(least)}`)));
  const parts = [option("", t("search.noMinimum")), group, option(OWN, t("search.ownMinimum"))];
  byId("min-score").replaceChildren(...parts.filter((part) => part !== group || recommended.length > 0));
  byId("min-score").value = kept;
  showOwnScore();
}

const option = (value, textContent) => el("option", { value: String(value), textContent });

function showOwnScore() {
  show(byId("own-score-field"), byId("min-score").value === OWN);
}

/** Whether the filter is an object or empty; says so if not. */
function filterIsGood() {
  const text = byId("filter").value.trim();
  let trouble = "";
  try {
    if (text && !/^{/.test(text)) trouble = t("search.filterNoObject");
    else if (text) JSON.parse(text);
  } catch (error) {
    trouble = t("search.filterNoJson", { why: error.message });
  }
  byId("filter").setAttribute("aria-invalid", String(trouble !== ""));
  say(byId("filter-trouble"), trouble);
  return trouble === "";
}

/** The body of the request, from the form. */
function request(offset) {
  const least = byId("min-score").value === OWN ? byId("own-score").value : byId("min-score").value;
  const fields = { query: byId("query").value, top_k: Number(byId("top-k").value) };
  if (offset > 0) fields.offset = offset;
  if (least !== "") fields.min_score = Number(least);
  if (byId("mode").value) fields.mode = byId("mode").value;
  if (reranks()) fields.rerank = true;
  const filter = byId("filter").value.trim();
  // As typed: a number may have more digits than JavaScript keeps.
  return filter ? `${JSON.stringify(fields).slice(0, -1)},"filter":${filter}}` : JSON.stringify(fields);
}

const reranks = () => Boolean(info?.reranker) && byId("rerank").checked;

async function run(offset) {
  if (!filterIsGood()) return;
  running?.abort();
  const mine = (running = new AbortController());
  byId("panel-search").setAttribute("aria-busy", "true");
  say(byId("search-trouble"), "");
  try {
    const { data, headers } = await call("POST", route("search"), request(offset), { signal: mine.signal });
    showResults(data, headers, offset);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof ApiError)) throw error;
    if (offset === 0) clear();
    say(byId("search-trouble"), error.message);
  } finally {
    if (running === mine) byId("panel-search").setAttribute("aria-busy", "false");
  }
}

/** Forget what another collection has answered, or is about to. */
function forget() {
  running?.abort();
  clear();
  say(byId("search-trouble"), "");
}

function clear() {
  shown = 0;
  byId("results").replaceChildren();
  say(byId("search-status"), "");
  show(byId("more"), false);
}

function showResults({ results, took_ms }, headers, offset) {
  if (offset === 0) clear();
  const border = doubtfulBelow();
  const last = byId("results").lastElementChild?.dataset.score ?? Infinity;
  let before = Number(last);
  for (const result of results) {
    if (result.score < border && before >= border) byId("results").append(divider(border));
    byId("results").append(resultItem(result, { rank: (shown += 1), isDoubtful: result.score < border, narrow }));
    before = result.score;
  }
  const wanted = Number(byId("top-k").value);
  show(byId("more"), results.length === wanted && shown + wanted <= Number(byId("top-k").max || Infinity));
  if (shown > 0) show(byId("search-empty"), false);
  const found = shown === 0 ? t("search.nothing") : t("search.found", { n: shown });
  const facts = [found, t("search.took", { ms: number(took_ms, 1) })];
  if (!/^0?$/.test(headers.get("x-truncated") ?? "")) facts.push(t("search.cut"));
  say(byId("search-status"), facts.join(" · "));
}

/** The recommended minimum for queries in any language, where scores are cosines and none was chosen. */
function doubtfulBelow() {
  const areCosines = !reranks() && byId("mode").value === "dense";
  return (areCosines && byId("min-score").value === "" && info?.min_scores.all) || -Infinity;
}

const divider = (border) => el("li", { className: "divider" }, t("search.doubtful", { score: score(border) }));

/** Search again, only among the documents with this value in their metadata. */
function narrow(field, value) {
  const text = byId("filter").value.trim();
  byId("filter").value = JSON.stringify({ ...(text && filterIsGood() ? parse(text) : {}), [field]: value });
  byId("options").open = true;
  run(0);
}
