/**
 * Messages of protobuf as bytes, with the types of fields that the protocol uses: bool, int64, string, bytes, messages.
 *
 * A field that is not given has its default. Unknown fields are skipped.
 */

export interface FieldOf {
  readonly number: number;
  readonly name: string;
  /** `bool`, `int64`, `string`, `bytes`, or the name of a message. */
  readonly type: string;
  readonly repeated: boolean;
}

export type Messages = { readonly [name: string]: readonly FieldOf[] };

/** Members of a message by name. */
type Fields = { [name: string]: unknown };

const TEXT = new TextEncoder();
const STRICT = new TextDecoder("utf-8", { fatal: true });
const LENGTH = 2;

/** Return the bytes of a message. */
export function encode(messages: Messages, name: string, value: object): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const field of messages[name] ?? []) {
    const given = (value as Fields)[field.name];
    const items = field.repeated ? ((given ?? []) as readonly unknown[]) : isDefault(given) ? [] : [given];
    for (const item of items) parts.push(...encodeField(messages, field, item));
  }
  return joined(parts);
}

function isDefault(value: unknown): boolean {
  return value === undefined || value === "" || value === false || value === 0 || isEmpty(value);
}

function isEmpty(value: unknown): boolean {
  return value instanceof Uint8Array && value.length === 0;
}

function encodeField(messages: Messages, field: FieldOf, value: unknown): Uint8Array[] {
  const head = (kind: number): Uint8Array => varint(BigInt(field.number * 8 + kind));
  if (field.type === "bool") return [head(0), varint(value === true ? 1n : 0n)];
  if (field.type === "int64") return [head(0), varint(BigInt(value as number))];
  const bytes = bytesOf(messages, field, value);
  return [head(LENGTH), varint(BigInt(bytes.length)), bytes];
}

function bytesOf(messages: Messages, field: FieldOf, value: unknown): Uint8Array {
  if (field.type === "string") return TEXT.encode(value as string);
  return field.type === "bytes" ? (value as Uint8Array) : encode(messages, field.type, value as object);
}

function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest > 0n ? low | 128 : low);
  } while (rest > 0n);
  return Uint8Array.from(bytes);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Return the message in bytes. Throws `RangeError` or `TypeError` if they are not a message. */
export function decode(messages: Messages, name: string, bytes: Uint8Array): Fields {
  const fields = new Map((messages[name] ?? []).map((each) => [each.number, each]));
  const found: Fields = {};
  for (const each of fields.values()) found[each.name] = each.repeated ? [] : defaultOf(messages, each.type);
  const reader = new Reader(bytes);
  while (!reader.ended) {
    const head = Number(reader.varint());
    const [field, kind] = [fields.get(Math.floor(head / 8)), head & 7];
    const wanted = field?.type === "bool" || field?.type === "int64" ? 0 : LENGTH;
    if (field === undefined || kind !== wanted) reader.skip(kind);
    else if (field.repeated) (found[field.name] as unknown[]).push(decodeField(messages, field.type, reader));
    else found[field.name] = decodeField(messages, field.type, reader);
  }
  return found;
}

function defaultOf(messages: Messages, type: string): unknown {
  const plain: { readonly [type: string]: unknown } = { bool: false, int64: 0, string: "", bytes: new Uint8Array() };
  return type in plain ? plain[type] : decode(messages, type, new Uint8Array());
}

function decodeField(messages: Messages, type: string, reader: Reader): unknown {
  if (type === "bool") return reader.varint() !== 0n;
  if (type === "int64") return Number(BigInt.asIntN(64, reader.varint()));
  const bytes = reader.bytes();
  if (type === "bytes") return bytes;
  return type === "string" ? STRICT.decode(bytes) : decode(messages, type, bytes);
}

class Reader {
  private at = 0;

  constructor(private readonly all: Uint8Array) {}

  get ended(): boolean {
    return this.at >= this.all.length;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.all[this.at++];
      if (byte === undefined) throw new RangeError("the message ends within a number");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw new RangeError("a number of the message is too long");
  }

  bytes(): Uint8Array {
    return this.take(Number(this.varint()));
  }

  /** Skip an unknown field. */
  skip(kind: number): void {
    if (kind === 0) this.varint();
    else if (kind === LENGTH) this.bytes();
    else if (kind === 1 || kind === 5) this.take(kind === 1 ? 8 : 4);
    else throw new RangeError(`the message has a field of the unknown form ${kind}`);
  }

  private take(length: number): Uint8Array {
    if (this.at + length > this.all.length) throw new RangeError("the message ends within a field");
    this.at += length;
    return this.all.subarray(this.at - length, this.at);
  }
}
