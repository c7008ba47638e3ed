// @ts-check
/**
 * foldlog for Pi and OMP (specs/link.md, "Pi and OMP"): an extension that hands each request's messages to the foldlog
 * process and sends what it answers. It decides nothing. Where there is no answer, the turn is aborted and the person is
 * told why: a handler that throws would let the request go out as it is.
 *
 * `foldlog setup pi` writes a file that loads this one and says in `FOLDLOG_COMMAND` how foldlog is started.
 */
import fs from "node:fs";
import path from "node:path";
import { Client, WAIT_MS, words } from "../client.js";
import { Conversation } from "../conversation.js";
import { stripAll } from "../forms.js";
import { advice, mended } from "../refusals.js";
import { TOOLS, mimicked } from "../tools.js";
import { CHILD, summarize } from "./child.js";
import { own } from "./compaction.js";

/** OMP ends a handler after 30 s and sends the request as it is; the turn has to be refused before. */
const OMP_MS = 25_000;
const SOON_MS = 5_000;
const OFF = "switch off Auto-compact in /settings";

/**
 * @typedef {object} Settings
 * @property {string[]} [command] how foldlog is started
 * @property {string} [version]
 * @property {Record<string, string | undefined>} [env]
 *
 * @typedef {{ conversation: Conversation, number: number, reported: Promise<any>[], failed?: Promise<any> }} Session
 */

/** @param {Settings} [settings] */
export function foldlog(settings = {}) {
  return (/** @type {any} */ pi) => {
    if (process.env[CHILD]) return;
    new Extension(pi, settings).register();
  };
}

export default foldlog();

export class Extension {
  /** @param {any} pi @param {Settings} settings */
  constructor(pi, settings) {
    this.pi = pi;
    this.ending = new AbortController();
    this.omp = pi.zod !== undefined && pi.pi !== undefined;
    this.client = new Client({
      host: this.omp ? "omp" : "pi",
      command: settings.command,
      version: settings.version,
      env: settings.env,
      serve: { summarize: (params) => summarize({ model: this.model, ...params }, this.omp, this.ending.signal) },
    });
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    this.compaction = true;
    this.own = own(pi, this.omp);
    this.quiet = false;
    this.explained = false;
    this.model = "";
  }

  register() {
    const { pi } = this;
    pi.on("session_start", (/** @type {any} */ event, /** @type {any} */ ctx) => this.started(event, ctx));
    pi.on("before_agent_start", (/** @type {any} */ event, /** @type {any} */ ctx) => this.prompted(event, ctx));
    pi.on("context", (/** @type {any} */ event, /** @type {any} */ ctx) => this.context(event, ctx));
    pi.on("message_end", (/** @type {any} */ event, /** @type {any} */ ctx) => this.answered(event, ctx));
    pi.on("tool_call", (/** @type {any} */ event) => {
      const reason = mimicked(event.input);
      return reason ? { block: true, reason } : undefined;
    });
    pi.on("session_before_compact", (/** @type {any} */ event, /** @type {any} */ ctx) => this.compacting(event, ctx));
    pi.on("session_compact", (/** @type {any} */ _, /** @type {any} */ ctx) => void this.tell(ctx, "compacted", {}));
    // what Pi calls its last boundary OMP calls a stop; there a request has to bring a text of its own
    pi.on("agent_before_settle", async (/** @type {any} */ event, /** @type {any} */ ctx) => ((await this.again(ctx)) ? onceMore(event) : undefined));
    pi.on("session_stop", async (/** @type {any} */ _, /** @type {any} */ ctx) =>
      (await this.again(ctx)) ? { continue: true, additionalContext: "Go on where you were." } : undefined,
    );
    pi.on("session_before_switch", () => this.settle(0));
    pi.on("session_shutdown", () => this.shutdown());
    for (const tool of TOOLS) {
      pi.registerTool({
        ...tool,
        label: tool.name,
        loadMode: "essential", // OMP hides other tools until the model looks for them
        execute: (/** @type {string} */ id, /** @type {any} */ params, /** @type {any} */ _signal, /** @type {any} */ _update, /** @type {any} */ ctx) =>
          this.tool(tool.name, id, params, ctx),
      });
    }
    pi.registerCommand("ctx-status", {
      description: "Show how full the context is and what foldlog keeps of it",
      handler: (/** @type {string} */ _, /** @type {any} */ ctx) => this.status(ctx),
    });
    pi.registerCommand("ctx-flush", {
      description: "Let marked content leave with the next request",
      handler: (/** @type {string} */ _, /** @type {any} */ ctx) => this.flush(ctx),
    });
  }

