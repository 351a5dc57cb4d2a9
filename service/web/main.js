// Starts the page: words, tabs, then each part with the facts of the service.

import { startAdd } from "./add.js";
import { call } from "./api.js";
import { showCollections, startCollections } from "./collections.js";
import { startCompare } from "./compare.js";
import { byId, say } from "./dom.js";
import { showFacts } from "./facts.js";
import { startKey } from "./key.js";
import { startSearch } from "./search.js";
import { startTabs } from "./tabs.js";
import { startWords } from "./words.js";

let info = null;

/** Fetch and show the facts again. */
async function refresh() {
  try {
    info = (await call("GET", "info")).data;
    say(byId("trouble"), "");
  } catch (error) {
    say(byId("trouble"), error.message);
  }
  showAll();
}

function showAll() {
  if (info === null) return;
  showCollections(info);
  showFacts(info);
  search.show(info);
  add.show(info);
}

const search = startSearch();
const add = startAdd({ onStored: refresh });
startCompare();
startCollections({
  onChange() {
    search.clear();
    showAll();
  },
});
await startWords(showAll);
startKey({ onNew: refresh });
let isAsked = false; // for the first time
startTabs((name) => isAsked && name === "about" && refresh());
document.documentElement.dataset.ready = "";
await refresh();
isAsked = true;
