// @ts-check
/**
 * One session at the plugin's end (specs/link.md): what the process was told, the view it answered, and what of it may be
 * used once more where it does not answer. What is done with a failure is the plugin's: each host refuses in its own way.
 */
import { MissingBase, apply, take } from "./apply.js";
import { LinkError, words } from "./client.js";

/**
 * @typedef {import("./apply.js").View} View
 *
 * @typedef {object} Told a host's list of messages: what each is called, and its JSON
 * @property {string[]} ids
 * @property {string[]} texts
 *
 * @typedef {object} Good the last request that was made from a view
 * @property {Told} told
 * @property {any[]} made
 * @property {string} model
 * @property {number} spare characters that may be added to it without asking
 *
 * @typedef {object} Served
 * @property {any[] | undefined} messages what to send; undefined: the host's own request may go as it is
 * @property {number} number         the pass, 0 where none was made
 * @property {string} [why]          what the person should know
 */

/** Codes of a process that was not reached, or did not answer. */
const SILENT = new Set(["LINK", "LOST", "TIMEOUT"]);

export class Conversation {
  /** @param {import("./client.js").Client} client @param {string} session */
  constructor(client, session) {
    this.client = client;
    this.session = session;
    /** @type {Told} */
    this.told = { ids: [], texts: [] };
    this.version = "";
    /** @type {View | undefined} */
    this.view = undefined;
    /** @type {Good | undefined} */
    this.good = undefined;
    this.guidance = "";
    this.system = "";
  }

  /**
   * What the model is to see of `messages`. Rejects with a `LinkError` where the turn has to be refused.
   * @param {any[]} messages @param {Told} told @param {Record<string, any>} about model, limits, system and so on
   * @param {import("./client.js").CallOptions} [how] @returns {Promise<Served>}
   */
  async pass(messages, told, about, how = {}) {
    let waited = false; // it said that the window is nearly full: what it does not answer then must not go by itself
    const hears = (/** @type {string} */ text) => {
      waited = true;
      how.told?.(text);
    };
    try {
      return await this.managed(messages, told, about, { ...how, told: hears });
    } catch (error) {
      this.forget();
      const said = error instanceof LinkError ? error : new LinkError(`foldlog's plugin has a defect: ${words(error)}`, "DEFECT");
      if (said.data.unmanaged === true) return { messages: undefined, number: 0, why: said.message };
      const silent = (SILENT.has(said.code) && !waited) || said.data.last_good === true;
      const made = silent ? this.again(messages, told, about) : undefined;
      if (made) return { messages: made, number: 0, why: `${said.message}; the last view is used once more` };
      throw said;
    }
  }

  /** @param {any[]} messages @param {Told} told @param {Record<string, any>} about @param {import("./client.js").CallOptions} how */
  async managed(messages, told, about, how) {
    let answer = await this.ask(told, about, how);
    if (answer.managed === false) return { messages: undefined, number: 0 };
    for (let attempt = 0; ; attempt++) {
      try {
        const view = take(this.view, answer.edits);
        const done = apply(view, messages, told.ids, told.texts);
        void this.client.tell("ack", { session: this.session, number: view.number, digest: done.digest, missing: done.missing });
        // the same bytes, or told anew from nothing; what differs then is said to the process, which records it
        if ((done.digest === view.digest && !done.missing.length) || attempt) {
          this.view = view;
          this.guidance = answer.edits.guidance ?? this.guidance;
          this.good = { told, made: done.messages, model: about.model ?? "", spare: answer.spare ?? 0 };
          return { messages: done.messages, number: view.number };
        }
      } catch (error) {
        if (!(error instanceof MissingBase) || attempt) throw error;
      }
      this.view = undefined;
      answer = await this.ask(told, about, how);
    }
  }

  /**
   * Tell the process the list, as changes where it has the last one.
   * @param {Told} told @param {Record<string, any>} about @param {import("./client.js").CallOptions} how @returns {Promise<any>}
   */
  async ask(told, about, how) {
    for (;;) {
      const base = this.version;
      const order = base ? changes(this.told, told) : told.texts.map((_, i) => fresh(told, i));
      const { system, ...rest } = about;
      const above = JSON.stringify(system ?? null);
      const known = { session: this.session, base, held: this.view?.number ?? 0, count: told.ids.length };
      const head = JSON.stringify({ ...rest, ...known, ...(base && above === this.system ? {} : { system }) });
      try {
        const answer = await this.client.call("pass", `${head.slice(0, -1)},"order":[${order.join(",")}]}`, how);
        if (answer.version) {
          this.version = answer.version;
          this.told = told;
          this.system = above;
        }
        return answer;
      } catch (error) {
        this.version = "";
        // it was started anew, or another plugin told the session meanwhile: everything is told once
        if (!(error instanceof LinkError) || error.code !== "MISSING_BASE" || !base) throw error;
      }
    }
  }

  /** The last good request with what came since behind it; undefined where it is not that. @param {any[]} messages @param {Told} told @param {Record<string, any>} about */
  again(messages, told, about) {
    const good = this.good;
    if (!good || good.model !== (about.model ?? "") || good.told.texts.length > told.texts.length) return undefined;
    if (!good.told.texts.every((text, i) => text === told.texts[i])) return undefined;
    const since = told.texts.slice(good.told.texts.length);
    if (since.reduce((sum, text) => sum + text.length, 0) > good.spare) return undefined;
    return [...good.made, ...messages.slice(good.told.texts.length)];
  }

  /** A request that failed is not sent once more unasked. */
  failed() {
    this.good = undefined;
  }

  /** Whatever the process has of the session is not counted on. */
  forget() {
    this.version = "";
    this.view = undefined;
  }
}

/** @param {Told} told @param {number} i */
function fresh(told, i) {
  return `{"id":${JSON.stringify(told.ids[i])},"message":${told.texts[i]}}`;
}

/**
 * `now` as stretches of `before` and new messages, each as JSON.
 * @param {Told} before @param {Told} now @returns {string[]}
 */
export function changes(before, now) {
  /** @type {string[]} */
  const order = [];
  /** @type {Map<string, number> | undefined} */
  let places;
  const same = (/** @type {number} */ j, /** @type {number} */ i) => before.ids[j] === now.ids[i] && before.texts[j] === now.texts[i];
  for (let i = 0, j = 0; i < now.ids.length; ) {
    if (j >= before.ids.length || !same(j, i)) {
      // one that was put in, taken out or changed: where the rest goes on is told by the ids
      places ??= i < before.ids.length ? new Map(before.ids.map((id, place) => [id, place])) : new Map();
      j = places.get(now.ids[i]) ?? before.ids.length;
      if (j >= before.ids.length || !same(j, i)) {
        order.push(fresh(now, i++));
        j++;
        continue;
      }
    }
    const begin = j;
    while (i < now.ids.length && j < before.ids.length && same(j, i)) {
      i++;
      j++;
    }
    order.push(`[${begin},${j}]`);
  }
  return order;
}
