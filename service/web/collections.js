// The collection that is searched and added to: a menu where there are several. Sends nothing.

import { byId, el, show } from "./dom.js";
import { number } from "./words.js";

const DEFAULT = "default"; // its routes have no name in them

const menu = byId("collection");

/** The name of the chosen collection; "" for the default one. */
export const chosenName = () => (menu.value === DEFAULT ? "" : menu.value);

/** The path of a route of the chosen collection. */
export const route = (path) => (chosenName() ? `collections/${encodeURIComponent(chosenName())}/${path}` : path);

/** The facts of the chosen collection. */
export const chosen = (info) => offered(info).find(({ name }) => name === menu.value) ?? offered(info)[0];

/** The collections that there are; where the key reaches none yet, the one that it makes with the first document. */
function offered({ collections, key }) {
  if (collections.length > 0) return collections;
  const name = [...(key?.write ?? []), ...(key?.read ?? []), DEFAULT][0];
  return [{ name, backend: "", documents: 0, size_bytes: 0, recall: null, text: null, fields: null }];
}

/** Make the menu work; `onChange` is called when another is chosen. */
export function startCollections({ onChange }) {
  menu.addEventListener("change", onChange);
}

/** Choose the collection of a name ("": the default one, or the first that the key reaches); false: there is none. */
export function choose(name) {
  const before = menu.value;
  menu.value = name || DEFAULT;
  if (!name && menu.selectedIndex === -1) menu.selectedIndex = 0;
  const isThere = menu.selectedIndex !== -1;
  if (!isThere) menu.value = before;
  return isThere;
}

/** Offer those that there are. Where the chosen one is gone, the first is chosen; returns the name of the other. */
export function showCollections(info) {
  const [{ name }, before] = [chosen(info), menu.value];
  const option = (one) => el("option", { value: one.name, textContent: `${one.name} · ${number(one.documents)}` });
  menu.replaceChildren(...offered(info).map(option));
  menu.value = name;
  show(byId("collection-field"), info.collections.length > 1);
  return before === name ? "" : before;
}
