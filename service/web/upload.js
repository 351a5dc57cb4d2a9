// Sends documents in batches through PUT. Knows the route's refusals; knows no element of the page.

import { ApiError, call } from "./api.js";
import { t } from "./words.js";

const MOST_DOCUMENTS = 64; // a batch: progress about ten times a second
const BODY_SHARE = 0.9; // of the largest body
const MOST_WAITS = 20; // in a row, for a busy service
const BUSY = [429, 503];
const ABOUT_DOCUMENTS = [400, 413, 422];

/** Cut documents into batches that fit into a request. */
function* batches(documents, { max_texts, max_body_bytes }) {
  const encoder = new TextEncoder();
  const most = Math.min(MOST_DOCUMENTS, max_texts);
  let [batch, bytes] = [[], 0];
  for (const document of documents) {
    const size = encoder.encode(JSON.stringify(document.body)).length;
    const isFull = batch.length >= most || bytes + size > BODY_SHARE * max_body_bytes;
    if (isFull && batch.length > 0) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(document);
    bytes += size;
  }
  if (batch.length) yield batch;
}

/** The body of a request for some documents. */
export const request = (documents) =>
  JSON.stringify({ documents: documents.map(({ body }) => body) });

/**
 * Store documents; returns how many were. Those that the service refuses are told to `onError` (place, message).
 * path: of the route.  onProgress: called with the number of documents that are done.
 * Throws ApiError: it is of no use to go on.
 */
export async function upload(documents, { path, limits, signal, onProgress, onError }) {
  let [stored, done] = [0, 0];
  for (const batch of batches(documents, limits)) {
    stored += await put(batch, { path, signal, onError });
    onProgress((done += batch.length), stored);
  }
  return stored;
}

async function put(batch, { path, signal, onError }) {
  try {
    const { data } = await patiently(() => call("PUT", path, request(batch), { signal }), signal);
    for (const { id, error } of data.failed ?? []) onError(batch.find((one) => one.id === id).place, error);
    return data.upserted;
  } catch (error) {
    if (!(error instanceof ApiError) || !ABOUT_DOCUMENTS.includes(error.status)) throw error;
    return withoutRefused(batch, error, { path, signal, onError });
  }
}

/** Put what remains when the document that an error names is left out; if it names none, put each half. */
async function withoutRefused(batch, error, options) {
  const at = batch.length === 1 ? 0 : Number(/^documents\[(\d+)\]/.exec(error.message)?.[1] ?? -1);
  if (batch[at]) {
    options.onError(batch[at].place, error.message.replace(/^documents\[\d+\](\.|: )?/, ""));
    const others = batch.filter((_, position) => position !== at);
    return others.length ? put(others, options) : 0;
  }
  const half = Math.ceil(batch.length / 2);
  return (await put(batch.slice(0, half), options)) + (await put(batch.slice(half), options));
}

/** Retry while the service is busy, after its Retry-After. */
async function patiently(ask, signal) {
  for (let waits = 0; ; waits += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!BUSY.includes(error.status)) throw error;
      if (waits === MOST_WAITS) throw new ApiError(t("add.busy", { why: error.message }), error.status);
      await pause((error.retryAfter_s ?? 1) * 1000, signal);
    }
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
