// The API key: asked for when the service needs one, kept in this tab, sent to this service only.

import { byId, say, show } from "./dom.js";
import { stored } from "./storage.js";
import { t } from "./words.js";

const PLACE = `crosslet.key:${new URL(document.baseURI).pathname}`; // several services may share a host

let key = stored("sessionStorage", (storage) => storage.getItem(PLACE)) ?? "";
let asking = null;

/** The key of requests; empty without one. */
export const currentKey = () => key;

/** Let the visitor change or forget the key; `onNew` is called after a change. */
export function startKey({ onNew }) {
  byId("key-button").addEventListener("click", async () => (await askForKey("")) && onNew());
  show(byId("key-button"), key !== "");
}

/** Ask for a key; true once there is a new one, false if the visitor declines. One dialog for all who ask. */
export function askForKey(trouble) {
  asking ??= ask(trouble).finally(() => (asking = null));
  return asking;
}

function ask(trouble) {
  const dialog = byId("key-dialog");
  const field = byId("key");
  show(byId("key-button"), true);
  say(byId("key-trouble"), trouble);
  field.value = "";
  byId("key-forget").disabled = key === "";
  byId("key-forget").onclick = () => dialog.close("forget");
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    byId("key-form").onsubmit = (event) => {
      event.preventDefault(); // the page's policy forbids submitting forms
      dialog.close("use");
    };
    byId("key-cancel").onclick = () => dialog.close("");
    dialog.onclose = () => {
      if (dialog.returnValue) use(dialog.returnValue === "use" ? field.value.trim() : "");
      field.value = "";
      resolve(dialog.returnValue === "use" && key !== "");
    };
  });
}

/** The message about a refused key. */
export const refusedKey = () => (key === "" ? t("key.needed") : t("key.wrong"));

function use(given) {
  key = given;
  stored("sessionStorage", (storage) => (key ? storage.setItem(PLACE, key) : storage.removeItem(PLACE)));
}
