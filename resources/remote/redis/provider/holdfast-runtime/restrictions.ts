// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Conditions on values beyond their types: the restrictions of one value, and the rules of several fields. */

import { type Duration, inMicroseconds } from "./forms.js";
import { type Field, type Rule, type Schema, type Type, wireName } from "./schema.js";
import { UNKNOWN, type Violation, isWhole, revealed } from "./values.js";

const LENGTHS: { readonly [type: string]: string } = {
  text: "characters",
  bytes: "bytes",
  list: "items",
  set: "items",
  mapping: "entries",
};

type CodeAndMessage = readonly [code: string, message: string];

/** Return the code and the message of the first restriction of a type that a value violates. */
export function restriction(schema: Schema, type: Type, value: unknown): CodeAndMessage | undefined {
  if (value === UNKNOWN) return undefined;
  if (type.type === "integer" || type.type === "number") {
    const told = outOfRange(type, value as number | bigint);
    if (told !== undefined) return ["range", told];
  }
  const unit = LENGTHS[type.type];
  const told = unit && wrongLength(type, lengthOf(value), unit);
  if (told) return ["length", told];
  if (typeof value !== "string") return undefined; // a reference may be a declaration
  const wrong = (type.patterns ?? []).find((pattern) => !schema.matches(pattern, value));
  return wrong === undefined ? undefined : ["pattern", `it must match '${wrong}'`];
}

function outOfRange(type: Type, value: number | bigint): string | undefined {
  if (type.minimum !== undefined && value < type.minimum) return `it must be at least ${type.minimum}, not ${value}`;
  if (type.maximum !== undefined && value > type.maximum) return `it must be at most ${type.maximum}, not ${value}`;
  if (type.above !== undefined && value <= type.above) return `it must be greater than ${type.above}, not ${value}`;
  if (type.below !== undefined && value >= type.below) return `it must be less than ${type.below}, not ${value}`;
  return undefined;
}

function lengthOf(value: unknown): number {
  if (typeof value === "string") return [...value].length;
  if (value instanceof Set) return value.size;
  return Array.isArray(value) || value instanceof Uint8Array ? value.length : Object.keys(value as object).length;
}

function wrongLength(type: Type, length: number, unit: string): string | undefined {
  const { shortest, longest } = type;
  if (shortest !== undefined && length < shortest) return `it must have at least ${shortest} ${unit}, not ${length}`;
  if (longest !== undefined && length > longest) return `it must have at most ${longest} ${unit}, not ${length}`;
  return undefined;
}

/** Return the rules that fields violate: wire name -> value. A rule on an unknown value is skipped. */
export function broken(
  rules: readonly Rule[],
  values: ReadonlyMap<string, unknown>,
  fields: readonly Field[],
  path: string,
): Violation[] {
  const known = new Map(fields.map((each) => [each.name, each]));
  return rules.flatMap((rule) => {
    const named = rule.fields.flatMap((name) => known.get(name) ?? []);
    const given = named.filter((each) => (values.get(wireName(each)) ?? null) !== null);
    const shown = given.map((each) => ({ field: each, value: revealed(values.get(wireName(each))) }));
    if (rule.rule === "ordered" && shown.some(({ value }) => value === UNKNOWN)) return [];
    const told = rule.rule === "ordered" ? notOrdered(shown) : wrongCount(rule, named, given.length);
    return told === undefined ? [] : [{ code: "rule", path, message: told }];
  });
}

interface Given {
  readonly field: Field;
  readonly value: unknown;
}

function notOrdered(given: readonly Given[]): string | undefined {
  const number = given.findIndex(({ field, value }, index) => {
    const next = given[index + 1];
    return next !== undefined && greater(field.type, value, next.value);
  });
  return number < 0
    ? undefined
    : `${given[number]?.field.name} must not be greater than ${given[number + 1]?.field.name}`;
}

function wrongCount(rule: Rule, named: readonly Field[], count: number): string | undefined {
  const holds = {
    ordered: true,
    "exactly one": count === 1,
    "at most one": count <= 1,
    "at least one": count >= 1,
    together: count === 0 || count === named.length,
  }[rule.rule];
  const wanted = rule.rule === "together" ? "all of them or none" : `${rule.rule} of them`;
  return holds ? undefined : `${wanted} must be given: ${named.map((each) => each.name).join(", ")}`;
}

/** Return whether a value is greater than another; values of types without an order are not. */
function greater(type: Type, first: unknown, second: unknown): boolean {
  const inner = type.members?.find((each) => each.type !== "none") ?? type;
  if (inner.type === "integer" || inner.type === "number") return isNumber(first) && isNumber(second) && first > second;
  if (typeof first !== "string" || typeof second !== "string") return false;
  if (inner.type === "duration") return inMicroseconds(first as Duration) > inMicroseconds(second as Duration);
  return inner.type === "moment" && first.replace("Z", "") > second.replace("Z", "");
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === "number" || isWhole(value);
}
