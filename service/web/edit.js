// One document, to change or delete, in a dialog.

import { ApiError, call } from "./api.js";
import { route } from "./collections.js";
import { byId, say, show } from "./dom.js";
import { parse } from "./json.js";
import { askForKey, currentKey } from "./key.js";
import { t } from "./words.js";

const FORBIDDEN = 403;

let reading = new AbortController(); // of the document that the dialog showed last

/** The path of a document. Its slashes stay as they are: some proxies refuse %2F. */
const path = (id) => `${route("documents")}/${id.split("/").map(encodeURIComponent).join("/")}`;

/**
 * Show a document as it is now; `onChange` is called when it was changed or deleted.
 * hasOwnFields: the collection makes the text of the metadata.
 */
export async function editDocument(id, { hasOwnFields, onChange }) {
  const dialog = byId("edit-dialog");
  const [text, metadata] = [byId("edit-text"), byId("edit-metadata")];
  const [own, all] = [path(id), route("documents")]; // of the collection that is chosen now
  reading.abort(); // the close event of the dialog may come when it is open again
  const { signal } = (reading = new AbortController());
  let before = null;
  const send = (method, way, body = null) =>
    attempt(async () => {
      enable(false);
      try {
        const { data } = await retried(() => call(method, way, body));
        if (data.failed) throw new ApiError(data.failed[0].error, 0);
      } finally {
        if (!signal.aborted) enable(true);
      }
      if (!signal.aborted) dialog.close();
      onChange();
    }, signal);
  byId("edit-id").textContent = id;
  text.value = metadata.value = "";
  text.readOnly = hasOwnFields;
  confirming(false);
  byId("edit-form").onsubmit = (event) => {
    event.preventDefault();
    attempt(() => {
      const fields = objectIn(metadata.value);
      const isSameText = text.value === before.shown;
      const patch = isSameText ? patchOf(before.metadata, fields) : null;
      if (patch !== null) return send("PATCH", own, JSON.stringify({ metadata: patch }));
      const parts = { id, text: isSameText ? before.text : text.value, metadata: fields };
      return send("PUT", all, JSON.stringify({ documents: [hasOwnFields ? { ...fields, id } : parts] }));
    }, signal);
  };
  byId("edit-delete").onclick = () => confirming(true);
  byId("edit-no").onclick = () => {
    confirming(false);
    byId("edit-delete").focus();
  };
  byId("edit-yes").onclick = () => send("DELETE", own);
  byId("edit-cancel").onclick = () => dialog.close();
  dialog.onclose = () => dialog.open || reading.abort();
  enable(false);
  dialog.showModal();
  await attempt(async () => {
    const { data } = await call("GET", own, null, { signal });
    text.value = data.text;
    metadata.value = JSON.stringify(data.metadata, null, 2);
    before = { ...data, shown: text.value }; // a textarea changes line ends
    enable(true);
    text.focus();
  }, signal);
}

function enable(isEnabled) {
  for (const part of ["text", "metadata", "save", "delete", "yes", "no"]) byId(`edit-${part}`).disabled = !isEnabled;
}

function confirming(isAsking) {
  show(byId("edit-buttons"), !isAsking);
  show(byId("edit-confirm"), isAsking);
  if (isAsking) byId("edit-no").focus();
}

/** Say why something fails, outside the dialog if it was closed meanwhile. */
async function attempt(action, signal) {
  say(byId("edit-trouble"), "");
  try {
    await action();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof ApiError || error instanceof SyntaxError)) throw error;
    say(byId(signal.aborted ? "trouble" : "edit-trouble"), error.message);
    if (signal.aborted) return;
    confirming(false);
    byId("edit-save").focus(); // disabled, a button loses the focus
  }
}

/** Ask for another key, once, where the one that is there may only read. */
async function retried(ask) {
  try {
    return await ask();
  } catch (error) {
    if (error.status !== FORBIDDEN || !currentKey() || !(await askForKey(error.message))) throw error;
    return ask();
  }
}

function objectIn(text) {
  let value;
  try {
    value = parse(text);
  } catch (error) {
    throw new SyntaxError(t("edit.noJson", { why: error.message }));
  }
  if (!isObject(value)) throw new SyntaxError(t("edit.noObject"));
  return value;
}

const isObject = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !JSON.isRawJSON?.(value);

/**
 * What PATCH needs to turn one object into the other: null removes a key, an object changes the keys in it (RFC 7396).
 * null: there is a null to keep, which no patch can say.
 */
function patchOf(before, after) {
  const hasNull = (value) => value === null || (isObject(value) && Object.values(value).some(hasNull));
  return hasNull(after) ? null : changes(before, after);
}

function changes(before, after) {
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  const isChanged = ([key, value]) => JSON.stringify(value) !== JSON.stringify(before[key]);
  const changed = Object.entries(after).filter(isChanged);
  const change = (old, value) => (isObject(old) && isObject(value) ? changes(old, value) : value);
  return Object.fromEntries([
    ...removed.map((key) => [key, null]),
    ...changed.map(([key, value]) => [key, change(Object.hasOwn(before, key) ? before[key] : null, value)]),
  ]);
}
