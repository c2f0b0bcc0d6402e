/** Differences between the state of a resource and its declared arguments. */

import type { Values } from "./decode.js";
import type { Difference } from "./messages.js";
import { type Field, type Kind, inputs, wireName } from "./schema.js";
import { UNKNOWN, same } from "./values.js";

/**
 * Return the arguments that differ from the state, in the order of the schema.
 *
 * An argument that is not given does not differ, and neither does one that is never returned (`write_only`), unless the
 * provider has said so when it read the resource (`hidden`, by names of the IDL). `replacing`: further fields whose
 * difference replaces the resource, by their names in TypeScript.
 */
export function differences(
  kind: Kind,
  state: Values,
  declared: Values,
  replacing: readonly string[],
  hidden: readonly string[],
): Difference[] {
  return inputs(kind.fields).flatMap((field) => {
    const name = wireName(field);
    if (declared[name] === undefined) return [];
    const change = hidden.includes(field.name) ? "change" : changeOf(field, state[name], declared[name]);
    const replaces = field.replaces === true || replacing.includes(name);
    return change === undefined ? [] : [{ path: field.name, kind: change, replaces }];
  });
}

function changeOf(field: Field, before: unknown, after: unknown): string | undefined {
  if (field.write_only === true || (after !== UNKNOWN && before !== undefined && same(before, after))) return undefined;
  if (before === undefined) return after === null ? undefined : "add";
  return after === null ? "remove" : "change";
}
