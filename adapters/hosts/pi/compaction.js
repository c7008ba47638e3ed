// @ts-check
/** The host's own compaction, off while foldlog manages what is sent, in this process alone (specs/link.md, EXT-7). */

/**
 * OMP's settings by which it rewrites its own history, asking no extension: behind a refusal it shakes results out, and
 * at the end of a turn it prunes what it takes for stale. Each changes what was sent before.
 */
const OMP = ["compaction.enabled", "compaction.idleEnabled", "compaction.supersedeReads", "compaction.dropUseless"];
/** Pi's own package, as it gives it to extensions: the code that runs, not a copy. */
const PI = "@earendil-works/pi-coding-agent";

/** @typedef {{ off(): void | Promise<void>, on(): void }} Own throws, or rejects, where the host's settings are not as they are known */

/** @param {any} pi @param {boolean} omp @returns {Own} */
export function own(pi, omp) {
  return omp ? ofOmp(pi) : ofPi(pi);
}

/** OMP lends an extension its settings, to be overridden for as long as it runs. @param {any} pi @returns {Own} */
function ofOmp(pi) {
  return {
    off: () => OMP.forEach((name) => pi.pi.settings.override(name, false)),
    on: () => OMP.forEach((name) => pi.pi.settings.clearOverride(name)),
  };
}

/**
 * Pi asks its session's settings each time. There the answer is replaced, in that one object: what the person has set,
 * in files or meanwhile in /settings, stays as it is and holds again afterwards. @param {any} pi @returns {Own}
 */
function ofPi(pi) {
  /** @type {any} */
  let settings;
  return {
    off: async () => {
      settings ??= await settingsOf(pi);
      settings.getCompactionEnabled = () => false;
    },
    on: () => {
      if (settings) delete settings.getCompactionEnabled;
    },
  };
}

/** An extension gets a copy of its session's settings; of what the copy is made is seen while it is made. @param {any} pi */
async function settingsOf(pi) {
  const { prototype } = (await import(PI)).SettingsManager;
  const { getSettings } = prototype;
  /** @type {any} */
  let found;
  prototype.getSettings = function () {
    found = this;
    return getSettings.call(this);
  };
  try {
    pi.getSettings();
  } finally {
    prototype.getSettings = getSettings;
  }
  if (typeof found?.getCompactionEnabled !== "function") throw new Error("another Pi");
  return found;
}
