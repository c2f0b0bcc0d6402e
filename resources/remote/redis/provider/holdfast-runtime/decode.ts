// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * Converts data to values, and finds every violation of the schema.
 *
 * The data are in one of three forms. On the wire, records use wire names, whole numbers are texts of digits, and a
 * value of the type `any` is within an object, such as `{"$json": 5}`. Two objects stand for other values there:
 * `{"$unknown": true}` and `{"$secret": ...}`. A key of a mapping that begins with `$` has another `$` before it. State
 * files use the names of the IDL; defaults are in this form. The third form are the values of TypeScript.
 */

import { FormError, address, duration, fromBase64, moment, path as pathOf } from "./forms.js";
import { type Data, fromJson, isSafe, parse, toJson } from "./json.js";
import { broken, restriction } from "./restrictions.js";
import { ANY, type Field, type Kind, type RecordType, type Rule, type Schema, TEXT, type Type } from "./schema.js";
import { inputs, outputs, wireName } from "./schema.js";
import { nearest } from "./spelling.js";
import { CODES, Secret, TOKEN, UNKNOWN, type Violation, isPlain, isWhole, revealed, same } from "./values.js";

export type Form = "wire" | "state" | "value";
/** A record: an object with the names of the wire. */
export type Values = { [name: string]: unknown };

/** Stands for a value that breaks a rule, which has been recorded. */
export const INVALID: unique symbol = Symbol("invalid");
/** The largest whole number: whole numbers have 64 bits. */
const LARGEST = 2n ** 63n;
const DIGITS = /^-?[0-9]{1,19}$/;
const WRITTEN: { readonly [type: string]: (text: string) => unknown } = {
  bytes: fromBase64,
  moment,
  duration,
  path: pathOf,
  address,
};

const TEXTUAL: ReadonlySet<string> = new Set(["text", "choice", "reference", ...Object.keys(WRITTEN)]);

/** Variables of the provider's environment. */
export type Environment = { readonly [name: string]: string | undefined };

/** Return the default of a field in the form of state files; undefined if it has none. */
function defaultOf(field: Field, environment: Environment): Data | undefined {
  const text = (field.environment ?? []).map((name) => environment[name]).find((each) => each !== undefined);
  return text === undefined ? field.default : fromText(field.type, text);
}

/** Return the data for a text of the environment. Numbers, booleans and composite types are read as JSON. */
function fromText(type: Type, text: string): Data {
  const words = type.type === "union" ? (type.members ?? []).map((each) => each.type) : [type.type];
  if (words.some((each) => TEXTUAL.has(each))) return text;
  try {
    return parse(text);
  } catch {
    return text; // the type refuses the text
  }
}

/** Data violate rules of the schema. */
export class InvalidData extends Error {
  constructor(readonly violations: readonly Violation[]) {
    super(violations.map((each) => (each.path ? `${each.path}: ${each.message}` : each.message)).join("; "));
  }
}

/** Decodes data; `violations` has all violations, in the order of the data. */
export class Decoder {
  readonly violations: Violation[] = [];
  /** Key of a field that exists, but is no argument -> its name. */
  private refused: ReadonlyMap<string, string> = new Map();

  constructor(
    private readonly schema: Schema,
    private readonly form: Form,
    /** The source of defaults, with the schema, for fields that are not given; without it, they get none. */
    private readonly environment?: Environment,
  ) {}

  /** Return the arguments of a resource that a declaration gives. */
  inputs(kind: Kind, data: unknown): Values {
    this.refused = new Map(kind.fields.filter((each) => each.out).map((each) => [this.key(each), each.name]));
    return this.fields(inputs(kind.fields), kind.remote.rules ?? [], data);
  }

  /** Return the state of a resource that a provider reports. */
  outputs(kind: Kind, data: unknown): Values {
    return this.fields(outputs(kind.fields), [], data);
  }

