// The form that adds documents: a file or pasted text, a preview, progress.

import { ApiError } from "./api.js";
import { chosen, chosenName, route } from "./collections.js";
import { command, loadCommand, showCommand } from "./curl.js";
import { byId, el, say, show } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { columnsOf } from "./parquet.js";
import { FORMATS, LINE, detected, recordsOf } from "./parse.js";
import { showPreview } from "./preview.js";
import { documentsOf, fieldsOf, idAmong, textAmong } from "./table.js";
import { openTab } from "./tabs.js";
import { request, upload } from "./upload.js";
import { t } from "./words.js";

const MOST_ERRORS = 100; // to list; the others are counted
const OF_CURL = 2; // documents in the command that is shown
const MOST_FILE_BYTES = 50_000_000; // the page holds a file several times
const PARQUET = "PAR1"; // how such a file begins
const INPUTS = ["file", "pasted", "format", "text-field", "id-field", "types", "add-example"];

let info = null;
let reading = null; // the file that is being read
let source = { text: "", name: "" }; // columns: of a Parquet file.  trouble: says why the page cannot load it
let table = { records: [], fields: [], format: "lines" }; // what was read of the source
let found = { documents: [], errors: [] };
let sending = null;
let errors = 0;
let isSent = false; // then the page shows the outcome

/** Make the form work; `onStored` is called when there are new documents. */
export function startAdd({ onStored }) {
  byId("file").addEventListener("change", () => byId("file").files[0] && take(byId("file").files[0]));
  byId("pasted").addEventListener("input", () => use({ text: byId("pasted").value, name: "" }));
  byId("format").addEventListener("change", readSource);
  for (const id of ["text-field", "id-field", "types"]) byId(id).addEventListener("change", look);
  for (const id of ["add-example", "empty-example"]) byId(id).addEventListener("click", useExample);
  byId("add-curl").addEventListener("click", () => {
    const some = found.documents.slice(0, OF_CURL);
    const body = request(some.length ? some : [{ body: { id: "1", text: "Hello!" } }]);
    showCommand(command("PUT", route("documents"), body));
  });
  byId("stop").addEventListener("click", () => sending?.abort());
  byId("add-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    await send();
    onStored();
  });
  acceptDrops(byId("drop"));
  return { show: showInfo };
}

function showInfo(given) {
  info = given;
  const names = formatNames();
  const kept = byId("format").value;
  const options = FORMATS.map((value) => el("option", { value, textContent: names[value] }));
  byId("format").replaceChildren(el("option", { value: "", textContent: t("add.auto") }), ...options);
  byId("format").value = kept;
  if (!isSent) look();
}

const formatNames = () => ({ ndjson: t("add.ndjson"), json: t("add.json"), csv: t("add.csv"), lines: t("add.lines") });

function acceptDrops(zone) {
  for (const kind of ["dragover", "dragleave", "drop"]) {
    zone.addEventListener(kind, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
    });
  }
}

/** Use a file, unless another source is chosen while it is read. */
async function take(file) {
  if (sending !== null) return;
  byId("pasted").value = "";
  byId("file").value = ""; // so that the same file can be chosen again
  byId("send").disabled = true; // it would send the source before
  reading = file;
  const given = await sourceOf(file);
  if (reading === file) use(given);
}

async function sourceOf(file) {
  const given = { text: "", name: file.name, trouble: () => t("add.noUtf8") };
  try {
    if ((await start(file)) === PARQUET) {
      const columns = (await columnsOf(file)) ?? [];
      return { ...given, columns, trouble: (textField) => t("add.parquet", { command: parquetCommand(textField) }) };
    }
    if (file.size > MOST_FILE_BYTES) {
      const [size, most] = [file.size, MOST_FILE_BYTES].map((bytes) => Math.ceil(bytes / 1e6));
      return { ...given, trouble: () => t("add.large", { size, most, command: loadCommand(file.name, chosenName()) }) };
    }
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? given : { ...given, text, trouble: null };
  } catch {
    return given; // not UTF-8, or a folder
  }
}

const start = (file) => file.slice(0, PARQUET.length).text().catch(() => "");

function useExample() {
  openTab("add");
  if (sending !== null) return;
  byId("pasted").value = EXAMPLES;
  use({ text: EXAMPLES, name: "" });
  byId("send").focus();
}

function use(given) {
  [source, reading] = [given, null];
  say(byId("file-name"), given.name);
  readSource();
}

