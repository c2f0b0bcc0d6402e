// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * JSON whose whole numbers are exact: the parser of JavaScript would round those of more than 53 bits.
 *
 * A whole number is a `bigint`, any other number a `number`, and an object a `Map`, which keeps its order and may have
 * any key.
 */

export type Data = null | boolean | number | bigint | string | readonly Data[] | ReadonlyMap<string, Data>;

/** Any value of JSON, as users see it: a `bigint` only where a `number` would not be exact. */
export type Json = null | boolean | number | bigint | string | readonly Json[] | { readonly [key: string]: Json };

const DEEPEST = 1000;
/** Most digits of a whole number, as in the agent. */
const LONGEST = 4300;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
// eslint-disable-next-line no-control-regex -- these are the characters that JSON forbids in texts
const TEXT = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS: ReadonlyMap<string, Data> = new Map<string, Data>([
  ["true", true],
  ["false", false],
  ["null", null],
]);
const WORD = /true|false|null/y;

/** Return the data of a text. Throws `SyntaxError`. */
export function parse(text: string): Data {
  return new Parser(text).whole();
}

class Parser {
  private at = 0;

  constructor(private readonly text: string) {}

  whole(): Data {
    const found = this.value(0);
    if (this.at < this.text.length) this.fail("more text than one value");
    return found;
  }

  private value(depth: number): Data {
    if (depth > DEEPEST) this.fail("nested too deeply");
    this.token(SPACE);
    const first = this.text[this.at];
    const found = first === "{" ? this.object(depth) : first === "[" ? this.list(depth) : this.plain();
    this.token(SPACE);
    return found;
  }

  private plain(): Data {
    if (this.text[this.at] === '"') return this.string();
    const word = this.token(WORD);
    if (word !== undefined) return WORDS.get(word[0]) as Data;
    const found = this.token(NUMBER);
    if (found === undefined) return this.fail("no value");
    if (found[2] !== undefined || found[3] !== undefined) return Number(found[0]);
    if (found[0].length > LONGEST) this.fail("a number is too long");
    return BigInt(found[0]);
  }

  private list(depth: number): Data {
    const items: Data[] = [];
    this.at += 1;
    this.token(SPACE);
    if (this.skip("]")) return items;
    for (;;) {
      items.push(this.value(depth + 1));
      if (this.skip("]")) return items;
      if (!this.skip(",")) this.fail("no comma");
    }
  }

  private object(depth: number): Data {
    const items = new Map<string, Data>();
    this.at += 1;
    this.token(SPACE);
    if (this.skip("}")) return items;
    for (;;) {
      this.token(SPACE);
      const key = this.string();
      this.token(SPACE);
      if (!this.skip(":")) this.fail("no colon");
      items.set(key, this.value(depth + 1));
      if (this.skip("}")) return items;
      if (!this.skip(",")) this.fail("no comma");
    }
  }

  private string(): string {
    const found = this.token(TEXT);
    return found === undefined ? this.fail("no text in quotes") : (JSON.parse(found[0]) as string);
  }

  /** Return the match of an expression here, and move behind it. */
  private token(expression: RegExp): RegExpExecArray | undefined {
    expression.lastIndex = this.at;
    const found = expression.exec(this.text);
    if (found === null) return undefined;
    this.at += found[0].length;
    return found;
  }

  private skip(character: string): boolean {
    const found = this.text[this.at] === character;
    if (found) this.at += 1;
    return found;
  }

  private fail(told: string): never {
    throw new SyntaxError(`${told} at character ${this.at}`);
  }
}

/** Return the text of data. */
export function write(data: Data): string {
  if (typeof data === "bigint") return data.toString();
  if (data === null || typeof data !== "object") return JSON.stringify(data);
  if (data instanceof Map) {
    const items = data as ReadonlyMap<string, Data>;
    return `{${[...items].map(([key, item]) => `${JSON.stringify(key)}:${write(item)}`).join(",")}}`;
  }
  return `[${(data as readonly Data[]).map(write).join(",")}]`;
}

/** Return data as users see them. */
export function toJson(data: Data): Json {
  if (typeof data === "bigint") return isSafe(data) ? Number(data) : data;
  if (data === null || typeof data !== "object") return data;
  if (!(data instanceof Map)) return (data as readonly Data[]).map(toJson);
  const found = Object.create(null) as Record<string, Json>;
  for (const [key, item] of data as ReadonlyMap<string, Data>) found[key] = toJson(item);
  return found;
}

/** Return a value of a user as data of JSON. Throws `TypeError` for a value that is not JSON. */
export function fromJson(value: unknown): Data {
  if (value === null || ["boolean", "bigint", "string"].includes(typeof value)) return value as Data;
  if (typeof value === "number" && Number.isFinite(value)) return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(fromJson);
  if (typeof value === "object" && !(value instanceof Map)) {
    return new Map(Object.entries(value as object).map(([key, item]) => [key, fromJson(item)]));
  }
  throw new TypeError(`this is not a JSON value: ${typeof value}`);
}

/** Return whether a `number` holds a whole number exactly. */
export function isSafe(value: bigint): boolean {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
}
