// Reads {cases: [{codec, raw, entry}]} and writes what the plugins' own view code makes of them.
import { readFileSync } from "node:fs";
import { apply, digests, render, take } from "../../../adapters/hosts/apply.js";
import { canonical, echoLength, stripAll } from "../../../adapters/hosts/forms.js";

const given = JSON.parse(readFileSync(0, "utf8"));
const freeze = (value) => {
  if (value && typeof value === "object") Object.values(value).forEach(freeze);
  return Object.freeze(value);
};
const cases = given.cases.map(({ codec, raw, entry }) => {
  const message = freeze(JSON.parse(raw)); // what is the host's must not be written to
  const out = render(codec, message, entry);
  return { out: out === undefined ? null : out, same: out === message, digests: out && digests(codec, out) };
});
const raw = { opencode: { info: { role: "user" }, parts: [] }, pi: { role: "user", content: "x" } };
const units = (given.units ?? []).map(({ codec, unit }) => {
  const edits = { from: 0, number: 1, codec, prefix: "", head: null, cut: null, messages: [], inserts: [["m", [unit]]], digest: "" };
  const out = apply(take(undefined, edits), [raw[codec]], ["m"]).messages.slice(1);
  return { out, digests: out.flatMap((message) => digests(codec, message)) };
});
const echo = (given.echo ?? []).map((text) => text.slice(echoLength(text)));
const kept = (given.kept ?? []).map(stripAll);
process.stdout.write(JSON.stringify({ cases, units, echo, kept, canonical: (given.values ?? []).map((one) => canonical(JSON.parse(one))) }));
