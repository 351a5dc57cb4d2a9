// Sends requests: paths, the key, errors. Knows no route.

import { parse } from "./json.js";
import { askForKey, currentKey, refusedKey } from "./key.js";
import { t } from "./words.js";

/** A request that failed: `status` is 0 if the service did not answer; `retryAfter_s` is its Retry-After, if any. */
export class ApiError extends Error {
  constructor(message, status, retryAfter_s = null) {
    super(message);
    this.status = status;
    this.retryAfter_s = retryAfter_s;
  }
}

/** The URL of a route, under the page's own path. */
export const address = (path) => new URL(path, document.baseURI).href;

/**
 * The answer of a route: `data` is its JSON, `headers` its headers. `body` is JSON text.
 * Asks for a key where one is missing. Throws ApiError; AbortError when `signal` stops it.
 */
export async function call(method, path, body = null, { signal } = {}) {
  const used = currentKey();
  const { response, text } = await send(method, path, body, signal);
  if (response.status === 401 && (currentKey() !== used || (await askForKey(refusedKey())))) {
    return call(method, path, body, { signal });
  }
  if (response.ok) return { data: read(text, response), headers: response.headers };
  throw new ApiError(sentence(text, response), response.status, retryAfter(response));
}

async function send(method, path, body, signal) {
  const headers = body === null ? {} : { "content-type": "application/json" };
  // A key may hold any letters, and fetch takes bytes.
  if (currentKey()) headers.authorization = `Bearer ${String.fromCharCode(...new TextEncoder().encode(currentKey()))}`;
  try {
    const response = await fetch(address(path), { method, headers, body, signal, cache: "no-store" });
    return { response, text: await response.text() }; // a connection may end in the middle of it
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(t("error.unreachable"), 0);
  }
}

function read(text, response) {
  try {
    return parse(text);
  } catch (error) {
    throw new ApiError(`${status(response)} ${error.message}`, response.status); // from a proxy
  }
}

const status = (response) => t("error.status", { status: `${response.status} ${response.statusText}`.trim() });

function sentence(text, response) {
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error : error.message;
  } catch {
    return status(response); // from a proxy
  }
}

function retryAfter(response) {
  const given = Number.parseFloat(response.headers.get("retry-after"));
  return Number.isFinite(given) ? given : null;
}
