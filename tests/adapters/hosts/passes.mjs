// Reads {passes: [{edits, messages, ids}]} of one session and writes what a plugin makes of each.
import { readFileSync } from "node:fs";
import { apply, take } from "../../../adapters/hosts/apply.js";

const { passes } = JSON.parse(readFileSync(0, "utf8"));
let view;
const made = passes.map(({ edits, messages, ids, forget }) => {
  if (forget) view = undefined;
  try {
    view = take(view, edits);
  } catch (error) {
    return { error: error.constructor.name };
  }
  const prints = messages.map((message) => JSON.stringify(message));
  const found = apply(view, messages, ids, prints);
  const plain = apply({ ...view, steps: [] }, messages, ids);
  if (plain.digest !== found.digest) throw new Error("what was kept of the last pass is not what a new reckoning gives");
  return found;
});
process.stdout.write(JSON.stringify(made));