  /** @param {any} ctx @returns {Session} */
  of(ctx) {
    const id = String(ctx.sessionManager.getSessionId());
    let found = this.sessions.get(id);
    if (!found) {
      found = { conversation: new Conversation(this.client, id), number: 0, reported: [] };
      this.sessions.set(id, found);
    }
    return found;
  }

  /** A session that begins as a copy of another goes on from it. @param {any} _ @param {any} ctx */
  async started(_, ctx) {
    await this.manages(this.compaction, ctx); // the host may compact before the first prompt
    try {
      const session = this.of(ctx).conversation.session;
      const branch = ctx.sessionManager.getBranch?.() ?? [];
      const parent = parentId(ctx.sessionManager.getHeader?.()?.parentSession);
      if (subagentOf(ctx)) return;
      const own = branch.map(messageOf).filter((/** @type {any} */ one) => one && one.role !== "system");
      if (!parent || parent === session || !own.length) return;
      await this.client.call("fork", { session: parent, new: session, at: identified(own) }, { timeout: SOON_MS });
    } catch {
      // the parent is not known, or nobody answers: the session begins by itself, and its first pass says what is wrong
    }
  }

  /** The host leaves its history alone where foldlog manages what is sent, for as long as it runs. @param {boolean} ours @param {any} ctx */
  async manages(ours, ctx) {
    this.compaction = ours;
    if (this.quiet === ours) return;
    this.quiet = ours;
    try {
      await (ours ? this.own.off() : this.own.on());
    } catch {
      if (this.omp) notify(ctx, `OMP's own compaction could not be switched off, and may change what was sent: ${OFF}`, "warning");
    }
  }

  /** What the host begins all the same is cancelled; where it began it by itself, it will again. @param {any} event @param {any} ctx */
  compacting(event, ctx) {
    if (!this.compaction) return undefined;
    if (!this.omp && !this.explained && event.reason !== "manual") {
      this.explained = true;
      notify(ctx, `Pi's own compaction is not needed and is cancelled each time: ${OFF}`, "info");
    }
    return { cancel: true };
  }

  /** @param {any} event @param {any} ctx */
  async prompted(event, ctx) {
    try {
      const { conversation } = this.of(ctx);
      const known = await this.client.call("open", { session: conversation.session, reduce: this.reduces() }, { timeout: SOON_MS });
      await this.manages(known.compaction !== false, ctx);
      conversation.guidance = known.guidance;
      if (!known.guidance) return undefined;
      const { systemPrompt } = event;
      if (Array.isArray(systemPrompt)) return { systemPrompt: [...systemPrompt, known.guidance] };
      return { systemPrompt: systemPrompt ? `${systemPrompt}\n\n${known.guidance}` : known.guidance };
    } catch {
      return undefined; // the pass that follows says it
    }
  }

  /** @param {any} event @param {any} ctx */
  async context(event, ctx) {
    try {
      const session = this.of(ctx);
      session.number = 0;
      session.failed = undefined; // the host goes on by itself: nobody has to ask it to
      const served = await session.conversation.pass(event.messages, told(event.messages), this.about(session, ctx), {
        timeout: this.omp ? OMP_MS - SOON_MS : undefined,
        longest: this.omp ? OMP_MS - SOON_MS : WAIT_MS,
        told: (text) => notify(ctx, text, "info"),
      });
      session.number = served.number;
      if (served.why) notify(ctx, served.why, "warning");
      if (this.omp && served.messages) lasting(served.messages, event.messages);
      return served.messages ? { messages: served.messages } : undefined;
    } catch (error) {
      ctx.abort();
      notify(ctx, `the request was not sent: ${words(error)}`, "error");
      return undefined;
    }
  }

  /** @param {Session} session @param {any} ctx */
  about(session, ctx) {
    const { model } = ctx;
    this.model = model ? `${model.provider}/${model.id}` : "";
    return {
      system: withoutGuidance(ctx.getSystemPrompt?.(), session.conversation.guidance),
      model: this.model,
      context_limit: count(model?.contextWindow),
      output_limit: count(model?.maxTokens),
      reduce: this.reduces(),
      parent: subagentOf(ctx),
    };
  }

