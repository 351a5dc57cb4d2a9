// Shows GET /info.

import { chosen } from "./collections.js";
import { byId, el } from "./dom.js";
import { languageName, number, score, t } from "./words.js";

/** Show the model, the index and the limits. */
export function showFacts(info) {
  byId("facts").replaceChildren(
    group(t("facts.model"), model(info)),
    group(t("facts.index"), index(info)),
    group(t("facts.limits"), limits(info.limits)),
  );
}

function group(title, rows) {
  const known = rows.filter(([, value]) => value);
  const items = known.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return el("section", { className: "card" }, el("h2", {}, title), el("dl", {}, ...items));
}

function model(info) {
  const { all, ...languages } = info.min_scores;
  const scores = Object.entries({ ...(all && { [t("facts.all")]: all }), ...languages });
  return [
    [t("facts.name"), info.model],
    [t("facts.languages"), list(info.languages.map(languageName))],
    [t("facts.parameters"), `${number(info.parameters / 1e6, 1)} M · ${info.precision}`],
    [t("facts.dim"), number(info.dim)],
    [t("facts.reads"), t("facts.tokens", { n: info.max_length })],
    [t("facts.prompts"), Object.keys(info.prompts).join(", ")],
    [t("facts.spaces"), info.spaces.map((space) => space.name).join(", ")],
    [t("facts.reranker"), info.reranker?.name],
    [t("facts.minScores"), scores.map(([name, least]) => `${name}\u00a0${score(least)}`).join(", ")],
    [t("facts.fingerprint"), info.fingerprint.slice(0, 12)],
  ];
}

function index(info) {
  const { name, backend, documents, size_bytes, recall } = chosen(info);
  return [
    [t("collection.choose"), info.collections.length > 1 && name],
    [t("facts.documents"), number(documents)],
    [t("facts.backend"), backend],
    [t("facts.memory"), size(size_bytes)],
    [t("facts.recall"), recall === null ? t("facts.unmeasured") : `${number(recall * 100, 1)} %`],
    [t("facts.space"), info.document_space],
    [t("facts.version"), info.version],
  ];
}

const limits = (given) => [
  [t("facts.texts"), number(given.max_texts)],
  [t("facts.chars"), number(given.max_text_chars)],
  [t("facts.body"), size(given.max_body_bytes)],
  [t("facts.topK"), number(given.max_top_k)],
];

const size = (bytes) => (bytes < 1e6 ? `${number(bytes / 1e3, 1)} kB` : `${number(bytes / 1e6, 1)} MB`);

function list(names) {
  return new Intl.ListFormat(document.documentElement.lang, { type: "unit", style: "short" }).format(names);
}
