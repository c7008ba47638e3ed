// @ts-check
/** OpenCode's messages under the view: the twin of projections/wire/v1/opencode*.py (specs/view.md, VIEW-22 to 24). */
import { blank, echoLength, ownLength } from "../forms.js";
import { PLAIN, dropped, slotOf, texts, whole } from "../slots.js";

const CLEARED = "[Old tool result content cleared]";
const INTERRUPTED = "[Tool execution was interrupted]";
const UNSENT = new Set(["step-finish", "snapshot", "patch", "agent", "retry"]);
const FIXED = new Set(["step-start", "compaction", "subtask"]);
const LOCAL = new Set(["id", "sessionID", "messageID", "time"]);
const UNSENT_FILES = new Set(["text/plain", "application/x-directory"]);
const KINDS = /** @type {Record<string, string>} */ ({ text: "text", reasoning: "thinking", file: "media" });

/** @typedef {{ kind: string, part: any, index: number }} Unit */

/** The host's own id of a message. @param {any} message */
export const idOf = (message) => message?.info?.id ?? "";

/**
 * A message as the process is told it: what reaches the model, and what identifies it. The host's own notes for its screen
 * (what a tool showed, counts, costs) can be as large again, and change when nothing for the model does.
 * @param {any} message
 */
export function told({ info, parts }) {
  const error = info.error ? { name: info.error.name } : undefined;
  return {
    info: { id: info.id, role: info.role, agent: info.agent, time: { created: info.time?.created }, error },
    parts: parts.filter((/** @type {any} */ part) => !UNSENT.has(part.type)).map(toldPart),
  };
}

/** @param {any} given */
function toldPart(given) {
  if (FIXED.has(given.type)) return { type: given.type };
  const { id: _id, sessionID: _session, messageID: _message, time: _time, ...part } = given;
  if (part.type !== "tool" || !part.state) return part;
  const { status, input, output, error, attachments, metadata, time } = part.state;
  const half = metadata?.interrupted === true ? { interrupted: true, output: metadata.output } : undefined;
  return { ...part, state: { status, input, output, error, attachments, metadata: half, time: time?.compacted ? { compacted: time.compacted } : undefined } };
}

/** @param {any} part */
const finished = (part) => part.state?.status === "completed" || part.state?.status === "error";

/** @param {any} info @param {any[]} parts */
function leftOut(info, parts) {
  if (!info.error) return false;
  const aborted = info.error?.name === "MessageAbortedError";
  return !(aborted && parts.some((part) => part.type !== "step-start" && part.type !== "reasoning"));
}

/** @param {any} part @param {string} role */
function kinds(part, role) {
  if (part.type === "tool") {
    if (part.metadata?.providerExecuted) return ["other"];
    return finished(part) ? ["call", "result"] : ["call", "other"];
  }
  if (UNSENT.has(part.type)) return [];
  if (part.type === "text" && (part.ignored === true || (role === "user" && !part.text))) return [];
  if (part.type === "file" && UNSENT_FILES.has(part.mime)) return [];
  return [KINDS[part.type] ?? "other"];
}

/** @param {any} message @returns {Unit[]} the parts of a message, in order */
export function units(message) {
  const { info, parts } = message;
  if (info.role === "assistant" && leftOut(info, parts)) return [];
  return parts.flatMap((/** @type {any} */ part, /** @type {number} */ index) =>
    kinds(part, info.role).map((kind) => ({ kind, part, index })),
  );
}

/** What the host sends as the result of a finished tool part, and where that stands. @param {any} part */
function outputOf(part) {
  const { state } = part;
  if (state.status === "error") {
    if (state.metadata?.interrupted === true && typeof state.metadata?.output === "string")
      return { text: state.metadata.output, key: "metadata", attachments: [], failed: false };
    return { text: state.error ?? "", key: "error", attachments: [], failed: true };
  }
  if (state.time?.compacted) return { text: CLEARED, key: "", attachments: [], failed: false };
  const given = Array.isArray(state.attachments) ? state.attachments.filter((/** @type {any} */ one) => one && typeof one === "object" && !Array.isArray(one)) : [];
  return { text: state.output ?? "", key: "output", attachments: given, failed: false };
}

/** @param {any} part */
const file = (part) => ({ type: "file", filename: part.filename, mime: part.mime, url: part.url });

/** @param {any} value @param {any} part */
function signed(value, part) {
  const told = part.metadata;
  return told && (typeof told !== "object" || Object.keys(told).length) ? { ...value, metadata: told } : value;
}

/** @param {any} part */
const call = (part) => signed({ callID: part.callID, input: part.state.input ?? null, tool: part.tool, type: "call" }, part);

/** @param {any} part */
function result(part) {
  const out = outputOf(part);
  const value = { callID: part.callID, failed: out.failed, output: out.text, type: "result" };
  return out.attachments.length ? { ...value, attachments: out.attachments.map(file) } : value;
}

