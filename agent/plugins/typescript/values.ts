/**
 * Values of remote resources: the types of the IDL in TypeScript and as text.
 *
 * | type | in TypeScript | as text |
 * |---|---|---|
 * | int | `number` if its limits fit, else `bigint` | |
 * | bytes | `Uint8Array` | base64 |
 * | moment, duration, path, address | text in one form, made by the function of that name | as in `forms.ts` |
 * | set | `ReadonlySet` | |
 *
 * A record is an object with the names of the wire, without the fields that are not given. Two values are special:
 * `UNKNOWN` stands for one that becomes known later, and a `Secret` contains one that must never be shown.
 */

/** Shown in place of a secret. */
export const MASK = "********";

/** Stands for a value that another resource will send once it exists. */
export const UNKNOWN: unique symbol = Symbol("known later");
export type Unknown = typeof UNKNOWN;

/** A value that must never be shown. Printing it shows a mask; `value` reveals it. */
export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return MASK;
  }
}

/** Member of a resource of a package that has its token: `package:module:Name`. */
export const TOKEN: unique symbol = Symbol("token");

/** Return a value, or the content of a secret. */
export function revealed(value: unknown): unknown {
  return value instanceof Secret ? (value.value as unknown) : value;
}

/** Return whether a value, or a part of it, becomes known later. */
export function hasUnknown(value: unknown): boolean {
  const shown = revealed(value);
  if (shown === UNKNOWN) return true;
  if (Array.isArray(shown) || shown instanceof Set) return [...(shown as Iterable<unknown>)].some(hasUnknown);
  return isPlain(shown) && Object.values(shown).some(hasUnknown);
}

/** Return whether a value is an object with named members, and not one of a class such as `Uint8Array`. */
export function isPlain(value: unknown): value is { readonly [name: string]: unknown } {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** One rule of the schema that a value violates. Both sides find the same violations in the same order. */
export interface Violation {
  /** One of `CODES`. */
  readonly code: string;
  /** Path to the value, by names of the IDL: `ingress[0].from_port`; empty: the value as a whole. */
  readonly path: string;
  readonly message: string;
}

export const CODES: { readonly [code: string]: string } = {
  missing: "a required field is not given",
  unexpected: "there is no such field, or the provider sets it",
  type: "the value has another type",
  form: "the text is not in the form of its type",
  range: "the number is too small or too large",
  length: "the value is too short or too long",
  pattern: "the text does not match the pattern",
  choice: "the value is not one of those that are allowed",
  duplicate: "a set contains a value twice",
  rule: "fields do not fit together",
};

/** Return whether two values are equal; a secret is equal to its value, and the order of a set does not matter. */
export function same(first: unknown, second: unknown): boolean {
  const [before, after] = [revealed(first), revealed(second)];
  if (before instanceof Set && after instanceof Set) {
    return before.size === after.size && matched([...(before as Set<unknown>)], [...(after as Set<unknown>)]);
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    return before.length === after.length && before.every((item, number) => same(item, after[number]));
  }
  if (before instanceof Uint8Array && after instanceof Uint8Array) {
    return before.length === after.length && before.every((byte, number) => byte === after[number]);
  }
  if (isPlain(before) && isPlain(after)) {
    const [left, right] = [given(before), given(after)];
    return left.length === right.length && left.every(([name, item]) => name in after && same(item, after[name]));
  }
  return before === after || (isWhole(before) && isWhole(after) && BigInt(before) === BigInt(after));
}

/** Return whether each value has an equal one among the others, of which there are as many. */
function matched(before: readonly unknown[], after: readonly unknown[]): boolean {
  const left = [...after];
  return before.every((item) => {
    const number = left.findIndex((other) => same(item, other));
    if (number >= 0) left.splice(number, 1);
    return number >= 0;
  });
}

/** Return the members of an object that are given. */
export function given(value: { readonly [name: string]: unknown }): [string, unknown][] {
  return Object.entries(value).filter(([, item]) => item !== undefined);
}

/** Return whether a value is a whole number. */
export function isWhole(value: unknown): value is number | bigint {
  return typeof value === "bigint" || Number.isSafeInteger(value);
}
