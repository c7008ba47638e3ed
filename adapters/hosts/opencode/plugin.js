// @ts-check
/**
 * foldlog for OpenCode 1.x (specs/opencode.md): before each model call the host's messages go to the foldlog process, and
 * what it answers is applied to them. It decides nothing. Where there is no answer, the turn is refused by throwing; the
 * host does not show what was thrown, so the person is told by a notice and in the log.
 *
 * `foldlog setup opencode` names this file in the host's configuration; by itself it finds `foldlog` on the path.
 */
import { apply } from "../apply.js";
import { Client, WAIT_MS, words } from "../client.js";
import { Conversation } from "../conversation.js";
import { stripAll } from "../forms.js";
import { advice, mended } from "../refusals.js";
import { TOOLS, mimicked } from "../tools.js";
import { Limits } from "./limits.js";
import { idOf, told } from "./messages.js";
import { parentOf } from "./parents.js";
import { allowed } from "./permissions.js";

/** Children foldlog makes for itself: nothing is done to them. */
export const CHILD = "foldlog-";
const HELPERS = new Set(["title", "summary", "compaction"]);
const SOON_MS = 5_000;
const NEWEST = 4;
const ERROR_LENGTH = 8_000;
const COMMANDS = /** @type {Record<string, string>} */ ({
  "ctx-status": "Show how full the context is and what foldlog keeps of it",
  "ctx-flush": "Let marked content leave with the next request",
});

/**
 * @typedef {object} Session
 * @property {Conversation} conversation
 * @property {number} number      the pass whose answer is awaited, 0: none
 * @property {string} newest      id of the newest message that pass was made of
 * @property {boolean} managed     whether its requests are ours
 * @property {string} guidance    what belongs at the end of the system text
 * @property {string} system      the host's own system text as last seen
 * @property {string | undefined} changed the same, where it has changed since the process was told
 * @property {number} compacting  when the host said that the next request is its own summary, 0: it did not
 * @property {boolean} apart      the request under way is that summary
 * @property {string | undefined} parent
 * @property {boolean} known      whether the session was looked at
 * @property {boolean} helper     a child of ours
 */

export default { id: "foldlog", server };

/** @param {any} ctx */
export async function server(ctx) {
  const plugin = new Plugin(ctx, command(process.env.FOLDLOG_COMMAND));
  return {
    config: (/** @type {any} */ config) => plugin.configure(config),
    event: (/** @type {any} */ given) => plugin.event(given.event),
    tool: Object.fromEntries(TOOLS.map((tool) => [tool.name, plugin.tool(tool)])),
    "tool.definition": async (/** @type {any} */ input, /** @type {any} */ output) => {
      const own = TOOLS.find((tool) => tool.name === input.toolID);
      if (own) output.jsonSchema = own.parameters; // the host takes every argument of a plain tool for required
    },
    "tool.execute.before": async (/** @type {any} */ _, /** @type {any} */ output) => {
      const reason = mimicked(output.args);
      if (reason) throw new Error(reason);
    },
    "experimental.session.compacting": async (/** @type {any} */ input) => {
      plugin.of(input.sessionID).compacting = Date.now();
    },
    "experimental.chat.messages.transform": (/** @type {any} */ _, /** @type {any} */ output) => plugin.messages(output.messages),
    "experimental.chat.system.transform": (/** @type {any} */ input, /** @type {any} */ output) => plugin.system(input, output.system),
    "experimental.text.complete": async (/** @type {any} */ _, /** @type {any} */ output) => {
      if (output.text.includes("§")) output.text = stripAll(output.text);
    },
    "command.execute.before": (/** @type {any} */ input) => plugin.command(input),
  };
}

/** How foldlog is started, as `foldlog setup` wrote it: a JSON list, or one word. @param {string | undefined} given */
export function command(given) {
  if (!given) return undefined;
  try {
    const found = JSON.parse(given);
    return Array.isArray(found) && found.length ? found.map(String) : [given];
  } catch {
    return [given];
  }
}

export class Plugin {
  /** @param {any} ctx @param {string[] | undefined} command */
  constructor(ctx, command) {
    this.ctx = ctx;
    this.client = new Client({ host: "opencode", command, serve: { summarize: (given) => this.summarize(given) } });
    this.limits = new Limits(() => ctx.client.config.providers());
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    this.model = "";
    /** @type {any} the host's configuration */
    this.config = {};
  }

  /** @param {string} id @returns {Session} */
  of(id) {
    let found = this.sessions.get(id);
    if (!found) {
      const conversation = new Conversation(this.client, id);
      found = { conversation, number: 0, newest: "", managed: false, guidance: "", system: "", changed: undefined, compacting: 0, apart: false, parent: undefined, known: false, helper: false };
      this.sessions.set(id, found);
    }
    return found;
  }

  // ---------------------------------------------------------------- each request

