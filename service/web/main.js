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

const WRITES = "input, textarea, select"; // where / is a letter

let info = null;
let [asked, answered] = [0, 0]; // requests for facts: how many, and the newest with an answer

/** Fetch and show the facts again; with the first ones, what the form asks for. */
async function refresh() {
  const mine = (asked += 1);
  const { data, message = "" } = await call("GET", "info").catch((error) => error);
  if (mine < answered) return;
  say(byId("trouble"), message);
  if (data === undefined) return;
  const isFirst = info === null;
  [info, answered] = [data, mine];
  showAll();
  if (!isFirst) return;
  if (chooseByAddress()) showAll();
  search.again();
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
  if (info !== null && chooseByAddress()) search.clear();
  showAll();
  search.restore();
}

/** Whether the address leads to another collection than the chosen one. */
function chooseByAddress() {
  const [name, before] = [place().fields.get("collection") ?? "", chosenName()];
  say(byId("trouble"), choose(name) ? "" : t("collection.gone", { name }));
  return chosenName() !== before;
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
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest(WRITES) || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  openTab("search");
  search.focus();
});
// On a touch screen the focus would open its keyboard.
if (isOpen("search") && !matchMedia("(pointer: coarse)").matches) search.focus();
document.documentElement.dataset.ready = "";
await refresh();
isAsked = true;
