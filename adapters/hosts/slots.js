// @ts-check
/**
 * The slots of the view as they come over the link (specs/link.md, Edits): what may be done to one part, in the words of
 * specs/view.md, with the texts in them.
 */

/**
 * @typedef {object} Given a slot as told: what is left out has its default
 * @property {number} [tag]
 * @property {"text" | "placeholder" | "skeleton" | "marker" | "empty" | "absent" | "raw"} [body]
 * @property {string} [text]
 * @property {string} [pre]
 * @property {string} [post]
 * @property {"strip" | "keep"} [media]
 * @property {"cleared" | "absent" | "keep"} [think]
 *
 * @typedef {object} Entry what the view holds of one message
 * @property {string} id
 * @property {(number | Given)[]} [parts] a number alone is a tag; parts not named are as the host sent them
 * @property {"absent" | "shell"} [shape]
 * @property {string} [text] of a shell
 * @property {number} [trail]
 */

/** What the view holds of one part. */
export class Slot {
  /** @param {number | Given} given */
  constructor(given) {
    const told = typeof given === "number" ? { tag: given } : given;
    this.tag = told.tag ?? 0;
    this.body = told.body ?? "raw";
    this.text = told.text ?? "";
    this.pre = told.pre ?? "";
    this.post = told.post ?? "";
    this.media = told.media ?? "keep";
    this.think = told.think ?? "keep";
  }

  /** What stands before and behind a body; an empty body gets no blank behind its tag. @param {boolean} empty */
  around(empty) {
    if (this.tag <= 0) return [this.pre, this.post];
    return [empty && !this.pre && !this.post ? `§${this.tag}§` : `§${this.tag}§ ${this.pre}`, this.post];
  }
}

/** The slot of a part the view holds nothing of. */
export const PLAIN = new Slot(0);

/** @param {Entry} entry @param {number} p */
export function slotOf(entry, p) {
  const given = entry.parts?.[p];
  return given === undefined || given === 0 ? PLAIN : new Slot(given);
}

/** The placeholder of a dropped part. @param {number} tag */
export const dropped = (tag) => (tag ? `[dropped §${Math.abs(tag)}§]` : "[dropped]");

/** The text that stands in place of a part. @param {Slot} slot @param {(text: string) => number} own */
export function whole(slot, own) {
  if (slot.body === "placeholder") return dropped(slot.tag);
  const body = slot.tag > 0 ? slot.text.slice(own(slot.text)) : slot.text;
  const [before, after] = slot.around(!body);
  return before + body + after;
}

/** What becomes of a text. @param {string} value @param {Slot} slot @param {(text: string) => number} own */
export function texts(value, slot, own) {
  if (slot.body === "placeholder" || slot.body === "text") return whole(slot, own);
  const cut = slot.tag > 0 ? own(value) : 0;
  const [before, after] = slot.around(cut === value.length);
  return before + value.slice(cut) + after;
}
