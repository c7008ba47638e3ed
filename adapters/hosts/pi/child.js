// @ts-check
/** A hidden run of the host that only summarises: no tools, no session, no extension of ours (specs/link.md). */
import { spawn } from "node:child_process";
import os from "node:os";

/** Set in the environment of the child: there the extension does nothing. */
export const CHILD = "FOLDLOG_SUMMARIZER_CHILD";
/** Bytes of a prompt that an argument list takes; a longer one goes through the standard input. */
const ARGUMENT = 96 * 1024;
const LARGEST = 8 * 1024 * 1024;

/**
 * @param {{ system: string, prompt: string, timeout_ms: number, model?: string }} asked @param {boolean} omp
 * @param {AbortSignal} [signal] ends the run with the host
 * @returns {Promise<{ text: string, input: number, output: number, model: string }>}
 */
export function summarize(asked, omp, signal) {
  const flags = ["--print", "--mode", "json", "--no-session", "--no-tools", "--no-extensions", "--no-skills"];
  flags.push(...(omp ? ["--no-title", "--no-rules", "--no-lsp"] : ["--no-context-files"]), "--system-prompt", asked.system);
  if (asked.model) flags.push("--model", asked.model);
  const short = Buffer.byteLength(asked.prompt) <= ARGUMENT;
  // a host compiled to one program has no script of its own on the disk
  const script = /^(\/\$bunfs|[A-Z]:[\\/]~BUN)/.test(process.argv[1] ?? "") ? [] : [process.argv[1]];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...script, ...flags, ...(short ? [asked.prompt] : [])], {
      cwd: os.tmpdir(),
      env: { ...process.env, [CHILD]: "1" },
      signal,
      stdio: [short ? "ignore" : "pipe", "pipe", "ignore"],
      windowsHide: true,
    });
    let said = "";
    const late = setTimeout(() => child.kill("SIGKILL"), asked.timeout_ms);
    if (!short) child.stdin?.on("error", () => {}).end(asked.prompt);
    child.stdout?.setEncoding("utf8").on("data", (chunk) => {
      said += chunk;
      if (said.length > LARGEST) child.kill("SIGKILL");
    });
    child.once("error", reject);
    child.once("close", () => {
      clearTimeout(late);
      const message = lastAnswer(said);
      if (!message) {
        reject(new Error("the host's hidden run gave no answer"));
        return;
      }
      const text = message.content.map((/** @type {any} */ block) => (block.type === "text" ? block.text : "")).join("");
      const { input = 0, cacheRead = 0, cacheWrite = 0, output = 0 } = message.usage ?? {};
      resolve({ text, input: input + cacheRead + cacheWrite, output, model: String(message.model ?? "") });
    });
  });
}

/** @param {string} lines */
function lastAnswer(lines) {
  for (const line of lines.split("\n").reverse()) {
    if (!line.startsWith("{")) continue;
    try {
      const { type, message } = JSON.parse(line);
      if (type === "message_end" && message?.role === "assistant" && message.stopReason === "stop") return message;
    } catch {
      // not a line of the host's
    }
  }
  return undefined;
}