  /** Make of the host's list, in place, what the model is to see. @param {any[]} messages */
  async messages(messages) {
    const last = messages.findLast((one) => one.info?.role === "user")?.info;
    const id = messages.find((one) => one.info?.sessionID)?.info.sessionID;
    if (!id || !last || HELPERS.has(last.agent)) return;
    const session = this.of(id);
    if (!session.known) await this.look(id, session, messages);
    if (session.helper) return;
    session.apart = Date.now() - session.compacting < SOON_MS; // a summary that came to nothing leaves the next turn managed
    session.compacting = 0;
    if (session.apart) {
      const { view } = session.conversation;
      this.put(messages, view && apply(view, messages, messages.map(idOf)).messages); // as the model knows them
      return;
    }
    session.number = 0;
    try {
      const served = await session.conversation.pass(messages, list(messages), await this.about(session, last), {
        longest: WAIT_MS,
        told: (text) => this.say(text, "info"),
      });
      session.number = served.number;
      session.newest = messages.length ? idOf(messages[messages.length - 1]) : "";
      session.managed = served.messages !== undefined;
      session.guidance = session.conversation.guidance;
      if (served.number) session.changed = undefined;
      if (served.why) this.say(served.why, "warning");
      this.put(messages, served.messages);
    } catch (error) {
      this.say(`the request was not sent: ${words(error)}`, "error");
      throw error; // the host sends nothing then
    }
  }

  /** The host keeps its list: what is in it is exchanged. @param {any[]} messages @param {any[] | undefined} made */
  put(messages, made) {
    if (!made) return;
    messages.length = 0;
    for (const one of made) messages.push(one);
  }

  /** @param {Session} session @param {any} last the newest message of the person */
  async about(session, last) {
    const { providerID, modelID } = last.model ?? {};
    const model = modelID ? `${providerID}/${modelID}` : "";
    if (!session.parent) this.model = model;
    return {
      codec: "opencode",
      model,
      parent: session.parent ?? "",
      system: session.changed === undefined ? null : [{ type: "text", text: session.changed }],
      reduce: last.tools?.ctx_reduce !== false && allowed(this.config, last.agent, "ctx_reduce"),
      ...(await this.limits.of(providerID, modelID)),
    };
  }

  /** Whose child a session is, and whether it goes on from another one. @param {string} id @param {Session} session @param {any[]} messages */
  async look(id, session, messages) {
    const found = await this.ctx.client.session.get({ path: { id } }).catch(() => undefined);
    if (!found?.data) return; // asked again next time; until then it counts as the person's own
    session.known = true;
    session.parent = found.data.parentID;
    session.helper = String(found.data.title ?? "").startsWith(CHILD);
    if (session.helper || session.parent || session.conversation.version) return;
    const parent = await parentOf(this.ctx.client, found.data, messages).catch(() => undefined);
    for (const at of parent?.at.slice(0, NEWEST) ?? []) {
      // the newest messages may be ones no request of the parent held yet; a parent that is not known stays unknown
      const done = await this.client.call("fork", { session: parent?.session, new: id, at }, { timeout: SOON_MS }).catch(() => undefined);
      if (done) return;
    }
  }

  /**
   * Append the guidance to the system text, and see whether the host changed its own. The host calls this for its titles
   * too, and again when it repeats a request. @param {any} input @param {string[]} system
   */
  async system(input, system) {
    const session = this.sessions.get(input.sessionID ?? "");
    if (!session?.managed || session.helper || session.apart || !system.length || HELPING.test(system[0])) return;
    const guidance = session.guidance && `\n\n${session.guidance}`;
    const own = system.join("\n").replace(guidance, "");
    if (session.system && session.system !== own) session.changed = own;
    session.system = own;
    if (!system[0].endsWith(guidance)) system[0] += guidance;
  }

  // -------------------------------------------------------------------- what came of it

  /** @param {any} event */
  async event(event) {
    const { type, properties: given } = event;
    if (type === "message.updated") this.answered(given.info);
    else if (type === "session.error") this.failed(given.sessionID, given.error, "");
    else if (type === "message.removed") void this.tell(given.sessionID, "removed", { ids: [given.messageID] });
    else if (type === "session.compacted") void this.tell(given.sessionID, "compacted", {});
    else if (type === "session.deleted") this.sessions.delete(given.info?.id);
    else if (type === "server.instance.disposed" && given.directory === this.ctx.directory) this.client.close();
    else if (type === "session.created" && given.info?.parentID) this.of(given.info.id).parent = given.info.parentID;
  }

  /** The host says each change of an answer; the one that ends it has its figures. @param {any} info */
  answered(info) {
    const session = this.sessions.get(info?.sessionID);
    if (!session?.number || info.role !== "assistant" || !(info.id > session.newest)) return;
    if (info.error) {
      this.failed(info.sessionID, info.error, info.id);
      return;
    }
    const { tokens } = info;
    if (!info.finish || !tokens) return;
    const { number } = session;
    session.number = 0;
    const counted = tokens.input > 0 || tokens.cache?.read > 0 || tokens.cache?.write > 0;
    const usage = counted ? { input: tokens.input, cache_read: tokens.cache?.read, cache_write: tokens.cache?.write, output: tokens.output } : {};
    void this.tell(info.sessionID, "usage", { number, command: info.id, ...usage });
  }

