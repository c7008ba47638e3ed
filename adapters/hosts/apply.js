// @ts-check
/**
 * The view at a host's end (specs/link.md, Edits): `take` brings a view up to date with what the process answered, `apply`
 * makes of the host's messages what the model is to see. Nothing here decides anything, and nothing of the host's is
 * changed: `apply` returns new objects.
 */
import * as opencode from "./opencode/messages.js";
import { blockDigests, sha256 } from "./forms.js";
import * as pi from "./pi/messages.js";

/**
 * @typedef {import("./slots.js").Entry} Entry
 * @typedef {{ kind: "text", role: string, text: string } | { kind: "arc", id: string, name: string, input: any, output: string }} Unit
 *
 * @typedef {object} Edits what the process answers a pass with
 * @property {number} from       the version these edits lie on; 0: on none, they are the whole view
 * @property {number} number     the version they make
 * @property {string} codec
 * @property {string} [prefix]   hex digest of all that stands before the messages; left out: as it was
 * @property {[string, string] | null} [head] m[0] and m[1]; left out: as they were
 * @property {string | null} [cut] the last message they cover; left out: as it was
 * @property {Entry[]} messages  what changed of the messages, each entry whole
 * @property {[string, Unit[]][]} inserts units of ours, behind the message named: all there are
 * @property {string} digest     what the result must have
 *
 * @typedef {object} View
 * @property {number} number
 * @property {string} codec
 * @property {Buffer} prefix
 * @property {[string, string] | null} head
 * @property {string | null} cut
 * @property {Map<string, Entry>} entries
 * @property {Map<string, Unit[]>} inserts
 * @property {string} digest
 * @property {Entry[]} fresh     the entries the last edits brought
 * @property {Step[]} steps      where the last digest stood behind each message, so that the next goes on from there
 *
 * @typedef {object} Step
 * @property {string} id
 * @property {string} print
 * @property {Entry | undefined} entry
 * @property {Unit[] | undefined} units
 * @property {Buffer} digest
 * @property {any} own     what the message became
 * @property {boolean} plain whether that is the host's own object
 *
 * @typedef {object} Applied
 * @property {any[]} messages
 * @property {string} digest      of `messages`, to be compared with the view's and told the process
 * @property {string[]} missing   ids the edits named and the host did not hand over
 */

/**
 * @typedef {object} Codec what the view needs to know of a host's messages
 * @property {(message: any) => { values: any[], role: string, members?: Record<string, any> }} spoken
 * @property {(message: any, entry: Entry) => any} render
 * @property {(role: string, text: string) => any} textMessage
 * @property {(arc: { id: string, name: string, input: any, output: string }) => any[]} arcMessages
 */
const CODECS = /** @type {Record<string, Codec>} */ ({ opencode, pi });
/** So many names are looked for one by one; for more a set of all is made. */
const FEW = 8;
const NOTHING = /** @type {Entry} */ ({ id: "" });

/** Edits that do not lie on the view that is held: the whole one has to be asked for. */
export class MissingBase extends Error {}

/**
 * The view that `edits` make of the one held. Raises `MissingBase` where they lie on another.
 * @param {View | undefined} held @param {Edits} edits @returns {View}
 */
export function take(held, edits) {
  if (!CODECS[edits.codec]) throw new Error(`this plugin does not know the messages of ${edits.codec}`);
  const base = edits.from ? held : undefined;
  if (edits.from && (!base || base.number !== edits.from)) throw new MissingBase(`the edits lie on version ${edits.from}`);
  const entries = edits.from && base ? new Map(base.entries) : new Map();
  for (const entry of edits.messages) entries.set(entry.id, entry);
  const prefix = edits.prefix === undefined ? base?.prefix : Buffer.from(edits.prefix, "hex");
  return {
    number: edits.number,
    codec: edits.codec,
    prefix: prefix ?? Buffer.alloc(0),
    head: edits.head === undefined ? (base?.head ?? null) : edits.head,
    cut: edits.cut === undefined ? (base?.cut ?? null) : edits.cut,
    entries,
    inserts: new Map(edits.inserts),
    digest: edits.digest,
    fresh: edits.messages,
    steps: edits.prefix === undefined && edits.head === undefined && edits.cut === undefined ? (base?.steps ?? []) : [],
  };
}

/** @param {string} codec @param {any} message @param {Buffer} digest */
function link(codec, message, digest) {
  const { values, role, members } = CODECS[codec].spoken(message);
  return blockDigests(values, role, members).reduce((so, block) => sha256(so, block), digest);
}

/** @param {string} codec @param {Unit} unit @returns {any[]} */
function unitMessages(codec, unit) {
  return unit.kind === "text" ? [CODECS[codec].textMessage(unit.role, unit.text)] : CODECS[codec].arcMessages(unit);
}

/** One message under a view. @param {string} codec @param {any} message @param {Entry} entry @returns {any} */
export function render(codec, message, entry) {
  return CODECS[codec].render(message, entry);
}

/** The digests of a message's blocks, as hex. @param {string} codec @param {any} message */
export function digests(codec, message) {
  const { values, role, members } = CODECS[codec].spoken(message);
  return blockDigests(values, role, members).map((one) => one.toString("hex"));
}

/**
 * The request of a view over the host's messages. `ids[i]` names message i; `prints[i]`, where given, changes with what it
 * holds, so that an unchanged beginning is not reckoned anew.
 * @param {View} view @param {any[]} messages @param {string[]} ids @param {string[]} [prints] @returns {Applied}
 */
export function apply(view, messages, ids, prints = []) {
  const { codec } = view;
  const begin = view.cut === null ? 0 : ids.indexOf(view.cut) + 1;
  const missing = view.cut !== null && !begin ? [view.cut] : [];
  const named = [...view.fresh.map((entry) => entry.id), ...view.inserts.keys()];
  const there = named.length > FEW ? new Set(ids) : undefined;
  missing.push(...named.filter((id) => !(there ? there.has(id) : ids.lastIndexOf(id) >= 0)));
  const made = (view.head ?? []).map((text) => CODECS[codec].textMessage("user", text));
  let digest = made.reduce((so, message) => link(codec, message, so), view.prefix);
  /** @type {Step[]} */
  const steps = [];
  let same = prints.length === messages.length;
  for (let i = begin; i < messages.length; i++) {
    const id = ids[i];
    const entry = view.entries.get(id);
    const units = view.inserts.get(id);
    const before = view.steps[steps.length];
    const known = before?.id === id && before.print === prints[i] && before.entry === entry && !before.units === !units;
    // Pi and OMP copy what they are given: what a message became can be given again, as long as it has not changed
    const reused = known && codec === "pi" && prints.length === messages.length;
    const own = reused ? (before.plain ? messages[i] : before.own) : CODECS[codec].render(messages[i], entry ?? NOTHING);
    const now = [...(own === undefined ? [] : [own]), ...(units ?? []).flatMap((unit) => unitMessages(codec, unit))];
    made.push(...now);
    same = same && known;
    digest = same && !units ? before.digest : now.reduce((so, message) => link(codec, message, so), digest);
    same = same && !units;
    steps.push({ id, print: prints[i] ?? "", entry, units, digest, own, plain: own === messages[i] });
  }
  view.steps = steps;
  return { messages: made, digest: digest.toString("hex"), missing };
}
