// Reads {cases: [{codec, raw, entry}]} and writes what the plugins' own view code makes of them.
import { readFileSync } from "node:fs";
import { digests, render } from "../../../adapters/hosts/apply.js";
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
const echo = (given.echo ?? []).map((text) => text.slice(echoLength(text)));
const kept = (given.kept ?? []).map(stripAll);
process.stdout.write(JSON.stringify({ cases, echo, kept, canonical: (given.values ?? []).map((one) => canonical(JSON.parse(one))) }));
