// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Names of the IDL in place of those in TypeScript, where an author names a field. */

import { type Field, type Schema, type Type, wireName } from "./schema.js";

const PART = /([^.[\]]+)|(\[\d+\])/g;

/** Return a path with the names of the IDL: `ingress[0].fromPort` becomes `ingress[0].from_port`. */
export function idlPath(schema: Schema, fields: readonly Field[], path: string): string {
  let here: readonly Field[] = fields;
  let type: Type | undefined;
  return path.replace(PART, (part, name: string | undefined) => {
    const field = name === undefined ? undefined : here.find((each) => wireName(each) === name || each.name === name);
    type = field === undefined ? type?.items : field.type;
    const inner = type?.members?.find((each) => each.type !== "none") ?? type;
    if (inner !== undefined && type?.type !== "tagged") type = inner;
    here = fieldsOf(schema, type);
    return field === undefined ? part : field.name;
  });
}

function fieldsOf(schema: Schema, type: Type | undefined): readonly Field[] {
  if (type?.type === "record") return schema.record(type.record).fields;
  return type?.type === "tagged" ? (type.members ?? []).flatMap((each) => schema.record(each.record).fields) : [];
}
