// Makes documents of records: which field is the text, which the id, and what type the values have.

import { parse } from "./json.js";
import { LINE } from "./parse.js";
import { t } from "./words.js";

const ID = "id";
const BOOLEANS = [["true", "false"], ["True", "False"], ["TRUE", "FALSE"]];
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?$/;
const MIXED = "mixed";
const LETTER = /\p{L}/gu;
const LOOKED_AT = 1000; // records whose letters are counted

/** The fields of records in the order of their first use, each with its type and the letters of its first values. */
export function fieldsOf(records, { isCsv }) {
  const fields = new Map(); // name -> {cells, types, letters}
  for (const [at, { value }] of records.entries()) {
    for (const [name, cell] of Object.entries(value ?? {})) {
      if (!fields.has(name)) fields.set(name, { cells: [], types: new Set(), letters: 0 });
      const field = fields.get(name);
      if (isCsv) field.cells.push(cell);
      if (cell !== null) field.types.add(typeOf(cell));
      if (typeof cell === "string" && at < LOOKED_AT) field.letters += cell.match(LETTER)?.length ?? 0;
    }
  }
  return [...fields].map(([name, { cells, types, letters }]) => {
    const [type = "text", other] = types;
    return { name, type: isCsv ? typeOfCells(cells) : other ? MIXED : type, letters };
  });
}

function typeOf(value) {
  if (Array.isArray(value)) return "list";
  if (JSON.isRawJSON?.(value)) return "number";
  return { string: "text", object: "object" }[typeof value] ?? typeof value;
}

/** The type of CSV cells, if JSON writes each as it is: 007, 1.10 and 1e5 stay texts. */
function typeOfCells(cells) {
  if (BOOLEANS.some((spellings) => cells.every((cell) => spellings.includes(cell)))) return "boolean";
  return cells.every(isNumber) ? "number" : "text";
}

function isNumber(cell) {
  if (!NUMBER.test(cell)) return false;
  const isWhole = !cell.includes(".");
  return isWhole ? BigInt.asIntN(64, BigInt(cell)) === BigInt(cell) && cell !== "-0" : String(Number(cell)) === cell;
}

/** The field that is most likely the text: by its name, else the one with most letters. */
export function textAmong(fields) {
  if (fields.some(({ name }) => name === LINE)) return LINE;
  const texts = fields.filter(({ name, type }) => type === "text" && name !== ID);
  const [most] = texts.sort((one, other) => other.letters - one.letters);
  return most?.name ?? fields[0]?.name ?? LINE;
}

/** The field of the ids; "" if there is none. */
export const idAmong = (fields) => (fields.some(({ name }) => name === ID) ? ID : "");

/**
 * The documents of records, and what is wrong with the others.
 * types: field -> type, of CSV cells.  textField: null if the collection makes the text of the fields.
 * Returns: documents: {place, id, body}, with what is sent as body; errors: {place, message}.
 */
export function documentsOf(records, { textField, idField, prefix, types }) {
  const documents = [];
  const errors = [];
  const places = new Map(); // id -> place
  for (const { place, value, trouble } of records) {
    try {
      if (trouble) throw new Error(trouble);
      const { [idField]: given, ...others } = value;
      const id = named(given) ?? `${prefix}:${place}`;
      const parts = textField === null ? typed(others, types) : inParts(others, { textField, types });
      const body = { ...parts, id };
      if (places.has(id)) throw new Error(t("add.repeated", { id, place: places.get(id) }));
      places.set(id, place);
      documents.push({ place, id, body });
    } catch (error) {
      errors.push({ place, message: error.message });
    }
  }
  return { documents, errors };
}

function named(id) {
  if (id === undefined || id === null || id === "") return null;
  return typeof id === "string" ? id : JSON.stringify(id);
}

/** Text and metadata: all other fields become metadata. */
function inParts(fields, { textField, types }) {
  const { [textField]: text, metadata, ...others } = fields;
  const names = Object.keys(fields).join(", ");
  if (text === undefined) throw new Error(t("add.noField", { field: textField, fields: names }));
  if (typeof text !== "string" || text.trim() === "") throw new Error(t("add.noText", { field: textField }));
  const isObject = typeOf(metadata) === "object" && metadata !== null;
  const inner = isObject || metadata === undefined ? metadata : { metadata };
  return { text, metadata: { ...typed(others, types), ...inner } };
}

function typed(fields, types) {
  const value = (name, cell) => {
    if (typeof cell !== "string" || !["number", "boolean"].includes(types.get(name))) return cell;
    return parse(cell.toLowerCase());
  };
  return Object.fromEntries(Object.entries(fields).map(([name, cell]) => [name, value(name, cell)]));
}
