// Starts the page: words, tabs, then each part with the facts of the service.

import { startAdd } from "./add.js";
import { call } from "./api.js";
import { choose, chosenName, showCollections, startCollections } from "./collections.js";
import { startCompare } from "./compare.js";
import { byId, say } from "./dom.js";
import { showFacts } from "./facts.js";
import { startKey } from "./key.js";
import { onMove, place } from "./place.js";
import { startSearch } from "./search.js";
import { startSettings } from "./settings.js";
import { isOpen, openTab, revealPlace, startTabs } from "./tabs.js";
import { startWords, t } from "./words.js";

const WRITES = "input, textarea, select, dialog *"; // where / is a letter

let info = null;

/** Fetch and show the facts again; with the first ones, what the address says. */
async function refresh() {
  const before = info;
  try {
    info = (await call("GET", "info")).data;
    say(byId("trouble"), "");
  } catch (error) {
    say(byId("trouble"), error.message);
  }
  showAll();
  if (before === null) follow();
}

function showAll() {
  if (info === null) return;
  const gone = showCollections(info);
  showFacts(info);
  search.show(info);
  add.show(info);
  settings.show(info);
  if (gone === "") return;
  search.clear();
  say(byId("trouble"), t("collection.gone", { name: gone }));
  search.again();
}

async function refreshDocuments() {
  await refresh();
  search.again();
}

/** Show what the address says. */
function follow() {
  revealPlace();
  byId("edit-dialog").close(); // it may be of another collection
  if (info === null) return;
  const [name, before] = [place().fields.get("collection") ?? "", chosenName()];
  const isThere = choose(name);
  say(byId("trouble"), isThere ? "" : t("collection.gone", { name }));
  if (chosenName() !== before) search.clear();
  showAll();
  search.restore();
}

function changeCollection() {
  search.clear();
  showAll();
  search.ask();
}

const search = startSearch({ onStart: refresh, onChange: refreshDocuments });
const add = startAdd({ onStored: refreshDocuments });
const settings = startSettings({
  async onSet(name) {
    await refresh();
    if (!choose(name)) return false; // the answer did not come
    changeCollection();
    return true;
  },
});
startCompare();
startCollections({ onChange: changeCollection });
await startWords(() => {
  showAll();
  search.again();
});
startKey({ onNew: refreshDocuments });
let isAsked = false; // for the first time
startTabs((name) => isAsked && name === "about" && refresh());
onMove(follow);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(WRITES)) return;
  event.preventDefault();
  openTab("search");
  search.focus();
});
// On a touch screen the focus would open its keyboard.
if (isOpen("search") && !matchMedia("(pointer: coarse)").matches) search.focus();
document.documentElement.dataset.ready = "";
await refresh();
isAsked = true;
