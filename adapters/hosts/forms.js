// @ts-check
/**
 * Tag notation, canonical JSON and digests, as projections/wire/v1 has them (specs/json-forms.md, specs/view.md). Values
 * are what JSON.parse gives or JSON.stringify takes; what a plugin holds is what it sent, so both ends see one form.
 */
import { createHash } from "node:crypto";

const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const BLANK = new RegExp(`^[${SPACE}]*$`, "u");
const TRIM = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu");
const WELL = "§[0-9]+§";
const MALFORMED = '§[0-9]+">§(?:[0-9]+§)?';
const DANGLING = `§[0-9]+(?![0-9])(?!\\.[0-9])[^\\p{L}\\p{N}_${SPACE}.§]?`;
const LEADING = new RegExp(`(?:(?:${WELL} ?)+|(?:${MALFORMED}|${DANGLING}) ?)`, "uy");
const OWN = new RegExp(`^(?:${WELL} ?)+`, "u");
const ANYWHERE = [MALFORMED, WELL, DANGLING].map((shape) => new RegExp(shape, "gu"));
const ROUNDS = 8;

/** Whether a text is empty or white space only. @param {string} text */
export const blank = (text) => BLANK.test(text);

/** How much of `text` is tag notation at its beginning, the model's echo of ours. @param {string} text */
export function echoLength(text) {
  let at = 0;
  for (let round = 0; text.startsWith("§") && round < ROUNDS; round++) {
    LEADING.lastIndex = at;
    const found = LEADING.exec(text);
    if (!found) break;
    at = LEADING.lastIndex;
  }
  return at;
}

/** How much of `text` is well-formed notation at its beginning: what foldlog itself writes. @param {string} text */
export const ownLength = (text) => OWN.exec(text)?.[0].length ?? 0;

/** Assistant text as it is to be kept: no notation anywhere, no `§` left, trimmed. @param {string} text */
export function stripAll(text) {
  let left = text.slice(echoLength(text));
  for (const shape of ANYWHERE) left = left.replace(shape, "");
  return left.replaceAll("§", "").replace(TRIM, "");
}

/** @param {string} a @param {string} b */
function byCodePoint(a, b) {
  if (/[\ud800-\udfff]/.test(a + b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A JSON string; one with half a surrogate pair in it is written with escapes (JSON-6). @param {string} text */
function quoted(text) {
  const json = JSON.stringify(text);
  if (/** @type {any} */ (text).isWellFormed()) return json;
  return json.replace(/[\x7f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** @param {number} value */
function number(value) {
  if (!Number.isFinite(value)) return "null";
  const size = Math.abs(value);
  if (Number.isInteger(value) ? size >= 1e21 : size < 1e-5) return value.toExponential().replace("+", "");
  return JSON.stringify(value);
}

/** Canonical JSON: members sorted by code point, no white space, shortest numbers. @param {any} value @returns {string} */
export function canonical(value) {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one === undefined ? null : one)).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const keys = Object.keys(value).filter((key) => value[key] !== undefined);
  return `{${keys.sort(byCodePoint).map((key) => `${quoted(key)}:${canonical(value[key])}`).join(",")}}`;
}

/** @param {(string | Buffer)[]} parts */
export function sha256(...parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/**
 * The digests of a message's blocks in wire order; members that reach the model beside the parts ride on the first.
 * @param {any[]} values identity values of its parts @param {string} role @param {Record<string, any>} [members]
 */
export function blockDigests(values, role, members) {
  const given = values.length ? values : [{ type: "empty" }];
  return given.map((block, i) => sha256(canonical(members && !i ? { block, members, role } : { block, role })));
}
