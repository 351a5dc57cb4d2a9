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
export const chosen = ({ collections }) => collections.find(({ name }) => name === menu.value) ?? collections[0];

/** Make the menu work; `onChange` is called when another is chosen. */
export function startCollections({ onChange }) {
  menu.addEventListener("change", onChange);
}

/** Choose the collection of a name ("": the default one); false: there is none. */
export function choose(name) {
  menu.value = name || DEFAULT;
  return menu.selectedIndex !== -1;
}

/** Offer those that there are; where the chosen one is gone, the first is chosen. */
export function showCollections(info) {
  const { name } = chosen(info);
  const option = (one) => el("option", { value: one.name, textContent: `${one.name} · ${number(one.documents)}` });
  menu.replaceChildren(...info.collections.map(option));
  menu.value = name;
  show(byId("collection-field"), info.collections.length > 1);
}