/** Read the input, and guess which field is the text and which the id. */
function readSource() {
  const format = byId("format").value || detected(source.text, source.name);
  const records = recordsOf(source.text, format);
  const fields = source.columns ?? fieldsOf(records, { isCsv: format === "csv" });
  const names = ({ fields: given }) => JSON.stringify(given.map(({ name }) => name));
  const isSame = names({ fields }) === names(table); // while documents are typed, the visitor's choice stays
  table = { records, fields, format };
  if (isSame) return look();
  const options = fields.map(({ name }) => el("option", { value: name, textContent: name }));
  byId("text-field").replaceChildren(...options);
  byId("text-field").value = textAmong(fields);
  const none = el("option", { value: "", textContent: t("add.noId") });
  byId("id-field").replaceChildren(none, ...options.map((option) => option.cloneNode(true)));
  byId("id-field").value = idAmong(fields);
  look();
}

/** Show what would be sent. */
function look() {
  isSent = false;
  const { records, fields, format } = table;
  const hasFields = fields.length > 0 && (format !== "lines" || Boolean(source.columns));
  const areTexts = format === "csv" && !byId("types").checked;
  const types = new Map(format === "csv" && !areTexts ? fields.map(({ name, type }) => [name, type]) : []);
  const own = info === null ? null : chosen(info).text ?? null; // how the collection makes the text of the fields
  const [textField, idField] = [own === null ? byId("text-field").value : null, byId("id-field").value];
  const prefix = source.name || `paste-${new Date().toISOString().slice(0, 10)}`;
  found = documentsOf(records, { textField, idField, prefix, types });
  show(byId("fields"), hasFields);
  show(byId("text-field").parentElement, own === null);
  show(byId("types").parentElement, format === "csv");
  show(byId("id-field").parentElement, !source.columns);
  say(byId("add-trouble"), source.trouble?.(textField) ?? "");
  const kept = own === null ? null : chosen(info).fields;
  showPreview(hasFields ? table : null, { textField, idField, own, kept, areTexts });
  byId("send").disabled = reading !== null || info === null || found.documents.length === 0;
  byId("send").textContent = found.documents.length ? t("add.send", { n: found.documents.length }) : t("add.sendNone");
  showErrors(found.errors);
  const isEmpty = source.text.trim() === "";
  say(byId("add-status"), isEmpty ? "" : t("add.found", { n: found.documents.length, format: formatNames()[format] }));
}

function parquetCommand(textField) {
  const text = [null, "", LINE].includes(textField) ? null : `{${textField}}`;
  return loadCommand(source.name, chosenName(), text);
}

function showErrors(list) {
  errors = 0;
  byId("add-errors").replaceChildren();
  list.forEach(showError);
  countErrors();
}

function showError({ place, message }) {
  errors += 1;
  if (errors > MOST_ERRORS) return;
  const where = table.format === "json" ? t("add.item", { n: place }) : t("add.line", { n: place });
  const items = [...byId("add-errors").children];
  const item = el("li", { "data-place": String(place) }, el("b", {}, where), " ", message);
  byId("add-errors").insertBefore(item, items.find((one) => Number(one.dataset.place) > place) ?? null);
}

function countErrors() {
  const more = errors > MOST_ERRORS ? ` ${t("add.moreErrors", { n: errors - MOST_ERRORS })}` : "";
  say(byId("errors-title"), errors ? t("add.errors", { n: errors }) + more : "");
}

async function send() {
  look(); // for the collection that is chosen now
  const { documents } = found;
  isSent = true;
  say(byId("add-trouble"), "");
  sending = new AbortController();
  setSending(true);
  let stored = 0;
  const onProgress = (done, soFar) => {
    stored = soFar;
    byId("progress").value = done / documents.length;
    byId("add-status").textContent = t("add.progress", { done, n: documents.length });
  };
  const onError = (place, message) => {
    showError({ place, message });
    countErrors();
  };
  try {
    const options = { limits: info.limits, signal: sending.signal, onProgress, onError };
    await upload(documents, { path: route("documents"), ...options }); // another choice is for the next upload
    say(byId("add-status"), t("add.stored", { n: stored }));
  } catch (error) {
    if (!(error instanceof ApiError) && error.name !== "AbortError") throw error;
    say(byId("add-status"), t("add.stopped", { n: stored }));
    if (error instanceof ApiError) say(byId("add-trouble"), error.message);
  } finally {
    sending = null;
    setSending(false);
  }
}

function setSending(isSending) {
  const isFocusLost = [document.body, byId("stop")].includes(document.activeElement);
  byId("progress").value = 0;
  show(byId("progress"), isSending);
  show(byId("stop"), isSending);
  for (const id of ["send", ...INPUTS]) byId(id).disabled = isSending;
  if (isFocusLost && !isSending) byId("send").focus({ preventScroll: true });
}