  /** Return the values of the fields that are given. */
  fields(fields: readonly Field[], rules: readonly Rule[], data: unknown, path = "", tag = ""): Values {
    const entries = members(data);
    if (entries === undefined) {
      this.violate("type", path, `it must be a mapping, not ${word(data)}`);
      return {};
    }
    const names = new Map(fields.map((each) => [this.key(each), each]));
    const values = new Map<string, unknown>(tag ? [["type", tag]] : []);
    for (const [key, item] of entries) {
      const field = names.get(key);
      if (field !== undefined) values.set(wireName(field), this.field(field, item, at(path, field.name)));
      else if (!tag || key !== "type") this.unexpected(key, [...names.keys()], path);
    }
    for (const field of fields) if (!values.has(wireName(field))) this.notGiven(field, path, values);
    this.violations.push(...broken(rules, values, fields, path));
    return Object.fromEntries([...values].filter(([, value]) => value !== INVALID));
  }

  /** Return the value of a type; `INVALID` after recording why it has none. */
  value(type: Type, data: unknown, path: string): unknown {
    if (this.form === "wire" && data instanceof Map && data.size === 1) {
      if (data.get("$unknown") === true) return UNKNOWN;
      if (data.has("$secret")) return this.secret(type, data.get("$secret"), path);
    }
    if (this.form === "value" && data === UNKNOWN) return UNKNOWN;
    if (data instanceof Secret) return this.secret(type, data.value, path);
    const value = this.plain(type, data, path);
    const told = value === INVALID ? undefined : restriction(this.schema, type, value);
    return told === undefined ? value : this.violate(told[0], path, told[1]);
  }

  private secret(type: Type, data: unknown, path: string): unknown {
    const before = this.violations.length;
    const inner = this.value(type, data, path);
    this.hide(before);
    return inner === INVALID ? INVALID : new Secret(inner);
  }

  private key(field: Field): string {
    return this.form === "state" ? field.name : wireName(field);
  }

  private unexpected(key: string, names: readonly string[], path: string): void {
    const refused = path ? undefined : this.refused.get(key);
    if (refused !== undefined) {
      this.violate("unexpected", refused, "the provider sets it, so it is not an argument");
      return;
    }
    this.violate("unexpected", at(path, key), `there is no field '${key}'${hint(key, names)}`);
  }

  private field(field: Field, item: unknown, path: string): unknown {
    const before = this.violations.length;
    const value = this.value(field.type, item, path);
    if (field.secret !== true) return value;
    this.hide(before);
    return value === INVALID || value === UNKNOWN || value === null ? value : new Secret(revealed(value));
  }

  private notGiven(field: Field, path: string, values: Map<string, unknown>): void {
    if (field.required === true) this.violate("missing", at(path, field.name), "it is required");
    else if (this.environment !== undefined) {
      const data = defaultOf(field, this.environment);
      if (data === undefined) return;
      const decoder = new Decoder(this.schema, "state", this.environment);
      values.set(wireName(field), decoder.field(field, data, at(path, field.name)));
      this.violations.push(...decoder.violations);
    }
  }

  /** Remove a secret value from the later violations; the required type is no secret. */
  private hide(before: number): void {
    const told = this.violations.splice(before);
    const hidden = (each: Violation) =>
      each.code === "type" ? each : { ...each, message: CODES[each.code] ?? "it is wrong" };
    this.violations.push(...told.map(hidden));
  }

  private violate(code: string, path: string, message: string): typeof INVALID {
    this.violations.push({ code, path, message });
    return INVALID;
  }

  // -- the forms of types ----------------------------------------------------------------------------------------

  private plain(type: Type, data: unknown, path: string): unknown {
    if (type.type in WRITTEN) return this.written(type, data, path);
    switch (type.type) {
      case "none":
        return data === null ? null : this.violate("type", path, `it must be null, not ${word(data)}`);
      case "boolean":
        return typeof data === "boolean" ? data : this.wrong("true or false", data, path);
      case "integer":
        return this.integer(type, data, path);
      case "number":
        return this.number(data, path);
      case "reference":
        return this.reference(type, data, path);
      case "text":
        return typeof data === "string" ? data : this.wrong("text", data, path);
      case "choice":
        return this.choice(type, data, path);
      case "list":
        return this.list(type, data, path);
      case "set":
        return this.set(type, data, path);
      default:
        return this.composite(type, data, path);
    }
  }

