// The parts of the page: one is shown at a time; the address names it (#compare).

import { place, setPlace } from "./place.js";

const MOVES = { ArrowRight: 1, ArrowLeft: -1 };
const ENDS = { Home: 0, End: -1 };

const tabs = [...document.querySelectorAll("[role=tab]")];
let current = null;
let opened = () => {};

/** Make the tabs work with mouse, keyboard (arrows, Home, End) and the browser's history. `onOpen` gets a name. */
export function startTabs(onOpen) {
  opened = onOpen;
  for (const [at, tab] of tabs.entries()) {
    tab.addEventListener("click", () => openTab(tab.dataset.tab));
    tab.addEventListener("keydown", (event) => {
      const next = event.key in MOVES ? (at + MOVES[event.key] + tabs.length) % tabs.length : ENDS[event.key];
      if (next === undefined) return;
      event.preventDefault();
      openTab(tabs.at(next).dataset.tab);
      tabs.at(next).focus();
    });
  }
  revealPlace();
}

/** Show a part. */
export function openTab(name) {
  setPlace({ name }, { isNew: true });
  reveal(name);
}

/** Show the part that the address names. */
export const revealPlace = () => reveal(place().name);

/** Whether a part is shown. */
export const isOpen = (name) => current.dataset.tab === name;

function reveal(name) {
  const chosen = tabs.find((tab) => tab.dataset.tab === name) ?? tabs[0];
  if (chosen === current) return;
  current = chosen;
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
  }
  opened(chosen.dataset.tab);
}
