// @ts-check
/**
 * The plugins' end of the link (specs/link.md): finds the foldlog process of this user, starts it where there is none,
 * and speaks JSON-RPC with it, one message a line. For Node and Bun; no dependency.
 */
import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

export const PROTOCOL = 1;
/** Milliseconds a call may take, and one that the process said it waits in (a summary at a full window). */
export const CALL_MS = 15_000;
export const WAIT_MS = 310_000;
const START_MS = 20_000;
const CONNECT_MS = 2_000;

/**
 * A failure as the person is told it. `code`: the process's own (`STORE_NEWER`, …), or `LINK` where it was not reached.
 */
export class LinkError extends Error {
  /** @param {string} message @param {string} [code] @param {Record<string, any>} [data] */
  constructor(message, code = "LINK", data = {}) {
    super(message);
    this.name = "LinkError";
    this.code = code;
    this.data = data;
  }
}

/**
 * @typedef {object} Options
 * @property {string} host       the host's name: `pi`, `omp`, `opencode`
 * @property {string[]} [command] how foldlog is started, without its arguments; else `FOLDLOG_COMMAND` says it
 * @property {string} [version]  the plugin's version
 * @property {Record<string, string | undefined>} [env] environment of the process where it is started
 * @property {Record<string, (params: any) => any>} [serve] what the process may ask of the plugin, by method
 * @property {(text: string) => void} [told] hears what the process says while a call waits
 *
 * @typedef {object} Address
 * @property {string} [socket]
 * @property {string} [host]
 * @property {number} [port]
 * @property {string} [token]
 *
 * @typedef {object} Waiting
 * @property {(value: any) => void} resolve
 * @property {(error: Error) => void} reject
 * @property {ReturnType<typeof setTimeout>} timer
 * @property {number} longest
 * @property {((text: string) => void) | undefined} told
 *
 * @typedef {object} CallOptions
 * @property {number} [timeout]  milliseconds until the call is given up
 * @property {number} [longest]  milliseconds until it is given up where the process said that it waits
 * @property {(text: string) => void} [told] hears why the process waits
 */

/** Where the run file of the process may stand; what is not found there is asked of the process that is started. */
export function runFiles(env = process.env) {
  const folders = [];
  if (env.XDG_RUNTIME_DIR) folders.push(env.XDG_RUNTIME_DIR);
  if (process.platform === "win32") folders.push(path.join(env.LOCALAPPDATA ?? os.homedir(), "Temp", "foldlog"));
  else if (process.platform === "darwin") folders.push(path.join(os.homedir(), "Library", "Caches", "TemporaryItems"));
  else folders.push(`/run/user/${os.userInfo().uid}`, path.join(os.tmpdir(), `runtime-${os.userInfo().uid}`));
  return folders.map((folder) => path.join(folder, "foldlog", "link.json"));
}

