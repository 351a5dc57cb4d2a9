// Commands for a shell, such as a request for curl, without the key: other programs read the clipboard.

import { address } from "./api.js";
import { byId } from "./dom.js";
import { currentKey } from "./key.js";
import { t } from "./words.js";

/** The command for a POSIX shell. */
export function command(method, path, body = null) {
  const named = method === "GET" || method === "POST" ? "" : ` -X ${method}`; // curl's own, without and with a body
  const parts = [`curl -s${named} ${quoted(address(path))}`];
  if (currentKey()) parts.push('-H "Authorization: Bearer $CROSSLET_KEY"');
  if (body !== null) parts.push("-H 'content-type: application/json'", `-d ${quoted(body)}`);
  return parts.join(" \\\n  ");
}

/** The command that loads a file of a collection ("": the default one) through the service. text: a template. */
export function loadCommand(file, collection, text = null) {
  const chosen = collection ? ` --collection ${collection}` : "";
  return `crosslet index build ${quoted(file)} --url ${address("").replace(/\/$/, "")}${chosen}${text === null ? "" : ` --text ${quoted(text)}`}`;
}

/** Show a command, to be read and copied. */
export function showCommand(text) {
  const copy = byId("curl-copy");
  byId("curl-text").textContent = text;
  copy.textContent = t("curl.copy");
  copy.onclick = async () => {
    copy.textContent = (await copied(text)) ? t("curl.copied") : t("curl.manual");
  };
  byId("curl-close").onclick = () => byId("curl-dialog").close();
  byId("curl-dialog").showModal();
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text); // only on https and localhost
    return true;
  } catch {
    getSelection().selectAllChildren(byId("curl-text"));
    return document.execCommand("copy");
  }
}

const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
