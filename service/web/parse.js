// Reads documents from text: NDJSON, a JSON array, CSV, or one text a line. Knows formats; sends nothing.

import { parse } from "./json.js";
import { t } from "./words.js";

export const FORMATS = ["ndjson", "json", "csv", "lines"];
const BY_ENDING = { jsonl: "ndjson", ndjson: "ndjson", csv: "csv", tsv: "csv", txt: "lines" };
const DELIMITERS = [",", ";", "\t"];
const LOOKED_AT = 6; // lines of a text that may be a table
const COLUMN = /^[\p{L}_][\p{L}\p{N}_.-]*( [\p{L}\p{N}_.-]+){0,2}$/u; // a name of at most three words

/** Guess a text's format from its file name and its beginning. */
export function detected(text, name, textField) {
  const ending = BY_ENDING[name.split(".").pop().toLowerCase()];
  if (ending && ending !== "lines") return ending;
  const start = text.trimStart();
  if (!ending && (start.startsWith("[") || /^{\s*"documents"/.test(start))) return "json";
  if (!ending && start.startsWith("{")) return "ndjson";
  return isTable(start, textField) ? "csv" : "lines"; // spreadsheets write tables as .txt, too
}

/** Whether the first line has the name of the text's column, or looks like names above rows of as many cells. */
function isTable(text, textField) {
  const [head, ...others] = csvRows(text.split(/\r?\n/, LOOKED_AT).join("\n"));
  const names = head ? columns(head) : [];
  if (names.includes(textField)) return true;
  const areNames = names.length > 1 && head.cells.every((one) => COLUMN.test(one)) && new Set(names).size === names.length;
  return areNames && others.length > 0 && others.every(({ cells }) => cells.length === names.length);
}

const columns = (head) => head.cells.map((name) => name.trim());

/**
 * The documents of a text, and what is wrong with the others.
 * command: loads the same file without the page.
 * Returns: documents: {id, text, metadata, place}, errors: {place, message}; a place is a line, in JSON an item.
 */
export function read(text, { format, prefix, textField, idField, command }) {
  const documents = [];
  if (format === "csv") {
    const [head] = csvRows(text.replace(/^\uFEFF/, ""));
    if (head && !columns(head).includes(textField)) {
      const message = t("add.noColumn", { field: textField, fields: columns(head).join(", "), command });
      return { documents, errors: [{ place: head.place, message }] };
    }
  }
  const errors = [];
  const places = new Map(); // id -> place
  for (const { place, value, trouble } of records(text.replace(/^\uFEFF/, ""), format)) {
    try {
      if (trouble) throw new Error(trouble);
      const record = format === "lines" ? { [textField]: value } : value;
      const document = toDocument(record, { place, prefix, textField, idField });
      const { id } = document;
      if (places.has(id)) throw new Error(t("add.repeated", { id, place: places.get(id) }));
      places.set(id, place);
      documents.push(document);
    } catch (error) {
      errors.push({ place, message: error.message });
    }
  }
  return { documents, errors };
}

/** One record, whose other fields become metadata. */
function toDocument(record, { place, prefix, textField, idField }) {
  if (typeof record !== "object" || record === null || Array.isArray(record)) throw new Error(t("add.noObject"));
  const { [textField]: text, [idField]: id, metadata, ...others } = record;
  const fields = Object.keys(record).join(", ");
  if (text === undefined) throw new Error(t("add.noField", { field: textField, fields }));
  if (typeof text !== "string" || text.trim() === "") throw new Error(t("add.noText", { field: textField }));
  const isObject = typeof metadata === "object" && metadata !== null && !Array.isArray(metadata);
  const kept = isObject ? { ...others, ...metadata } : metadata === undefined ? others : { ...others, metadata };
  const named = id === undefined || id === null || id === "" ? `${prefix}:${place}` : id;
  return { id: typeof named === "string" ? named : JSON.stringify(named), text, metadata: kept, place };
}

function* records(text, format) {
  if (format === "json") yield* items(text);
  else if (format === "csv") yield* csvRecords(text);
  else {
    let place = 0;
    for (const line of text.split(/\r?\n/)) {
      place += 1;
      if (line.trim() === "") continue;
      yield format === "lines" ? { place, value: line.trim() } : { place, ...parsed(line) };
    }
  }
}

function parsed(text) {
  try {
    return { value: parse(text) };
  } catch (error) {
    return { trouble: t("add.noJson", { why: error.message }) };
  }
}

function* items(text) {
  const { value, trouble } = parsed(text);
  const found = Array.isArray(value) ? value : value?.documents;
  if (trouble || !Array.isArray(found)) yield { place: 1, trouble: trouble ?? t("add.noArray") };
  else for (const [at, item] of found.entries()) yield { place: at + 1, value: item };
}

function* csvRecords(text) {
  const [head, ...rows] = csvRows(text);
  if (head === undefined) return;
  const names = columns(head);
  for (const { place, cells } of rows) {
    if (cells.every((cell) => cell.trim() === "")) continue;
    if (cells.length !== names.length) {
      yield { place, trouble: t("add.wrongCells", { has: cells.length, wanted: names.length }) };
    } else {
      const filled = cells.map((cell, at) => [names[at], cell]).filter(([name, cell]) => name !== "" && cell !== "");
      yield { place, value: Object.fromEntries(filled) };
    }
  }
}

/** The rows of a CSV text (RFC 4180; the delimiter is the most frequent one of the first line), each with its line. */
function csvRows(text) {
  const [first = ""] = text.split("\n", 1);
  const delimiter = DELIMITERS.reduce((best, one) => (first.split(one).length > first.split(best).length ? one : best));
  const token = new RegExp(`"((?:[^"]|"")*)"|([^${delimiter}\\r\\n]+)|(${delimiter})|(\\r\\n|\\n|\\r)`, "g");
  const rows = [];
  let [line, place, cells, cell] = [1, 1, [], ""];
  const endCell = () => {
    cells.push(cell);
    cell = "";
  };
  const endRow = () => {
    endCell();
    if (cells.length > 1 || cells[0].trim() !== "") rows.push({ place, cells });
    cells = [];
  };
  for (const [whole, quoted, plain, separator, newline] of text.matchAll(token)) {
    if (newline) endRow();
    else if (separator) endCell();
    else cell += plain ?? quoted.replaceAll('""', '"');
    line += whole.split("\n").length - 1;
    if (newline) place = line;
  }
  endRow();
  return rows;
}
