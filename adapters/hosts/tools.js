// @ts-check
/** The agent's tools as the plugins register them. Those that foldlog has stand in adapters/mcp/tools.py word for word. */

/**
 * @typedef {object} Tool
 * @property {string} name
 * @property {string} description
 * @property {{ type: "object", properties: Record<string, any>, required?: string[] }} parameters JSON schema
 */

/** @type {Tool[]} */
export const TOOLS = [
  {
    name: "ctx_reduce",
    description:
      "Mark parts of this conversation as spent, by the numbers shown in front of them (§12§). They leave the " +
      "context later, together with other work; marking is free, and ctx_expand brings a part back.",
    parameters: {
      type: "object",
      properties: { drop: { type: "string", description: "Numbers of what is no longer needed, such as '3-5,8'." } },
      required: ["drop"],
    },
  },
  {
    name: "ctx_expand",
    description:
      "Bring back the original of what was dropped or summarised: parts by their numbers, or messages by ordinals.",
    parameters: {
      type: "object",
      properties: {
        tag: { type: "string", description: "Numbers of parts, such as '12' or '3-5,8'." },
        start: { type: "integer", description: "Ordinal of the first message, as a summary names it." },
        end: { type: "integer", description: "Ordinal of the last message; else only the first." },
      },
    },
  },
  later("ctx_note", "Write a note to keep for later.", "text", "The note."),
  later("ctx_memory", "Remember something about this project for later sessions.", "text", "What to remember."),
  later("ctx_search", "Search what was said and done in this project.", "query", "Words to look for."),
];

/** A tool that is registered already and answers that it is not built yet. */
function later(/** @type {string} */ name, /** @type {string} */ does, /** @type {string} */ field, /** @type {string} */ what) {
  return /** @type {Tool} */ ({
    name,
    description: `${does} Not built yet: it answers so.`,
    parameters: { type: "object", properties: { [field]: { type: "string", description: what } } },
  });
}

const PLACEHOLDER = /^\s*\[dropped(?: §\d+§)?\]\s*$/;

/** What `smart_drops` leaves of a text in an older edit: 40 characters and the mark. */
const SHORTENED = /^[\s\S]{40}\.\.\.\[truncated\]$/u;

/**
 * Why a call must not run: the model wrote the placeholder of a dropped part, or what is shown of an older edit's text,
 * where an argument belongs. Undefined: it may.
 * @param {unknown} input
 */
export function mimicked(input) {
  const values = input && typeof input === "object" ? Object.values(input) : [input];
  const shows = (/** @type {RegExp} */ shape) => values.some((value) => typeof value === "string" && shape.test(value));
  const what = shows(PLACEHOLDER)
    ? "the placeholder of a part that was dropped"
    : shows(SHORTENED) && "what is still shown of an older edit's text";
  if (!what) return undefined;
  return `An argument of this call is ${what}, not its content. Bring the part back with ctx_expand, or write the argument anew.`;
}
