// Reads JSON without losing digits: identifiers of 19 digits are common, and a JavaScript number holds 15.

/**
 * The value of a JSON text. Whole numbers beyond 2^53 become what JSON.stringify writes with the same digits.
 * Throws SyntaxError: it is no JSON, or the browser cannot keep such a number.
 */
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const source = context?.source ?? String(value);
    if (typeof value !== "number" || Number.isSafeInteger(value) || !/^-?\d+$/.test(source)) return value;
    if (!context?.source || !JSON.rawJSON) throw new SyntaxError(`this browser cannot keep the number ${source}`);
    return JSON.rawJSON(source);
  });
}

/** A value as a person reads it: strings without quotes, all else as JSON. */
export const readable = (value) => (typeof value === "string" ? value : JSON.stringify(value));