  private composite(type: Type, data: unknown, path: string): unknown {
    switch (type.type) {
      case "mapping":
        return this.mapping(type, data, path);
      case "record":
        return this.record(this.schema.record(type.record), data, path);
      case "tagged":
        return this.tagged(type, data, path);
      case "union":
        return this.union(type, data, path);
      default:
        return this.any(data, path);
    }
  }

  private wrong(wanted: string, data: unknown, path: string): typeof INVALID {
    return this.violate("type", path, `it must be ${wanted}, not ${word(data)}`);
  }

  /** Return an identifier; among the values of TypeScript, a resource may stand for its own. */
  private reference(type: Type, data: unknown, path: string): unknown {
    const token = this.form === "value" ? tokenOf(data) : undefined;
    if (token === undefined) return typeof data === "string" ? data : this.wrong("text", data, path);
    return token === type.target ? data : this.violate("type", path, `it must be a ${type.target}, not a ${token}`);
  }

  private any(data: unknown, path: string): unknown {
    if (this.form === "state") return toJson(data as Data);
    if (this.form === "wire") {
      const whole = data instanceof Map && data.size === 1 ? (data.get("$json") as Data | undefined) : undefined;
      return whole === undefined ? this.wrong("an object with the member '$json'", data, path) : toJson(whole);
    }
    try {
      return toJson(fromJson(data));
    } catch (error) {
      return this.violate("type", path, (error as Error).message); // the message names a type, not a value
    }
  }

  private integer(type: Type, data: unknown, path: string): unknown {
    const written = this.form === "wire" && typeof data === "string" && DIGITS.test(data);
    const whole = typeof data === "bigint" || (this.form === "value" && isWhole(data));
    if (!written && !whole) return this.wrong("a whole number", data, path);
    const value = BigInt(data as string | number | bigint);
    if (value < -LARGEST || value >= LARGEST) return this.violate("range", path, "it must fit in 64 bits");
    return isSmall(type) && isSafe(value) ? Number(value) : value;
  }

  private number(data: unknown, path: string): unknown {
    const value = typeof data === "bigint" ? Number(data) : data;
    return typeof value === "number" && Number.isFinite(value) ? value : this.wrong("a number", data, path);
  }

  private written(type: Type, data: unknown, path: string): unknown {
    if (type.type === "bytes" && this.form === "value" && data instanceof Uint8Array) return data;
    const seconds = type.type === "duration" && this.form === "state";
    if (seconds && (typeof data === "number" || typeof data === "bigint")) return duration(Number(data));
    if (typeof data !== "string") return this.wrong("text", data, path);
    try {
      return WRITTEN[type.type]?.(data);
    } catch (error) {
      if (error instanceof FormError) return this.violate("form", path, `it must be ${error.message}`);
      throw error;
    }
  }

  private choice(type: Type, data: unknown, path: string): unknown {
    const choices = type.choices ?? [];
    if (typeof data === "string" && choices.includes(data)) return data;
    const near = typeof data === "string" ? hint(data, choices) : "";
    const shown = typeof data === "string" ? `'${data}'` : word(data);
    return this.violate("choice", path, `it must be one of ${listed(choices)}, not ${shown}${near}`);
  }

  private list(type: Type, data: unknown, path: string): unknown[] | typeof INVALID {
    const items = type.type === "set" && data instanceof Set ? [...(data as Set<unknown>)] : data;
    if (!Array.isArray(items)) return this.wrong("a list", data, path);
    const values = items.map((item, number) => this.value(type.items ?? ANY, item, `${path}[${number}]`));
    return values.includes(INVALID) ? INVALID : values;
  }

