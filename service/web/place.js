// The address of the page: the part that is shown and what is asked, such as #search?q=kettle&mode=dense.
// All of it is behind the #, which browsers send to nobody: no log of a server or proxy has it.

/** The part's name, and the fields as URLSearchParams. */
export function place() {
  const [, name, fields] = /^#?([^?]*)\??(.*)$/s.exec(location.hash);
  return { name, fields: new URLSearchParams(fields) };
}

/** Change the address, as a new entry of the browser's history or in place of the current one. */
export function setPlace({ name = place().name, fields = place().fields }, { isNew }) {
  const hash = `#${name}${String(fields) && `?${fields}`}`;
  if (hash === (location.hash || "#")) return;
  history[isNew ? "pushState" : "replaceState"](null, "", location.pathname + location.search + hash);
}

/** `callback` is called when the visitor goes back or forward, or changes the address. */
export function onMove(callback) {
  addEventListener("popstate", callback);
}
