// The page's language: its words and its number format.

import { byId, el, say } from "./dom.js";
import { stored } from "./storage.js";

const LANGUAGES = ["en", "de", "fr", "es"];
const CHOICE = "crosslet.language";

let language = "en";
let asked = ""; // the language chosen last
let words = {};

/** The words of a key, with {blanks} filled in; `n` chooses between singular and plural. */
export function t(key, blanks = {}) {
  const found = words[key] ?? key;
  const text = typeof found === "string" ? found : found[plural(blanks.n)] ?? found.other;
  return text.replace(/{(\w+)}/g, (blank, name) => (name in blanks ? shown(blanks[name]) : blank));
}

/** A number in the language's format, with at most so many decimals. */
export function number(value, decimals = 0) {
  return new Intl.NumberFormat(language, { maximumFractionDigits: decimals }).format(value);
}

/** A score, with two decimals always. */
export function score(value) {
  return new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(value);
}

/** The name of a language: `de` is Deutsch, or German. */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

/** Load the words of the visitor's language and offer the others; `onChange` is called after each change. */
export async function startWords(onChange) {
  const select = byId("language");
  for (const code of LANGUAGES) {
    const name = new Intl.DisplayNames([code], { type: "language" }).of(code);
    select.append(el("option", { value: code, textContent: name, lang: code }));
  }
  select.addEventListener("change", async () => {
    const code = select.value;
    if (await use(code)) {
      stored("localStorage", (storage) => storage.setItem(CHOICE, code));
      onChange();
    } else if (asked === code) {
      select.value = language;
      say(byId("trouble"), t("error.unreachable"));
    }
  });
  if (!(await use(wanted()))) await use("en");
  select.value = language;
}

function wanted() {
  const kept = stored("localStorage", (storage) => storage.getItem(CHOICE));
  const asked = [kept, ...navigator.languages].map((one) => String(one).slice(0, 2).toLowerCase());
  return asked.find((one) => LANGUAGES.includes(one)) ?? "en";
}

/** Show the page in a language; false: its words did not come, or another was chosen meanwhile. */
async function use(code) {
  asked = code;
  const read = (answer) => (answer.ok ? answer.json() : null);
  const found = await fetch(new URL(`page/${code}.json`, document.baseURI)).then(read).catch(() => null);
  if (found === null || asked !== code) return false;
  words = found;
  language = code;
  document.documentElement.lang = code;
  const places = { t: "textContent", tPlaceholder: "placeholder", tLabel: "ariaLabel", tTitle: "title" };
  for (const [data, property] of Object.entries(places)) {
    const attribute = `data-${data.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    for (const element of document.querySelectorAll(`[${attribute}]`)) element[property] = t(element.dataset[data]);
  }
  return true;
}

const plural = (n) => new Intl.PluralRules(language).select(n);
const shown = (value) => (typeof value === "number" ? number(value) : value);