/** @param {string} file @returns {Address | undefined} what a run file says, if this user alone can have written it */
function address(file) {
  try {
    const found = fs.lstatSync(file);
    if (!found.isFile() || found.size > 65_536) return undefined;
    if (process.platform !== "win32" && (found.uid !== os.userInfo().uid || found.mode & 0o077)) return undefined;
    return JSON.parse(fs.readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/** @param {Address} where @returns {Promise<net.Socket>} */
function dial(where) {
  return new Promise((resolve, reject) => {
    const socket = where.socket
      ? net.createConnection({ path: where.socket })
      : net.createConnection({ host: where.host ?? "127.0.0.1", port: where.port ?? 0 });
    const late = setTimeout(() => socket.destroy(new Error("no connection in time")), CONNECT_MS);
    socket.once("connect", () => {
      clearTimeout(late);
      socket.removeAllListeners("error");
      resolve(socket);
    });
    socket.once("error", (error) => {
      clearTimeout(late);
      reject(error);
    });
  });
}

/** How foldlog is started: what `foldlog setup` wrote, as a JSON list or one path, else what the shell finds. */
export function command(env = process.env) {
  const said = env.FOLDLOG_COMMAND ?? "";
  if (!said.startsWith("[")) return [said || "foldlog"];
  try {
    return /** @type {string[]} */ (JSON.parse(said));
  } catch {
    throw new LinkError(`FOLDLOG_COMMAND is no list of words in JSON: ${said}`);
  }
}

/** Start the process, or find the one that was first. @param {Options} options @returns {Promise<Address>} */
function start(options) {
  const [program, ...first] = options.command ?? command();
  return new Promise((resolve, reject) => {
    let said = "";
    let line = "";
    const child = spawn(program, [...first, "link"], {
      cwd: os.homedir(),
      detached: true,
      env: /** @type {NodeJS.ProcessEnv} */ (options.env ?? process.env),
      stdio: ["ignore", "pipe", "pipe"],
      windowsHide: true,
    });
    const late = setTimeout(() => fail(`it said nothing for ${START_MS / 1000} seconds`), START_MS);
    /** @param {string} why */
    function fail(why) {
      clearTimeout(late);
      child.stdout?.destroy();
      child.stderr?.destroy();
      child.unref();
      reject(new LinkError(`foldlog could not be started with \`${program} ${[...first, "link"].join(" ")}\`: ${why}`));
    }
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code) => {
      if (!line.includes("\n")) fail(said.trim().split("\n").slice(-3).join(" ") || `it ended with code ${code}`);
    });
    child.stderr?.on("data", (chunk) => {
      said = (said + chunk).slice(-4_096);
    });
    child.stdout?.on("data", (chunk) => {
      line += chunk;
      if (!line.includes("\n")) return;
      clearTimeout(late);
      child.stdout?.destroy();
      child.stderr?.destroy();
      child.unref();
      try {
        resolve(JSON.parse(line.slice(0, line.indexOf("\n"))));
      } catch {
        fail("what it said is no address");
      }
    });
  });
}

/** A connection to the process, made when the first call needs it and once more where it was lost. */
export class Client {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    /** @type {net.Socket | undefined} */
    this.socket = undefined;
    /** @type {Promise<net.Socket> | undefined} */
    this.opening = undefined;
    /** @type {Map<number, Waiting>} */
    this.waiting = new Map();
    this.next = 0;
    this.closed = false;
  }

  /**
   * Ask the process for something. Rejects with a `LinkError`. `params`: an object, or its JSON.
   * @param {string} method @param {Record<string, any> | string} params @param {CallOptions} [how] @returns {Promise<any>}
   */
  async call(method, params, how = {}) {
    const until = Date.now() + (how.timeout ?? CALL_MS);
    for (let attempt = 0; ; attempt++) {
      try {
        const socket = await within(this.connected(), until - Date.now());
        return await this.send(socket, method, params, how, until);
      } catch (error) {
        const lost = error instanceof LinkError && error.code === "LOST";
        // the process was idle and ended, or was ended: another is started, and whoever counts on the old one is told
        if (!lost || attempt || this.closed || Date.now() >= until) throw error;
      }
    }
  }

  /** Tell the process something; nothing is said where that fails. @param {string} method @param {Record<string, any>} params */
  async tell(method, params) {
    try {
      return await this.call(method, params);
    } catch {
      return undefined;
    }
  }

  close() {
    this.closed = true;
    this.socket?.destroy();
  }

  /** @returns {Promise<net.Socket>} */
  connected() {
    if (this.closed) return Promise.reject(new LinkError("the connection was closed"));
    if (this.socket && !this.socket.destroyed) return Promise.resolve(this.socket);
    this.opening ??= this.open().finally(() => {
      this.opening = undefined;
    });
    return this.opening;
  }

  /** @returns {Promise<net.Socket>} */
  async open() {
    for (const file of runFiles(this.options.env)) {
      const where = address(file);
      if (!where) continue;
      try {
        return await this.greet(await dial(where), where);
      } catch (error) {
        if (error instanceof LinkError && error.code !== "LOST") throw error;
      }
    }
    const where = await start(this.options);
    try {
      return await this.greet(await dial(where), where);
    } catch (error) {
      if (error instanceof LinkError && error.code !== "LOST") throw error;
      throw new LinkError(`the foldlog process was started but cannot be reached: ${words(error)}`);
    }
  }

  /** @param {net.Socket} socket @param {Address} where */
  async greet(socket, where) {
    this.listen(socket);
    const { host, version, serve } = this.options;
    const hello = { host, protocol: PROTOCOL, version: version ?? "", token: where.token ?? "", can: Object.keys(serve ?? {}) };
    await this.send(socket, "hello", hello, {}, Date.now() + CALL_MS);
    socket.unref?.();
    this.socket = socket;
    return socket;
  }

  /** @param {net.Socket} socket */
  listen(socket) {
    /** @type {Buffer[]} */
    let parts = [];
    socket.on("data", (/** @type {Buffer} */ chunk) => {
      let from = 0;
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
        parts.push(chunk.subarray(from, end));
        const line = parts.length === 1 ? parts[0] : Buffer.concat(parts);
        parts = [];
        from = end + 1;
        this.heard(socket, line.toString("utf8"));
      }
      if (from < chunk.length) parts.push(chunk.subarray(from));
    });
    socket.on("error", () => {}); // "close" follows and says it all
    socket.on("close", () => {
      if (this.socket === socket) this.socket = undefined;
      for (const [id, one] of this.waiting) {
        if (/** @type {any} */ (one).socket !== socket) continue;
        this.waiting.delete(id);
        clearTimeout(one.timer);
        one.reject(new LinkError("the foldlog process ended", "LOST"));
      }
    });
  }

  /** @param {net.Socket} socket @param {string} line */
  heard(socket, line) {
    /** @type {any} */
    let frame;
    try {
      frame = JSON.parse(line);
    } catch {
      return;
    }
    if (frame.method === "waiting") {
      const one = this.waiting.get(frame.params?.call);
      if (!one) return;
      clearTimeout(one.timer);
      one.timer = setTimeout(() => this.late(frame.params.call), one.longest);
      (one.told ?? this.options.told)?.(String(frame.params.text));
    } else if (frame.method) {
      this.asked(socket, frame);
    } else {
      const one = this.waiting.get(frame.id);
      if (!one) return;
      this.waiting.delete(frame.id);
      clearTimeout(one.timer);
      if (frame.error) one.reject(new LinkError(frame.error.message, frame.error.data?.code ?? "RPC", frame.error.data ?? {}));
      else one.resolve(frame.result);
    }
  }

  /** Do what the process asks for, and answer. @param {net.Socket} socket @param {any} frame */
  async asked(socket, frame) {
    /** @type {any} */
    const reply = { jsonrpc: "2.0", id: frame.id };
    try {
      const serve = this.options.serve?.[frame.method];
      if (!serve) throw new Error(`this plugin does not do ${frame.method}`);
      reply.result = (await serve(frame.params)) ?? null;
    } catch (error) {
      reply.error = { code: -32000, message: words(error) };
    }
    if (frame.id !== undefined && !socket.destroyed) socket.write(`${JSON.stringify(reply)}\n`);
  }

  /**
   * @param {net.Socket} socket @param {string} method @param {Record<string, any> | string} params
   * @param {CallOptions} how @param {number} until @returns {Promise<any>}
   */
  send(socket, method, params, how, until) {
    const id = ++this.next;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.late(id), Math.max(until - Date.now(), 1));
      const one = { resolve, reject, timer, longest: how.longest ?? WAIT_MS, told: how.told, socket };
      this.waiting.set(id, one);
      const told = typeof params === "string" ? params : JSON.stringify(params);
      socket.write(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${told}}\n`);
    });
  }

  /** @param {number} id */
  late(id) {
    const one = this.waiting.get(id);
    if (!one) return;
    this.waiting.delete(id);
    one.reject(new LinkError("the foldlog process did not answer in time", "TIMEOUT"));
  }
}

/** @template T @param {Promise<T>} work @param {number} ms @returns {Promise<T>} */
function within(work, ms) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new LinkError("the foldlog process could not be reached in time", "TIMEOUT")), Math.max(ms, 1));
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** @param {unknown} error */
export function words(error) {
  return error instanceof Error ? error.message : String(error);
}
