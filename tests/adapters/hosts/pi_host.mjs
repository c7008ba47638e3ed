// Plays Pi (or OMP) around the extension: reads { omp, command, steps } and writes what each step gave.
import fs from "node:fs";
import { register } from "node:module";
import { foldlog } from "../../../adapters/hosts/pi/extension.js";
import { summarize } from "../../../adapters/hosts/pi/child.js";
import { runFiles } from "../../../adapters/hosts/client.js";

if (process.env.FOLDLOG_SUMMARIZER_CHILD) {
  // a hidden run of this host: says what it was given
  const at = process.argv.indexOf("--system-prompt");
  const last = process.argv.at(-1);
  const prompt = last.includes("new_messages") || last === "hang" || last === "fail" ? last : fs.readFileSync(0, "utf8");
  if (prompt === "hang") setInterval(() => {}, 1000);
  else {
    const text = JSON.stringify({ flags: process.argv.slice(2, at), system: process.argv[at + 1], prompt });
    const message = { role: "assistant", stopReason: prompt === "fail" ? "error" : "stop", model: "m", content: [{ type: "text", text }], usage: { input: 3, cacheRead: 4, cacheWrite: 5, output: 6 } };
    process.stdout.write(`not json\n${JSON.stringify({ type: "message_end", message })}\n`, () => process.exit());
  }
  await new Promise(() => {});
}

const given = JSON.parse(fs.readFileSync(0, "utf8"));
const handlers = {};
const tools = {};
const commands = {};
const said = { notices: [], aborts: 0, results: [], settings: {} };
const settings = {
  override: (name, value) => (said.settings[name] = value),
  clearOverride: (name) => delete said.settings[name],
};
// Pi's own package as an extension sees it; `fixed`: one whose settings are not as they are known
class SettingsManager {
  getSettings() {
    return { compaction: { enabled: this.getCompactionEnabled() } };
  }
  getCompactionEnabled() {
    return given.enabled ?? true;
  }
}
const kept = new SettingsManager();
const another = new SettingsManager();
const { getSettings } = SettingsManager.prototype;
globalThis.piPackage = given.fixed ? {} : { SettingsManager };
const source = (text) => `data:text/javascript,${encodeURIComponent(text)}`;
const packaged = source("export const { SettingsManager } = globalThis.piPackage;");
const resolve = `export const resolve = (name, context, next) =>
  name === "@earendil-works/pi-coding-agent" ? { url: ${JSON.stringify(packaged)}, shortCircuit: true } : next(name, context);`;
if (!given.omp) register(source(resolve));
const pi = {
  getSettings: () => kept.getSettings(),
  on: (name, handler) => (handlers[name] = handler),
  registerTool: (tool) => (tools[tool.name] = tool),
  registerCommand: (name, command) => (commands[name] = command),
  getActiveTools: () => given.active ?? Object.keys(tools),
  ...(given.omp ? { pi: given.fixed ? {} : { settings }, zod: {} } : {}),
};
let prompt = given.omp ? ["You are OMP.", "Be brief."] : "You are Pi.";
let session = given.session ?? "s1";
let branch = [];
const ctx = {
  hasUI: true,
  ui: { notify: (text, kind) => said.notices.push([kind, text]) },
  abort: () => said.aborts++,
  model: given.model ?? { provider: "p", id: "claude-x", contextWindow: 100_000, maxTokens: 4_096 },
  getSystemPrompt: () => prompt,
  sessionManager: {
    getSessionId: () => session,
    getBranch: () => branch,
    getHeader: () => ({ id: session, parentSession: given.parent }),
    getSessionFile: () => given.file,
  },
};
foldlog({ command: given.command ?? ["/nowhere/foldlog"] })(pi);
said.registered = { tools: Object.keys(tools), commands: Object.keys(commands), events: Object.keys(handlers) };

async function step(one) {
  if (one.session) {
    session = one.session;
    branch = one.branch ?? [];
    return null;
  }
  if (one.model) return Object.assign(ctx.model, one.model), null;
  if (one.kill) return process.kill(JSON.parse(fs.readFileSync(runFiles().find((file) => fs.existsSync(file)), "utf8")).pid, one.kill), null;
  if (one.wait) return new Promise((resolve) => setTimeout(() => resolve(null), one.wait));
  if (one.summarize) return summarize(one.summarize, !!given.omp, new AbortController().signal).catch((error) => ({ thrown: error.message }));
  if (one.enabled) return [kept, another].map((settings) => settings.getCompactionEnabled());
  if (one.tool) return tools[one.tool].execute(one.id ?? "c1", one.params ?? {}, undefined, undefined, ctx).then((made) => made.content[0].text, (error) => ({ thrown: error.message }));
  if (one.command) return commands[one.command].handler("", ctx);
  const before = JSON.stringify(one.event);
  const result = await handlers[one.on]({ type: one.on, ...one.event }, ctx);
  if (one.on === "before_agent_start" && result) prompt = result.systemPrompt;
  if (one.on === "context" && JSON.stringify(one.event) !== before) throw new Error("the host's own messages were changed");
  if (one.on === "context" && one.marks) {
    // what OMP does with what a handler returns
    const mark = Symbol("agent.message.perCallContext");
    const other = Symbol("another");
    return result.messages.map((message) => {
      message[mark] = true;
      message[other] = true;
      message.plain = true;
      return [message[mark] === true, message[other] === true && Object.hasOwn(message, other) && message.plain && Object.hasOwn(message, "plain")];
    });
  }
  return result ?? null;
}

for (const one of given.steps) said.results.push(await step(one));
await handlers.session_shutdown({ reason: "quit" }, ctx);
said.after = kept.getCompactionEnabled() && SettingsManager.prototype.getSettings === getSettings;
process.stdout.write(JSON.stringify(said));
