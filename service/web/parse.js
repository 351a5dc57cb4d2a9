// Reads records from text: NDJSON, a JSON array, CSV, or one text a line. Knows formats; sends nothing.

import { parse } from "./json.js";
import { t } from "./words.js";

export const FORMATS = ["ndjson", "json", "csv", "lines"];
export const LINE = "text"; // the only field of a record where each line is a text
const BY_ENDING = { jsonl: "ndjson", ndjson: "ndjson", csv: "csv", tsv: "csv", txt: "lines" };
const DELIMITERS = [",", ";", "\t"];
const LOOKED_AT = 6; // lines of a text that may be a table
const COLUMN = /^[\p{L}_][\p{L}\p{N}_.-]*( [\p{L}\p{N}_.-]+){0,2}$/u; // a name of at most three words

/** Guess a text's format from its file name and its beginning. */
export function detected(text, name) {
  const ending = BY_ENDING[name.split(".").pop().toLowerCase()];
  if (ending && ending !== "lines") return ending;
  const start = text.trimStart();
  if (!ending && (start.startsWith("[") || /^{\s*"documents"/.test(start))) return "json";
  if (!ending && start.startsWith("{")) return "ndjson";
  return isTable(start) ? "csv" : "lines"; // spreadsheets write tables as .txt, too
}

/** Whether the first line has the name of the text's column, or looks like names above rows of as many cells. */
function isTable(text) {
  const [head, ...others] = csvRows(text.split(/\r?\n/, LOOKED_AT).join("\n"));
  const names = head ? columns(head) : [];
  if (names.includes(LINE)) return true;
  const areNames = names.length > 1 && head.cells.every((one) => COLUMN.test(one)) && new Set(names).size === names.length;
  return areNames && others.length > 0 && others.every(({ cells }) => cells.length === names.length);
}

const columns = (head) => head.cells.map((name) => name.trim());

/** The records of a text: {place, value}, or {place, trouble}; a place is a line, in JSON an item. */
export function recordsOf(text, format) {
  return [...records(text.replace(/^\uFEFF/, ""), format)].map((record) => {
    const isRecord = typeof record.value === "object" && record.value !== null && !Array.isArray(record.value);
    return isRecord || record.trouble ? record : { place: record.place, trouble: t("add.noObject") };
  });
}

function* records(text, format) {
  if (format === "json") yield* items(text);
  else if (format === "csv") yield* csvRecords(text);
  else {
    let place = 0;
    for (const line of text.split(/\r?\n/)) {
      place += 1;
      if (line.trim() === "") continue;
      yield { place, ...(format === "lines" ? { value: { [LINE]: line.trim() } } : parsed(line)) };
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
