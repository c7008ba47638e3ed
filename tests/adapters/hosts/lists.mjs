// Reads pairs of lists and writes how the second is told over the first.
import { readFileSync } from "node:fs";
import { changes } from "../../../adapters/hosts/conversation.js";

const list = (names) => ({ ids: names.map(([id]) => id), texts: names.map(([, text]) => JSON.stringify(text)) });
const told = JSON.parse(readFileSync(0, "utf8")).map(([before, now]) => changes(list(before), list(now)).map((item) => JSON.parse(item)));
process.stdout.write(JSON.stringify(told));
