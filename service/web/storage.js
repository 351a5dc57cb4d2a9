// What the browser keeps for the page.

/** What `use` returns of localStorage or sessionStorage; null where the browser refuses it, as without cookies. */
export function stored(name, use) {
  try {
    return use(window[name]);
  } catch {
    return null;
  }
}
