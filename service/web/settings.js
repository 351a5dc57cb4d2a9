// What a collection takes of documents with their own fields: shown, and set while it is empty.

import { ApiError, call } from "./api.js";
import { chosen } from "./collections.js";
import { byId, say } from "./dom.js";
import { t } from "./words.js";

let info = null;

/** Make the form work; `onSet` is called with a collection's name once it is set up. */
export function startSettings({ onSet }) {
  byId("settings-name").addEventListener("input", showSettings);
  byId("settings-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = byId("settings-name").value;
    say(byId("settings-trouble"), "");
    say(byId("settings-status"), "");
    try {
      await call("PUT", `collections/${encodeURIComponent(name)}`, request());
      await onSet(name);
      say(byId("settings-status"), t("settings.set", { name }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(byId("settings-trouble"), error.message);
    }
  });
  return { show: showInfo };
}

function showInfo(given) {
  info = given;
  byId("settings-name").value = chosen(info).name;
  showSettings();
}

/** The settings of the collection that is named, or what a new one may have. */
function showSettings() {
  const known = info.collections.find(({ name }) => name === byId("settings-name").value);
  const isFixed = (known?.documents ?? 0) > 0;
  const [text, fields] = [byId("settings-text"), byId("settings-fields")];
  if (known) [text.value, fields.value] = [known.text ?? "", (known.fields ?? []).join(", ")];
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