  /** @param {string} id @param {any} error @param {string} command */
  failed(id, error, command) {
    const session = this.sessions.get(id);
    if (!session?.number || !error) return;
    const { number } = session;
    session.number = 0;
    const { message, responseBody, statusCode } = error.data ?? {};
    if (error.name === "MessageAbortedError") void this.tell(id, "failure", { number, command, kind: "aborted" });
    else {
      const text = String(responseBody || message || error.name || "").slice(0, ERROR_LENGTH);
      void this.refused(id, { number, command, text, status: Number.isInteger(statusCode) ? statusCode : 0 });
    }
  }

  /** The host ends the turn; what the next request will be is said, so that the person sends it. @param {string} session @param {any} failure */
  async refused(session, failure) {
    const said = await this.tell(session, "failure", failure);
    if (said?.again) this.say(`${mended(said)} with the next request: send your message again`, "info");
    else if (advice(said)) this.say(advice(said), "warning");
  }

  /** @param {string} session @param {string} method @param {Record<string, any>} params */
  async tell(session, method, params) {
    return this.sessions.has(session) ? this.client.tell(method, { session, ...params }) : undefined;
  }

  // ------------------------------------------------------------------ tools, commands

  /** @param {import("../tools.js").Tool} tool */
  tool(tool) {
    return {
      description: tool.description,
      args: tool.parameters.properties,
      execute: async (/** @type {any} */ args, /** @type {any} */ ctx) => {
        const given = { session: ctx.sessionID, name: tool.name, arguments: args ?? {}, call: String(ctx.callID ?? "") };
        const { text, error } = await this.client.call("tool", given);
        if (error) throw new Error(text);
        return text;
      },
    };
  }

  /** @param {any} config */
  async configure(config) {
    this.config = config;
    config.command = { ...config.command };
    for (const [name, description] of Object.entries(COMMANDS)) config.command[name] ??= { description, template: "" };
    const asked = await this.client.call("open", { session: "config" }, { timeout: SOON_MS }).catch(() => undefined);
    if (asked?.compaction === false) return; // the person lets the host compact
    if (config.compaction?.auto === true) this.say("this host's own compaction was switched on; foldlog switches it off while it runs", "warning");
    config.compaction = { ...config.compaction, auto: false, prune: false };
  }

  /** A command of ours is answered here; a throw is the host's way to begin no turn. @param {any} input */
  async command(input) {
    if (!COMMANDS[input.command]) return;
    try {
      const { sessionID: session } = input;
      const asked = input.command === "ctx-flush" ? "flush" : "status";
      this.say((await this.client.call(asked, { session })).text, "info");
    } catch (error) {
      this.say(words(error), "error");
    }
    throw new Error(`${input.command} is done`);
  }

  /**
   * Let a session of its own write a summary; it is taken away again.
   * @param {{ system: string, prompt: string, timeout_ms: number, model?: string }} asked
   */
  async summarize(asked) {
    const { session: api } = this.ctx.client;
    const { data: made } = await api.create({ body: { title: `${CHILD}summary` } });
    const path = { id: made.id };
    Object.assign(this.of(made.id), { known: true, helper: true });
    const late = setTimeout(() => void api.abort({ path }).catch(() => undefined), asked.timeout_ms);
    try {
      const [providerID, ...name] = (asked.model || this.model).split("/");
      const model = name.length ? { providerID, modelID: name.join("/") } : undefined;
      const parts = [{ type: "text", text: asked.prompt }];
      const { data, error } = await api.prompt({ path, body: { model, system: asked.system, tools: { "*": false }, parts } });
      const failed = error ?? data?.info?.error;
      if (failed) throw new Error(failed.data?.message ?? failed.name ?? "the host's hidden session gave no answer");
      const text = data.parts.map((/** @type {any} */ part) => (part.type === "text" ? part.text : "")).join("");
      const { input = 0, output = 0, cache } = data.info.tokens ?? {};
      return { text, input: input + (cache?.read ?? 0) + (cache?.write ?? 0), output, model: String(data.info.modelID ?? "") };
    } finally {
      clearTimeout(late);
      await api.delete({ path }).catch(() => undefined);
      this.sessions.delete(made.id);
    }
  }

  /** Tell the person. @param {string} text @param {"info" | "warning" | "error"} variant */
  say(text, variant) {
    const message = `foldlog: ${text}`;
    const level = variant === "warning" ? "warn" : variant;
    const { client } = this.ctx;
    void Promise.resolve(client.tui?.showToast?.({ body: { title: "foldlog", message: text, variant } })).catch(() => undefined);
    void Promise.resolve(client.app?.log?.({ body: { service: "foldlog", level, message } })).catch(() => undefined);
    if (variant === "error" && !process.stdout.isTTY) console.error(message); // `opencode run` shows no notices
  }
}

/** How the system texts of the host's own helpers begin, in case they are asked for in a session's name. */
const HELPING = /^(?:You are a title generator|You are a context summarization agent|Summarize what was done)/;

/** @param {any[]} messages @returns {import("../conversation.js").Told} */
const list = (messages) => ({ ids: messages.map(idOf), texts: messages.map((one) => JSON.stringify(told(one))) });
