// @ts-check
/** Whether an agent of the host may call a tool, by the host's configuration (specs/opencode.md, OC-7). */

/** @param {string} pattern @param {string} name */
function fits(pattern, name) {
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(name);
}

/** The last rule that fits decides; one that only limits what the tool is called with denies nothing. @param {any} rules @param {string} name */
function denied(rules, name) {
  if (rules === "deny") return true;
  if (!rules || typeof rules !== "object") return undefined;
  /** @type {boolean | undefined} */
  let found;
  for (const [pattern, value] of Object.entries(rules)) if (fits(pattern, name)) found = value === "deny";
  return found;
}

/** @param {any} config @param {string} agent @param {string} tool */
export function allowed(config, agent, tool) {
  const own = config.agent?.[agent] ?? config.mode?.[agent];
  if ((own?.tools?.[tool] ?? config.tools?.[tool]) === false) return false;
  return !(denied(own?.permission, tool) ?? denied(config.permission, tool) ?? false);
}