  /** Whether the agent can call `ctx_reduce`: a person may have left it out of the tools. */
  reduces() {
    const tools = this.pi.getActiveTools?.();
    return Array.isArray(tools) ? tools.includes("ctx_reduce") : true;
  }

  /** What became of a request, and the model's imitations of our notation taken out. @param {any} event @param {any} ctx */
  answered(event, ctx) {
    try {
      const { message } = event;
      if (message?.role !== "assistant") return undefined;
      this.report(message, ctx);
      if (this.omp || !Array.isArray(message.content)) return undefined; // OMP takes no answer here, nor a change in place
      let changed = false;
      const content = message.content.map((/** @type {any} */ block) => {
        if (block?.type !== "text" || !String(block.text).includes("§")) return block;
        const text = stripAll(block.text);
        if (text === block.text) return block;
        changed = true;
        return { ...block, text };
      });
      if (!changed) return undefined;
      return { message: { ...message, content } };
    } catch (error) {
      notify(ctx, `an answer could not be recorded: ${words(error)}`, "warning");
      return undefined;
    }
  }

  /** @param {any} message @param {any} ctx */
  report(message, ctx) {
    const session = this.of(ctx);
    const { number } = session;
    if (!number) return; // nothing of ours went out
    session.number = 0;
    const command = message.responseId ? String(message.responseId) : "";
    if (message.stopReason === "error") session.conversation.failed();
    if (message.stopReason === "aborted") void this.tell(ctx, "failure", { number, kind: "aborted", command });
    else if (message.stopReason === "error")
      session.failed = this.tell(ctx, "failure", { number, text: String(message.errorMessage ?? "").slice(0, 8_000), command });
    else {
      const { input, cacheRead, cacheWrite, output } = message.usage ?? {};
      const counted = [input, cacheRead, cacheWrite].some((one) => one > 0);
      const usage = counted ? { input: count(input), cache_read: count(cacheRead), cache_write: count(cacheWrite), output: count(output) } : {};
      void this.tell(ctx, "usage", { number, command, ...usage });
    }
  }

  /** Whether what overflowed goes once more: the process says if it is worth it, and its next pass makes it fit. @param {any} ctx */
  async again(ctx) {
    const session = this.of(ctx);
    const said = await session.failed;
    session.failed = undefined;
    if (advice(said)) notify(ctx, advice(said), "warning");
    if (!said?.again) return false;
    notify(ctx, `${mended(said)}, and it is sent again`, "info");
    return true;
  }

  /** @param {any} ctx @param {string} method @param {Record<string, any>} params */
  tell(ctx, method, params) {
    const session = this.of(ctx);
    const said = this.client.tell(method, { session: session.conversation.session, ...params });
    session.reported.push(said);
    void said.then(() => session.reported.splice(session.reported.indexOf(said), 1));
    return said;
  }

  /** @param {string} name @param {string} call @param {any} params @param {any} ctx */
  async tool(name, call, params, ctx) {
    const { session } = this.of(ctx).conversation;
    const given = { session, name, arguments: params ?? {}, call: String(call) };
    const { text, error } = await this.client.call("tool", given);
    if (error) throw new Error(text);
    return { content: [{ type: "text", text }], details: {} };
  }

  /** @param {any} ctx */
  async status(ctx) {
    try {
      const { session } = this.of(ctx).conversation;
      const { text } = await this.client.call("status", { session });
      notify(ctx, text, "info");
    } catch (error) {
      notify(ctx, words(error), "error");
    }
  }

  /** @param {any} ctx */
  async flush(ctx) {
    try {
      const { session } = this.of(ctx).conversation;
      const { text } = await this.client.call("flush", { session });
      notify(ctx, text, "info");
    } catch (error) {
      notify(ctx, words(error), "error");
    }
  }

  /** Wait for what is being reported, not for long. @param {number} ms */
  async settle(ms) {
    const open = [...this.sessions.values()].flatMap((session) => session.reported);
    if (open.length && ms) {
      /** @type {ReturnType<typeof setTimeout> | undefined} */
      let late;
      await Promise.race([Promise.all(open), new Promise((resolve) => (late = setTimeout(resolve, ms)))]);
      clearTimeout(late);
    }
    if (!ms) for (const session of this.sessions.values()) session.conversation.forget();
  }

  async shutdown() {
    this.ending.abort();
    if (!this.omp) await this.own.on(); // Pi goes on after a reload, perhaps without us
    await this.settle(2_000);
    this.client.close();
  }
}

