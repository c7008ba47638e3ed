// Plays OpenCode around the plugin: reads { command, steps, sessions, providers, ... } and writes what each step gave.
import fs from "node:fs";
import { runFiles } from "../../../../adapters/hosts/client.js";
import plugin, { Plugin } from "../../../../adapters/hosts/opencode/plugin.js";

const given = JSON.parse(fs.readFileSync(0, "utf8"));
process.env.FOLDLOG_COMMAND = JSON.stringify(given.command ?? ["/nowhere/foldlog"]);
const said = { notices: [], log: [], errors: [], results: [], asked: {} };
console.error = (text) => said.errors.push(text);
const asked = (name, value) => {
  said.asked[name] = (said.asked[name] ?? 0) + 1;
  if (value instanceof Error) throw value;
  return { data: value };
};
const sessions = given.sessions ?? {};
const client = {
  config: { providers: async () => asked("providers", { providers: given.providers ?? [] }) },
  session: {
    get: async ({ path }) => asked("get", sessions[path.id]?.info),
    list: async () => asked("list", Object.values(sessions).map((one) => one.info)),
    messages: async ({ path }) => asked("messages", sessions[path.id]?.messages ?? []),
    create: async ({ body }) => asked("create", { id: "ses_child", ...body }),
    prompt: async ({ body }) => ({ data: { info: { tokens: { input: 7, output: 3, cache: { read: 5, write: 0 } }, modelID: body.model?.modelID }, parts: [{ type: "text", text: `summary of ${body.parts[0].text}` }] } }),
    delete: async () => asked("delete", true),
    abort: async () => asked("abort", true),
  },
  tui: { showToast: async ({ body }) => said.notices.push([body.variant, body.message]) },
  app: { log: async ({ body }) => said.log.push([body.level, body.message]) },
};
const hooks = await plugin.server({ client, directory: "/work" });
said.hooks = Object.keys(hooks);

async function step(one) {
  if (one.kill) return process.kill(JSON.parse(fs.readFileSync(runFiles().find((file) => fs.existsSync(file)), "utf8")).pid, one.kill), null;
  if (one.wait) return new Promise((resolve) => setTimeout(() => resolve(null), one.wait));
  if (one.event) return (await hooks.event({ event: one.event })) ?? null;
  if (one.tool) return hooks.tool[one.tool].execute(one.args ?? {}, { sessionID: one.session, callID: one.call ?? "c1" });
  if (one.config) return await hooks.config(one.config), one.config;
  if (one.summarize) return new Plugin({ client }, undefined).summarize(one.summarize);
  const output = structuredClone(one.output ?? {});
  const list = output.messages ?? output.system;
  const frozen = (value) => (value && typeof value === "object" ? (Object.values(value).forEach(frozen), Object.freeze(value)) : value);
  output.messages?.forEach(frozen); // what is in the host's list is not written to
  await hooks[one.hook](one.input ?? {}, output);
  if (list && list !== (output.messages ?? output.system)) throw new Error("the host's list was exchanged, which it does not see");
  return output;
}

for (const one of given.steps) {
  try {
    said.results.push(await step(one));
  } catch (error) {
    said.results.push({ thrown: error.message });
  }
}
await new Promise((resolve) => setTimeout(resolve, given.settle ?? 50));
process.stdout.write(JSON.stringify(said), () => process.exit(0));