  private set(type: Type, data: unknown, path: string): unknown {
    const values = this.list(type, data, path);
    if (values === INVALID) return INVALID;
    const again = values.findIndex(
      (value, number) => value !== UNKNOWN && values.slice(0, number).some((other) => same(value, other)),
    );
    if (again >= 0) return this.violate("duplicate", `${path}[${again}]`, "a set contains each value once");
    return new Set(values);
  }

  private mapping(type: Type, data: unknown, path: string): unknown {
    const entries = members(data);
    if (entries === undefined) return this.wrong("a mapping", data, path);
    const values = Object.create(null) as Values;
    let right = true;
    for (const [key, item] of entries) {
      const name = this.form === "wire" && key.startsWith("$$") ? key.slice(1) : key;
      this.value(type.keys ?? TEXT, name, `${path}.${name}`);
      const value = this.value(type.items ?? ANY, item, `${path}.${name}`);
      right &&= value !== INVALID;
      values[name] = value;
    }
    return right ? values : INVALID;
  }

  private record(record: RecordType, data: unknown, path: string): unknown {
    const before = this.violations.length;
    const values = this.fields(record.fields, record.rules ?? [], data, path, record.tag);
    return this.violations.length > before ? INVALID : values;
  }

  private tagged(type: Type, data: unknown, path: string): unknown {
    const entries = members(data);
    if (entries === undefined) return this.wrong("a mapping", data, path);
    const records = (type.members ?? []).map((each) => this.schema.record(each.record));
    const tag = entries.find(([key]) => key === "type")?.[1];
    const record = records.find((each) => each.tag === tag);
    if (record !== undefined) return this.record(record, data, path);
    const wanted = listed(records.map((each) => each.tag ?? ""));
    const shown = typeof tag === "string" ? `'${tag}'` : word(tag);
    return this.violate("choice", at(path, "type"), `it must be one of ${wanted}, not ${shown}`);
  }

  /** Return a value that one of the types accepts; of null and one other type, the violations of the other. */
  private union(type: Type, data: unknown, path: string): unknown {
    const all = type.members ?? [];
    const others = all.filter((each) => each.type !== "none");
    if (data === null && others.length < all.length) return null;
    if (others.length === 1) return this.value(others[0] ?? ANY, data, path);
    for (const each of others) {
      const trial = new Decoder(this.schema, this.form, this.environment);
      const value = trial.value(each, data, path);
      if (value !== INVALID && trial.violations.length === 0) return value;
    }
    return this.violate("type", path, `no type of the union accepts ${word(data)}`);
  }
}

function tokenOf(data: unknown): string | undefined {
  return typeof data === "object" && data !== null && TOKEN in data ? String(data[TOKEN]) : undefined;
}

/** Return whether the limits of an integer fit into a `number`. */
function isSmall(type: Type): boolean {
  const [least, most] = [type.minimum ?? type.above, type.maximum ?? type.below];
  return [least, most].every((limit) => limit !== undefined && isSafe(BigInt(Math.trunc(Number(limit)))));
}

/** Return the members of an object; undefined if the value is not an object. */
function members(data: unknown): readonly (readonly [string, unknown])[] | undefined {
  if (data instanceof Map) return [...(data as ReadonlyMap<string, unknown>)];
  return isPlain(data) ? Object.entries(data).filter(([, item]) => item !== undefined) : undefined;
}

function at(path: string, name: string): string {
  return path ? `${path}.${name}` : name;
}

function hint(word: string, words: readonly string[]): string {
  const near = nearest(word, words);
  return near === undefined ? "" : `; did you mean '${near}'?`;
}

function listed(words: readonly string[]): string {
  return words.map((each) => `'${each}'`).join(", ");
}

/** Return a description of a value without the value itself, which may be secret. */
function word(data: unknown): string {
  if (data === null || data === undefined) return "null";
  if (Array.isArray(data) || data instanceof Set) return "a list";
  const words: { readonly [type: string]: string } = {
    boolean: "true or false",
    number: "a number",
    bigint: "a number",
    string: "text",
  };
  return words[typeof data] ?? "a mapping";
}