/**
 * OMP marks every message a handler changed as made for this one call, and sets no cache mark at it or behind it. Ours are
 * the same in each request, so they do not take that mark: setting it ends in their prototype.
 */
const LASTING = new Proxy(
  {},
  {
    set: (target, key, value, receiver) =>
      typeof key === "symbol" && key.description === "agent.message.perCallContext" ? true : Reflect.set(target, key, value, receiver),
  },
);

/** @param {any[]} made @param {any[]} own the host's */
function lasting(made, own) {
  const untouched = new Set(own);
  for (const message of made) if (!untouched.has(message)) Object.setPrototypeOf(message, LASTING);
}

/**
 * Pi asks for one more request only where its list ends with something to answer. It takes out the failed answer of an
 * overflow by itself; that of any other error is taken out here, in the same way. @param {any} event
 */
function onceMore(event) {
  const last = event.context?.canContinue === false ? event.context.contextEntries?.at(-1) : undefined;
  if (last?.messages?.at(-1)?.stopReason !== "error") return { continue: true };
  return { entries: [...event.entries, { type: "context_edit", targetId: last.sourceEntry.id, replacement: null }], continue: true };
}

/** @param {any} ctx @param {string} text @param {"info" | "warning" | "error"} kind */
function notify(ctx, text, kind) {
  try {
    ctx.ui?.notify?.(`foldlog: ${text}`, kind);
  } finally {
    if (!ctx.hasUI) console.error(`foldlog: ${text}`); // nobody looks at a notice of a host without a screen
  }
}

/** @param {any} value */
const count = (value) => (Number.isFinite(value) && value >= 0 ? Math.round(value) : 0);

/**
 * The host's own system text, without what was appended to it. @param {any} prompt @param {string} guidance
 * @returns {any} text, or a list of text blocks where the host has several
 */
function withoutGuidance(prompt, guidance) {
  if (Array.isArray(prompt)) return prompt.filter((text) => text !== guidance).map((text) => ({ type: "text", text }));
  if (typeof prompt !== "string") return undefined;
  return guidance ? prompt.replace(`\n\n${guidance}`, "") : prompt;
}

/** A session entry's message, where it has one. @param {any} entry */
function messageOf(entry) {
  const at = Date.parse(entry.timestamp);
  if (entry.type === "message") return entry.message;
  if (entry.type === "custom_message") return { role: "custom", timestamp: at };
  if (entry.type === "branch_summary") return { role: "branchSummary", timestamp: at };
  return entry.type === "compaction" ? { role: "compactionSummary", timestamp: at } : undefined;
}

/**
 * What each message is called. They have no ids; what does not change with a resumed or copied session is what was stored
 * with them: the call, the response, the time. @param {any[]} messages @returns {string[]}
 */
export function identified(messages) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return messages.map((message) => {
    const of = message.toolCallId ?? message.responseId ?? "";
    const name = `${message.role}:${of}:${message.timestamp ?? ""}`;
    const times = seen.get(name) ?? 0;
    seen.set(name, times + 1);
    return times ? `${name}#${times}` : name;
  });
}

/** A message as it is told; `details` are the host's own, for its screen. @param {any} message */
function text(message) {
  if (!("details" in message)) return JSON.stringify(message);
  const { details: _, ...rest } = message;
  return JSON.stringify(rest);
}

/** @param {any[]} messages @returns {import("../conversation.js").Told} */
export function told(messages) {
  return {
    ids: identified(messages),
    texts: messages.map(text),
  };
}

/**
 * The session a session works for: OMP keeps what its task agents say in a folder that bears the name of the file of the
 * one that started them. @param {any} ctx
 */
function subagentOf(ctx) {
  const file = ctx.sessionManager.getSessionFile?.();
  const parent = ctx.sessionManager.getHeader?.()?.parentSession;
  if (typeof file !== "string" || typeof parent !== "string" || path.dirname(file) !== parent.replace(/\.jsonl$/, "")) return "";
  return parentId(parent) || parent;
}

/** The id of the session a file holds. @param {any} file */
function parentId(file) {
  if (typeof file !== "string" || !file) return "";
  const handle = fs.openSync(file, "r");
  try {
    const head = Buffer.alloc(4_096);
    const lines = head.toString("utf8", 0, fs.readSync(handle, head)).split("\n");
    const line = lines.find((one) => one.includes('"type":"session"')); // OMP has a line with the title before it
    return line ? String(JSON.parse(line).id ?? "") : "";
  } finally {
    fs.closeSync(handle);
  }
}
