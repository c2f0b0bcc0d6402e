// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Matches patterns so that none blocks the provider for long. */

import { type Context, Script, createContext } from "node:vm";

import { type Pattern, matchesWhole } from "./schema.js";

/** Greatest number of ways of matching that are tried without a time limit. */
const WAYS = 500_000;
/** Greatest duration of a match, in milliseconds. */
const DEADLINE = 5000;
const SCRIPT = new Script("new RegExp(expression, 'u').test(text)");
let context: Context | undefined;

/** Return whether a pattern matches a whole text. If the match takes too long, the text does not match. */
export function matchesInTime(pattern: Pattern, text: string): boolean {
  const [expression, constant, degree] = pattern;
  if (constant * (text.length + 1) ** degree <= WAYS) return matchesWhole(pattern, text);
  context ??= createContext({});
  Object.assign(context, { expression, text });
  try {
    return SCRIPT.runInContext(context, { timeout: DEADLINE }) as boolean;
  } catch (error) {
    if ((error as { code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return false;
    throw error;
  }
}
