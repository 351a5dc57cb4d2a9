// Makes and finds elements. Text becomes text nodes, never HTML.

export const byId = (id) => document.getElementById(id);

/** An element with properties, ARIA and data attributes, and children: elements or text; null is left out. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (/^(aria-|data-|role$)/.test(name)) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Show or hide an element. */
export function show(element, isShown) {
  element.hidden = !isShown;
}

/** Say something in an element that assistive technology announces; empty hides it. */
export function say(element, text) {
  element.textContent = text;
  show(element, text !== "");
}
