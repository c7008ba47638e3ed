// @ts-check
/** What a person is told of a request the provider refused: the same words on every host (specs/link.md, EXT-10). */

/**
 * @typedef {{ kind: string, what_to_do: string, again: boolean }} Refusal what the process answers to a failure
 */

/** Kind -> why it was refused, and what becomes of it. @type {Record<string, [string, string]>} */
const MENDED = {
  images: ["for its pictures", "older pictures are left out"],
  bytes: ["as too many bytes", "older pictures are left out"],
  thinking: ["for reasoning of another conversation", "that reasoning is left out"],
};

/** Why a refused request is worth one more, and what is done to it. @param {Refusal} said */
export function mended(said) {
  const [why, done] = MENDED[said.kind] ?? ["as too long", "it is made smaller"];
  return `the provider refused the request ${why}; ${done}`;
}

/**
 * What the person has to do where no smaller request helps: the host says only what the provider said.
 * @param {Refusal | undefined} said
 */
export function advice(said) {
  return said && !said.again && said.kind === "output_driven" ? said.what_to_do : "";
}
