// @ts-check
/** Pi's and OMP's messages under the view: the twin of the `pi` codec of projections/wire/v1 (specs/view.md). */
import { blank, echoLength, ownLength } from "../forms.js";
import { PLAIN, dropped, slotOf, texts, whole } from "../slots.js";

const MEDIA = new Set(["image", "document", "image_url", "input_audio", "file"]);
/** Roles whose content is a list of parts; a message of any other is one part that is never edited. */
const SPOKEN = new Set(["user", "assistant", "custom", "developer", "hookMessage", "system"]);
const ASSISTANT = /** @type {Record<string, string>} */ ({ text: "text", image: "media", thinking: "thinking", toolCall: "call" });
const PERSON = /** @type {Record<string, string>} */ ({ text: "text", image: "media" });
const SYSTEM = /** @type {Record<string, string>} */ ({ text: "text" });

/** @typedef {{ kind: string, at: "string" | "item" | "message", value: any, index: number }} Unit */

/** @param {any} block */
function unmarked(block) {
  if (!block || typeof block !== "object" || !("cache_control" in block)) return block;
  const { cache_control: _, ...rest } = block;
  return rest;
}

/** @param {any} block */
function bare(block) {
  const left = unmarked(block);
  if (left?.type !== "tool_result" || !Array.isArray(left.content)) return left;
  return left.content.some((/** @type {any} */ one) => unmarked(one) !== one) ? { ...left, content: left.content.map(unmarked) } : left;
}

/** The message without cache marks; itself where it has none. @param {any} message */
function clean(message) {
  if (!Array.isArray(message.content)) return message;
  const content = message.content.map(bare);
  return content.some((/** @type {any} */ one, /** @type {number} */ i) => one !== message.content[i]) ? { ...message, content } : message;
}

/** @param {any} message @returns {Unit[]} the parts of a message, in order */
export function units(message) {
  const { role, content } = message;
  if (role === "toolResult") return [{ kind: "result", at: "message", value: message, index: 0 }];
  if (!SPOKEN.has(role)) return [{ kind: "other", at: "message", value: message, index: 0 }];
  if (typeof content === "string") return [{ kind: "text", at: "string", value: content, index: 0 }];
  const kinds = role === "assistant" ? ASSISTANT : role === "system" ? SYSTEM : PERSON;
  return (content ?? []).map((/** @type {any} */ value, /** @type {number} */ index) => ({
    kind: kinds[value.type] ?? "other",
    at: "item",
    value,
    index,
  }));
}

/** @param {any} content */
function asBlocks(content) {
  if (typeof content === "string") return [{ text: content, type: "text" }];
  return Array.isArray(content) ? content.map(unmarked) : content;
}

/** @param {Unit} unit */
function identity({ kind, at, value }) {
  if (at === "string") return { text: value, type: "text" };
  if (at === "item") {
    const { partialJson: _, ...rest } = unmarked(value);
    return rest;
  }
  if (kind !== "result") {
    const { timestamp: _, ...rest } = value;
    return rest;
  }
  const { toolCallId, toolName, isError } = value;
  return { type: "tool_result", content: asBlocks(value.content), toolCallId, toolName, isError };
}

/** What a message's digest is made of: identity values of its parts, its role, what rides beside. @param {any} message */
export function spoken(message) {
  const stop = message.role === "assistant" ? message.stopReason : undefined;
  const members = stop === undefined || stop === null ? undefined : { stopReason: stop };
  return { values: units(message).map(identity), role: message.role, members };
}

/** @param {string} text */
const block = (text) => ({ type: "text", text });

const NO_USAGE = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

/** @param {string} stopReason */
const answered = (stopReason) => ({ api: "foldlog", provider: "foldlog", model: "foldlog", usage: NO_USAGE, stopReason, timestamp: 0 });

/** @param {string} role @param {string} text */
export function textMessage(role, text) {
  return { role, content: [block(text)], ...(role === "assistant" ? answered("stop") : { timestamp: 0 }) };
}

/** @param {{ id: string, name: string, input: any, output: string }} arc */
export const arcMessages = ({ id, name, input, output }) => [
  { role: "assistant", content: [{ type: "toolCall", id, name, arguments: input }], ...answered("toolUse") },
  { role: "toolResult", toolCallId: id, toolName: name, content: [block(output)], isError: false, timestamp: 0 },
];

/** @param {string} text @param {any[]} media */
const output = (text, media) => [...(text ? [block(text)] : []), ...media];

