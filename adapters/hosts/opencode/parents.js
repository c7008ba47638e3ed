// @ts-check
/** Which session a fork goes on from: the host copies all messages under new ids and does not say of which (OC-8). */
import { idOf } from "./messages.js";

const FORK = /^(.*) \(fork #\d+\)$/;
const LOOKED_AT = 20;

/**
 * @param {any} client @param {any} info the new session @param {any[]} messages its messages
 * @returns {Promise<{ session: string, at: string[] } | undefined>} `at`: its messages that were copied, newest first
 */
export async function parentOf(client, info, messages) {
  const title = FORK.exec(info.title ?? "")?.[1];
  const copied = messages.filter((one) => one.info.time?.created < info.time?.created);
  if (title === undefined || !copied.length) return undefined;
  const { data: all } = await client.session.list();
  const near = all
    .filter((/** @type {any} */ one) => one.id !== info.id && !one.parentID && one.directory === info.directory && !(one.time?.created > info.time.created))
    .sort((/** @type {any} */ a, /** @type {any} */ b) => Number(base(b) === title) - Number(base(a) === title) || b.time.updated - a.time.updated)
    .slice(0, LOOKED_AT);
  for (const one of near) {
    const { data: theirs } = await client.session.messages({ path: { id: one.id } });
    const alike = copied.every((mine, i) => theirs[i] && same(mine, theirs[i]));
    if (alike) return { session: one.id, at: theirs.slice(0, copied.length).map(idOf).reverse() };
  }
  return undefined;
}

/** @param {any} one */
const base = (one) => FORK.exec(one.title ?? "")?.[1] ?? one.title;

/** @param {any} mine @param {any} theirs */
const same = (mine, theirs) => mine.info.role === theirs.info.role && mine.info.time?.created === theirs.info.time?.created;
