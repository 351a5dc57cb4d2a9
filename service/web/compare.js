// Two lists of texts and the cosines between them, as a heat map.

import { ApiError, call } from "./api.js";
import { command, showCommand } from "./curl.js";
import { byId, el, say, show } from "./dom.js";
import { score, t } from "./words.js";

const EXAMPLES = {
  left: ["Can I pay in instalments?", "How do I reset my password?", "When does the shop open?"],
  right: [
    "¿Puedo pagar a plazos?",
    "Wie kann ich mein Passwort zurücksetzen?",
    "À quelle heure ouvre le magasin ?",
    "明日は雨が降るでしょう。",
  ],
};

let running = null;

/** Make the form work. */
export function startCompare() {
  byId("compare-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  byId("compare-example").addEventListener("click", () => {
    for (const [side, texts] of Object.entries(EXAMPLES)) byId(side).value = texts.join("\n");
    run();
  });
  byId("compare-curl").addEventListener("click", () => {
    if (byId("compare-form").reportValidity()) showCommand(command("POST", "similarity", request(given())));
  });
}

/** The two lists; an empty second one means the first. */
function given() {
  const [left, right] = ["left", "right"].map((side) =>
    byId(side).value.split("\n").map((line) => line.trim()).filter(Boolean),
  );
  return { left, right: right.length > 0 ? right : left };
}

const request = ({ left, right }) => JSON.stringify({ inputs: { left, right } });

/** Compare the lists. A newer call ends an older one. */
async function run() {
  const lists = given();
  running?.abort();
  const mine = (running = new AbortController());
  say(byId("compare-trouble"), "");
  byId("panel-compare").setAttribute("aria-busy", "true");
  try {
    const { data } = await call("POST", "similarity", request(lists), { signal: mine.signal });
    byId("heat").replaceChildren(table(lists, data));
    show(byId("compare-result"), true);
    byId("compare-result").scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof ApiError)) throw error;
    show(byId("compare-result"), false);
    say(byId("compare-trouble"), error.message);
  } finally {
    if (running === mine) byId("panel-compare").setAttribute("aria-busy", "false");
  }
}

function table({ left, right }, matrix) {
  const heads = right.map((text) => el("th", { scope: "col" }, label(text)));
  const caption = el("caption", { className: "unseen" }, t("compare.caption"));
  const head = el("thead", {}, el("tr", {}, el("td"), ...heads));
  const rows = left.map((text, at) => el("tr", {}, el("th", { scope: "row" }, label(text)), ...cells(matrix[at])));
  return el("table", { className: "matrix" }, caption, head, el("tbody", {}, ...rows));
}

const label = (text) => el("span", { className: "label", dir: "auto", title: text }, text);

function cells(row) {
  const best = Math.max(...row);
  return row.map((value) => {
    const heat = Math.min(Math.max(value, 0), 1);
    const isBest = value === best && row.length > 1;
    const cell = el("td", { className: isBest ? "best" : "", title: String(value) }, score(value));
    cell.style.setProperty("--heat", `${heat * 100}%`);
    return cell;
  });
}
