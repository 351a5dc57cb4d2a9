// What a collection takes of documents with their own fields: shown, and set while it is empty.

import { ApiError, call } from "./api.js";
import { chosen } from "./collections.js";
import { byId, say } from "./dom.js";
import { t } from "./words.js";

let info = null;
let filled = null; // the collection that the form began with
let typed = null; // the text and the fields that the visitor wrote

/** Make the form work; `onSet` is called with a collection's name once it is set up; false: the page cannot show it. */
export function startSettings({ onSet }) {
  const [text, fields] = [byId("settings-text"), byId("settings-fields")];
  for (const field of [text, fields]) field.addEventListener("input", () => (typed = [text.value, fields.value]));
  byId("settings-name").addEventListener("input", showSettings);
  byId("settings-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = byId("settings-name").value;
    say(byId("settings-trouble"), "");
    say(byId("settings-status"), "");
    try {
      await call("PUT", `collections/${encodeURIComponent(name)}`, request());
      typed = null;
      if (await onSet(name)) say(byId("settings-status"), t("settings.set", { name }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(byId("settings-trouble"), error.message);
    }
  });
  return { show: showInfo };
}

function showInfo(given) {
  info = given;
  const { name } = chosen(info);
  if (name !== filled) [filled, typed, byId("settings-name").value] = [name, null, name];
  showSettings();
}

/** The settings of the collection that is named, or what a new one may have. */
function showSettings() {
  const known = info.collections.find(({ name }) => name === byId("settings-name").value);
  const isFixed = (known?.documents ?? 0) > 0;
  const [text, fields] = [byId("settings-text"), byId("settings-fields")];
  const stored = known && [known.text ?? "", (known.fields ?? []).join(", ")];
  [text.value, fields.value] = (isFixed ? null : typed) ?? stored ?? [text.value, fields.value];
  for (const field of [text, fields]) field.readOnly = isFixed;
  byId("settings-save").disabled = isFixed;
  say(byId("settings-status"), isFixed ? t("settings.fixed", { n: known.documents }) : "");
}

function request() {
  const names = byId("settings-fields").value.split(",").map((name) => name.trim()).filter(Boolean);
  const settings = {};
  if (byId("settings-text").value.trim()) settings.text = byId("settings-text").value;
  if (names.length > 0) settings.fields = names;
  return JSON.stringify(settings);
}