/** @param {Unit} unit */
function identity({ kind, part }) {
  if (kind === "call") return call(part);
  if (kind === "result") return result(part);
  if (kind === "media") return file(part);
  if (part.type === "tool" && part.metadata?.providerExecuted)
    return { call: call(part), result: finished(part) ? result(part) : null, type: "tool" };
  if (part.type === "tool") return { callID: part.callID, output: INTERRUPTED, type: "open" };
  if (FIXED.has(part.type)) return { type: part.type };
  if (kind === "text" || kind === "thinking") return signed({ text: part.text, type: part.type }, part);
  return Object.fromEntries(Object.entries(part).filter(([key]) => !LOCAL.has(key)));
}

/** What a message's digest is made of: identity values of its parts, its role. @param {any} message */
export const spoken = (message) => ({ values: units(message).map(identity), role: message.info.role });

/** @param {string} text */
const textPart = (text) => ({ type: "text", text, synthetic: true });

/** @param {string} role @param {string} text */
export const textMessage = (role, text) => ({ info: { role }, parts: [textPart(text)] });

/** @param {{ id: string, name: string, input: any, output: string }} arc */
export const arcMessages = ({ id, name, input, output }) => [
  {
    info: { role: "assistant" },
    parts: [
      {
        type: "tool",
        callID: id,
        tool: name,
        state: { status: "completed", input, output, title: "", metadata: {}, time: { start: 0, end: 0 } },
      },
    ],
  },
];

/** @param {any} part @param {import("../slots.js").Slot} slot */
function editedResult(part, slot) {
  const out = outputOf(part);
  if (!out.key) return part;
  const state = { ...part.state };
  const strip = out.attachments.length > 0 && slot.media === "strip";
  if (strip) state.attachments = [];
  const text = strip && !out.text && slot.body === "raw" ? (slot.tag ? dropped(slot.tag) : "") : texts(out.text, slot, ownLength);
  if (out.key === "metadata") state.metadata = { ...state.metadata, output: text };
  else state[out.key] = text;
  return { ...part, state };
}

/** @param {any} part @param {import("../slots.js").Slot} slot @returns {any[]} what stands in a file part's place */
function editedMedia(part, slot) {
  if (slot.body === "placeholder" || slot.body === "text") return [textPart(whole(slot, ownLength))];
  if (slot.media === "strip") return [];
  const [before, after] = slot.around(true);
  return [...(blank(before) ? [] : [textPart(before)]), part, ...(blank(after) ? [] : [textPart(after)])];
}

/**
 * A message under the view, undefined where nothing of it reaches the model. The host's objects are not changed.
 * @param {any} message @param {import("../slots.js").Entry} entry
 */
export function render(message, entry) {
  if (entry.shape === "absent") return undefined;
  if (entry.shape === "shell") {
    const words = entry.text ?? "";
    return words || message.info.role !== "user" ? { ...message, parts: [textPart(words)] } : undefined;
  }
  const found = units(message);
  const slots = found.map((_, p) => slotOf(entry, p));
  const gone = new Set();
  const parts = new Map(message.parts.map((/** @type {any} */ part, /** @type {number} */ i) => [i, [part]]));
  found.forEach(({ kind, part, index }, p) => {
    const slot = slots[p];
    if (slot === PLAIN || kind === "other" || (kind === "call" && !finished(part))) return;
    if (slot.body === "absent" || (slot.body === "empty" && kind !== "text")) gone.add(index);
    else if (kind === "text") parts.set(index, [{ ...part, text: slot.body === "empty" ? "" : texts(part.text, slot, echoLength) }]);
    else if (kind === "call" && slot.body === "marker") {
      const [now] = parts.get(index) ?? [part];
      parts.set(index, [{ ...now, state: { ...now.state, input: JSON.parse(slot.text) } }]);
    } else if (kind === "result") parts.set(index, [editedResult((parts.get(index) ?? [part])[0], slot)]);
    else if (kind === "thinking" && slot.think === "absent") gone.add(index);
    else if (kind === "media") {
      const now = editedMedia(part, slot);
      if (now.length) parts.set(index, now);
      else gone.add(index);
    }
  });
  if ((entry.trail ?? -1) >= 0 && message.info.role === "assistant") {
    let first = found.length;
    while (first && found[first - 1].kind === "text" && blank(found[first - 1].part.text)) first--;
    for (const { index } of found.slice(first + (entry.trail ?? 0))) gone.add(index);
  }
  const left = found.some(({ kind, part, index }, p) => {
    if (gone.has(index) || kind === "thinking" || part.type === "step-start") return false;
    const slot = slots[p];
    return !(kind === "text" && blank(part.text)) || slot.body !== "raw" || !!slot.pre || !!slot.post;
  });
  if (gone.size && !left) return undefined;
  return { ...message, parts: [...parts].flatMap(([index, now]) => (gone.has(index) ? [] : now)) };
}
