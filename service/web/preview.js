// Shows the first records of a file as a table: each field with its type, and what becomes of it.

import { byId, el, show } from "./dom.js";
import { readable } from "./json.js";
import { t } from "./words.js";

const ROWS = 5;
const FIELDS = 30;
const CHARS = 120; // of a cell

/**
 * table: records and fields, or null to show none.
 * own: the template that makes the text of fields, or null; kept: the fields that are then kept; null: all.
 * areTexts: whether CSV cells stay texts.
 */
export function showPreview(table, { textField, idField, own, kept, areTexts }) {
  show(byId("preview"), table !== null);
  if (table === null) return;
  const fields = table.fields.slice(0, FIELDS);
  const used = own === null ? [textField] : [...own.matchAll(/{{|{([^{}]+)}/g)].flatMap(([, name]) => name ?? []);
  const isIn = (names, name) => names.some((one) => one === name || one.startsWith(`${name}.`));
  const role = (name) => {
    if (name === idField) return t("preview.id");
    if (isIn(used, name)) return t("preview.text");
    return kept === null || isIn(kept, name) ? "" : t("preview.left");
  };
  const heads = fields.map(({ name, type }) => {
    const what = [areTexts ? typeNames().text : typeNames()[type], role(name)].filter(Boolean).join(" · ");
    return el("th", { scope: "col" }, el("bdi", {}, name), el("span", { className: "hint" }, what));
  });
  const rows = table.records.filter(({ value }) => value).slice(0, ROWS);
  const cells = (value) => fields.map(({ name }) => el("td", { dir: "auto" }, cell(value[name])));
  const caption = el("caption", { className: "unseen" }, t("preview.caption"));
  const body = el("tbody", {}, ...rows.map(({ value }) => el("tr", {}, ...cells(value))));
  byId("preview").replaceChildren(el("table", {}, caption, el("thead", {}, el("tr", {}, ...heads)), body));
}

const typeNames = () => ({
  text: t("preview.string"),
  number: t("preview.number"),
  boolean: t("preview.boolean"),
  list: t("preview.list"),
  object: t("preview.object"),
  mixed: t("preview.mixed"),
  bytes: t("preview.bytes"),
});

function cell(value) {
  const points = value === undefined || value === null ? [] : Array.from(readable(value).slice(0, 2 * CHARS));
  return points.length > CHARS ? `${points.slice(0, CHARS).join("")}…` : points.join("");
}
