// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Converts values to data of JSON, in the forms of the wire or of state files (`decode.ts`). */

import type { Values } from "./decode.js";
import { toBase64 } from "./forms.js";
import { type Data, fromJson, write } from "./json.js";
import { ANY, type Field, type RecordType, type Schema, type Type, wireName } from "./schema.js";
import { Secret, UNKNOWN, isPlain, isWhole } from "./values.js";

/** Encodes values. It throws `TypeError` for one that has another type than the schema says. */
export class Encoder {
  constructor(
    private readonly schema: Schema,
    private readonly form: "wire" | "state" = "wire",
    /** Returns the data for a resource to which a reference leads. */
    private readonly reference: (value: unknown) => Data = text,
  ) {}

  /** Return the data of a record, with the fields in the order of the schema. */
  fields(fields: readonly Field[], values: Values, tag?: string): Map<string, Data> {
    const found = new Map<string, Data>(tag ? [["type", tag]] : []);
    for (const each of fields) {
      const value = values[wireName(each)];
      if (value !== undefined) found.set(this.wire ? wireName(each) : each.name, this.value(each.type, value));
    }
    return found;
  }

  /** Return the data of a value. */
  value(type: Type, value: unknown): Data {
    if (value === UNKNOWN) return new Map([["$unknown", true]]);
    if (value instanceof Secret) {
      const inner = this.value(type, value.value);
      return this.wire ? new Map([["$secret", inner]]) : inner;
    }
    if (value === null && type.type !== "any") return null;
    switch (type.type) {
      case "bytes":
        return value instanceof Uint8Array ? toBase64(value) : refuse(value);
      case "integer":
        return this.integer(value);
      case "number":
        return typeof value === "number" || typeof value === "bigint" ? value : refuse(value);
      case "boolean":
        return typeof value === "boolean" ? value : refuse(value);
      case "reference":
        return this.reference(value);
      case "list":
        return array(value).map((item) => this.value(type.items ?? ANY, item));
      case "set":
        return sorted(array(value).map((item) => this.value(type.items ?? ANY, item)));
      default:
        return this.composite(type, value);
    }
  }

  private get wire(): boolean {
    return this.form === "wire";
  }

  private composite(type: Type, value: unknown): Data {
    switch (type.type) {
      case "any":
        return this.wire ? new Map([["$json", fromJson(value)]]) : fromJson(value);
      case "mapping":
        return this.mapping(type, object(value));
      case "record":
        return this.record(this.schema.record(type.record), object(value));
      case "tagged":
        return this.tagged(type, object(value));
      case "union":
        return this.value(memberOf(type, value), value);
      default:
        return text(value);
    }
  }

  /** Return a whole number as text of digits. Another value becomes text that the decoder refuses. */
  private integer(value: unknown): Data {
    if (this.wire) return typeof value === "bigint" || typeof value === "number" ? String(value) : text(value);
    return isWhole(value) ? BigInt(value) : refuse(value);
  }

  private mapping(type: Type, value: Values): Data {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    return new Map(
      entries.map(([key, item]) => {
        const name = this.wire && key.startsWith("$") ? `$${key}` : key;
        return [name, this.value(type.items ?? ANY, item)];
      }),
    );
  }

  private record(record: RecordType, value: Values): Data {
    return this.fields(record.fields, value, record.tag);
  }

  private tagged(type: Type, value: Values): Data {
    const records = (type.members ?? []).map((each) => this.schema.record(each.record));
    const record = records.find((each) => each.tag === value["type"]);
    return record === undefined ? refuse(value) : this.record(record, value);
  }
}

/** Return the type of a union to which a value belongs. */
function memberOf(union: Type, value: unknown): Type {
  return (union.members ?? []).find((each) => mayBe(each, value)) ?? refuse(value);
}

/** Return whether a value may be of a type; types in a union of a schema can always be distinguished like this. */
function mayBe(type: Type, value: unknown): boolean {
  switch (type.type) {
    case "none":
      return value === null;
    case "boolean":
      return typeof value === "boolean";
    case "integer":
      return isWhole(value);
    case "number":
      return typeof value === "number" || typeof value === "bigint";
    case "bytes":
      return value instanceof Uint8Array;
    case "list":
    case "set":
      return Array.isArray(value) || value instanceof Set;
    case "mapping":
    case "record":
    case "tagged":
      return isPlain(value);
    case "any":
      return true;
    default:
      return typeof value === "string" || (type.type === "reference" && typeof value === "object");
  }
}

function text(value: unknown): Data {
  return typeof value === "string" ? value : refuse(value);
}

function array(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : value instanceof Set ? [...(value as Set<unknown>)] : refuse(value);
}

function object(value: unknown): Values {
  const record = typeof value === "object" && value !== null && !Array.isArray(value);
  return record ? (value as Values) : refuse(value);
}

function refuse(value: unknown): never {
  const told = Array.isArray(value) ? "list" : value === null ? "null" : typeof value;
  throw new TypeError(`the schema has another type here than ${told}`);
}

/** Return the items of a set in the order of their texts, so that equal sets have equal texts. */
function sorted(items: readonly Data[]): Data[] {
  return items
    .map((item) => ({ item, text: write(item) }))
    .sort((first, second) => (first.text < second.text ? -1 : Number(first.text > second.text)))
    .map(({ item }) => item);
}
