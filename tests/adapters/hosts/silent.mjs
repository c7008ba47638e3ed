// A process that answers once and then is silent in several ways: what a plugin does each time.
import { LinkError } from "../../../adapters/hosts/client.js";
import { Conversation } from "../../../adapters/hosts/conversation.js";

const first = [{ role: "user", content: "go", timestamp: 1 }];
const then = [...first, { role: "user", content: "on", timestamp: 2 }];
const told = (messages) => ({ ids: messages.map((one) => String(one.timestamp)), texts: messages.map((one) => JSON.stringify(one)) });
const edits = { from: 0, number: 1, codec: "pi", prefix: "00", head: null, cut: null, messages: [], inserts: [], digest: "", guidance: "" };

async function play(before, silence) {
  const answers = [() => ({ version: "a", spare: 100, edits }), () => ({ version: "b", spare: 100, edits }), silence];
  const client = { call: async (_, __, how) => answers.shift()(how), tell: async () => undefined };
  const conversation = new Conversation(client, "s");
  await conversation.pass(first, told(first), { model: "m" });
  before(conversation);
  return conversation.pass(then, told(then), { model: "m" }, { told: () => {} }).then(
    ({ messages, number, why }) => ({ messages, number, why }),
    ({ code }) => ({ code }),
  );
}

const late = (how) => {
  throw new LinkError("late", "TIMEOUT");
};
const waiting = (how) => {
  how.told("nearly full");
  return late(how);
};
const refused = () => {
  throw new LinkError("full", "CONTEXT_FULL", { last_good: false });
};
const nothing = () => {};
process.stdout.write(
  JSON.stringify([
    await play(nothing, late),
    await play(nothing, waiting),
    await play((conversation) => conversation.failed(), late),
    await play(nothing, refused),
  ]),
);