/** @param {any} message @param {import("../slots.js").Slot} slot */
function editedResult(message, slot) {
  const { content } = message;
  if (slot.body === "placeholder" || slot.body === "text") {
    const kept = slot.media === "keep" && Array.isArray(content) ? content.filter((one) => MEDIA.has(one.type)) : [];
    return { ...message, content: output(whole(slot, ownLength), kept) };
  }
  if (Array.isArray(content) && content.length) return { ...message, content: editedOutput(content, slot) };
  const said = typeof content === "string" ? content : "";
  const [before, after] = slot.around(!said);
  return before || after ? { ...message, content: output(before + said + after, []) } : message;
}

/** @param {any[]} content @param {import("../slots.js").Slot} slot */
function editedOutput(content, slot) {
  const kept = slot.media === "strip" ? content.filter((one) => !MEDIA.has(one.type)) : content;
  if (!kept.length) return output(slot.tag ? dropped(slot.tag) : "", []);
  const first = kept.findIndex((one) => one.type === "text");
  if (first < 0) {
    const [before, after] = slot.around(true);
    return [...(blank(before) ? [] : [block(before)]), ...kept, ...(blank(after) ? [] : [block(after)])];
  }
  const last = kept.findLastIndex((one) => one.type === "text");
  const value = kept[first].text;
  const cut = slot.tag > 0 ? ownLength(value) : 0;
  const [before, after] = slot.around(cut === value.length);
  const made = [...kept];
  made[first] = { ...made[first], text: before + value.slice(cut) };
  made[last] = { ...made[last], text: made[last].text + after };
  return made;
}

/** @param {Unit} unit @param {import("../slots.js").Slot} slot @returns {any[]} what stands in the block's place */
function edited({ kind, value }, slot) {
  if (kind === "text") return [{ ...value, text: slot.body === "empty" ? "" : texts(value.text, slot, echoLength) }];
  if (kind === "call") return [slot.body === "marker" ? { ...value, arguments: JSON.parse(slot.text) } : value];
  if (kind === "thinking") return slot.think === "absent" ? [] : [value];
  if (kind !== "media") return [value];
  if (slot.body === "placeholder" || slot.body === "text") return [block(whole(slot, ownLength))];
  if (slot.media === "strip") return [];
  const [before, after] = slot.around(true);
  return [...(blank(before) ? [] : [block(before)]), value, ...(blank(after) ? [] : [block(after)])];
}

/** @param {Unit} unit @param {import("../slots.js").Slot} slot */
const removed = ({ kind }, slot) => kind !== "other" && (slot.body === "absent" || (slot.body === "empty" && kind !== "text"));

/** @param {Unit} unit */
const blankText = ({ kind, at, value }) => kind === "text" && blank(at === "string" ? value : value.text);

/**
 * A message under the view, undefined where nothing of it reaches the model. The host's objects are not changed.
 * @param {any} message @param {import("../slots.js").Entry} entry
 */
export function render(message, entry) {
  if (entry.shape === "absent") return undefined;
  const own = clean(message);
  if (entry.shape === "shell") {
    const content = [block(entry.text ?? "")];
    return own.role !== "toolResult" && !SPOKEN.has(own.role) ? { role: "user", content, timestamp: own.timestamp ?? 0 } : { ...own, content };
  }
  const found = units(own);
  const slots = found.map((_, p) => slotOf(entry, p));
  /** @type {any[][]} */
  const now = found.map((unit, p) => (removed(unit, slots[p]) ? [] : slots[p] === PLAIN || unit.at !== "item" ? [unit.value] : edited(unit, slots[p])));
  if ((entry.trail ?? -1) >= 0 && own.role === "assistant") {
    let first = found.length;
    while (first && blankText(found[first - 1])) first--;
    for (let p = first + (entry.trail ?? 0); p < found.length; p++) now[p] = [];
  }
  const left = found.some((unit, p) => {
    if (!now[p].length || unit.kind === "thinking") return false;
    return !blankText(unit) || slots[p].body !== "raw" || !!slots[p].pre || !!slots[p].post;
  });
  if (now.some((one) => !one.length) && !left) return undefined;
  const [only] = found;
  if (only?.at === "string") {
    if (slots[0] === PLAIN) return own;
    return { ...own, content: slots[0].body === "empty" ? "" : texts(only.value, slots[0], echoLength) };
  }
  if (only?.at === "message") return only.kind === "result" && slots[0] !== PLAIN ? editedResult(own, slots[0]) : own;
  return found.length ? { ...own, content: now.flat() } : own;
}
