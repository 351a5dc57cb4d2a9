// The parts of the page: one is seen at a time, and the address says which (#compare).

/** Make the tabs work with mouse, keyboard (arrows, Home, End) and the browser's history. `onOpen` gets a name. */
export function startTabs(onOpen) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -tabs.length, End: tabs.length };

  function open(name) {
    const chosen = tabs.find((tab) => tab.dataset.tab === name) ?? tabs[0];
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
    onOpen(chosen.dataset.tab);
    return chosen;
  }

  for (const tab of tabs) {
    tab.addEventListener("click", () => (location.hash = tab.dataset.tab));
    tab.addEventListener("keydown", (event) => {
      if (!(event.key in moves)) return;
      event.preventDefault();
      const far = Math.abs(moves[event.key]) === tabs.length;
      const at = tabs.indexOf(tab) + moves[event.key];
      const next = far ? Math.min(Math.max(at, 0), tabs.length - 1) : (at + tabs.length) % tabs.length;
      location.hash = tabs[next].dataset.tab;
      open(tabs[next].dataset.tab).focus();
    });
  }
  addEventListener("hashchange", () => open(location.hash.slice(1)));
  open(location.hash.slice(1));
}
