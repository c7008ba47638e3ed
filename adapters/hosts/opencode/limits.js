// @ts-check
/** What a model takes, from the host's own list of providers (specs/opencode.md, OC-6). */

const LEAST = 20_000;
const MOST = 3_000_000;
const TRIES = 3;
const PAUSE_MS = 1_000;

/** @typedef {{ context_limit: number, output_limit: number }} Limit tokens, 0: not known */

/** @param {any} value */
const sane = (value) => Number.isInteger(value) && value >= LEAST && value <= MOST;

/**
 * The limits of a model as the host lists them. One that names a limit of its own for the input needs no reserve.
 * @param {any} limit @returns {Limit}
 */
export function limit(limit) {
  const { context, input, output } = limit ?? {};
  if (sane(input) && (!sane(context) || input < context)) return { context_limit: input, output_limit: 0 };
  if (!sane(context)) return { context_limit: 0, output_limit: 0 };
  return { context_limit: context, output_limit: Number.isInteger(output) && output > 0 ? output : 0 };
}

/** The host's list, asked for when first needed and once more for a model it did not have. */
export class Limits {
  /** @param {() => Promise<any>} ask */
  constructor(ask) {
    this.ask = ask;
    /** @type {Map<string, Limit> | undefined} */
    this.known = undefined;
    /** @type {Set<string>} */
    this.missed = new Set();
  }

  /** @param {string} provider @param {string} model @returns {Promise<Limit>} */
  async of(provider, model) {
    const bare = String(model ?? "").replace(/:[^:/]*$/, "");
    const names = [`${provider}/${model}`, `${provider}/${bare}`];
    const known = this.known ?? (await this.listed());
    let found = names.map((name) => known.get(name)).find(Boolean);
    if (!found && !this.missed.has(names[0])) {
      this.missed.add(names[0]); // logging in may have changed the list
      const again = await this.listed();
      found = names.map((name) => again.get(name)).find(Boolean);
    }
    return found ?? { context_limit: 0, output_limit: 0 };
  }

  async listed() {
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      try {
        const { data } = await this.ask();
        this.known = new Map();
        for (const provider of data.providers) {
          for (const [id, model] of Object.entries(provider.models ?? {})) this.known.set(`${provider.id}/${id}`, limit(/** @type {any} */ (model).limit));
        }
        return this.known;
      } catch {
        if (attempt < TRIES) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
    return this.known ?? new Map();
  }
}
