// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * Values that are written as text in one form each.
 *
 * | type | form |
 * |---|---|
 * | bytes | base64 |
 * | moment | RFC 3339, in UTC, to the microsecond |
 * | duration | seconds: `5400s`, `0.25s`; also accepted: `1h30m`, or a number of seconds |
 * | path | absolute, without `.` and `..` |
 * | address | an IP address in its shortest form |
 */

declare const form: unique symbol;
/** A moment with its zone, in the form of RFC 3339. */
export type Moment = string & { readonly [form]: "moment" };
/** A length of time: `5400s`. */
export type Duration = string & { readonly [form]: "duration" };
/** An absolute path. */
export type Path = string & { readonly [form]: "path" };
/** An address of version 4 or 6. */
export type Address = string & { readonly [form]: "address" };

/** A text is not in the form of its type. The message completes "it must be". */
export class FormError extends Error {}

const UNITS: { readonly [unit: string]: number } = { us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400 };
const PART = /([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h|d)/g;
const WHOLE = /^(?:[0-9]+(?:\.[0-9]+)?(?:us|ms|s|m|h|d))+$/;
const MILLION = 1_000_000n;
const LONGEST = 1_000_000_000n * 86_400n * MILLION;

/** Return the duration of `1h30m`, or of a number of seconds. Throws `FormError`. */
export function duration(value: string | number): Duration {
  const text = typeof value === "number" ? `${value.toFixed(6)}s` : value;
  if (!WHOLE.test(text)) throw new FormError("a duration such as '1h30m' or '90s'");
  let total = 0n;
  for (const [, number, unit] of text.matchAll(PART)) total += microseconds(Number(number) * (UNITS[unit ?? ""] ?? 1));
  if (total >= LONGEST) throw new FormError("a duration of less than a thousand million days");
  const rest = (total % MILLION).toString().padStart(6, "0").replace(/0+$/, "");
  return `${total / MILLION}${rest && `.${rest}`}s` as Duration;
}

/** Return seconds in microseconds, rounded to the even one as the agent does. */
function microseconds(seconds: number): bigint {
  if (!Number.isFinite(seconds)) throw new FormError("a duration of less than a thousand million days");
  const whole = Math.trunc(seconds);
  const rest = (seconds - whole) * 1e6;
  const down = Math.floor(rest);
  const up = rest - down > 0.5 || (rest - down === 0.5 && down % 2 === 1);
  return BigInt(whole) * MILLION + BigInt(down + (up ? 1 : 0));
}

/** Return a duration in microseconds. */
export function inMicroseconds(value: Duration): bigint {
  const [whole, rest = ""] = value.slice(0, -1).split(".");
  return BigInt(whole ?? 0) * MILLION + BigInt(rest.padEnd(6, "0"));
}

const MOMENT = new RegExp(
  "^(\\d{4})-(\\d\\d)-(\\d\\d)T([01]\\d|2[0-3]):([0-5]\\d)(?::([0-5]\\d)(?:\\.(\\d+))?)?" +
    "(?:Z|([+-])([01]\\d|2[0-3]):([0-5]\\d))$",
);

/** Return a moment in UTC. Throws `FormError`. */
export function moment(text: string): Moment {
  const found = MOMENT.exec(text);
  const [year, month, day, hour, minute, second] = (found ?? []).slice(1, 7).map((part) => Number(part ?? 0));
  const at = new Date(0);
  at.setUTCFullYear(year ?? 0, (month ?? 0) - 1, day);
  if (found === null || year === 0 || at.getUTCMonth() + 1 !== month || at.getUTCDate() !== day) wrongMoment();
  const [, , , , , , , fraction = "", sign, hours = "0", minutes = "0"] = found;
  const offset = (Number(hours) * 60 + Number(minutes)) * (sign === "-" ? -1 : 1);
  at.setUTCHours(hour ?? 0, (minute ?? 0) - offset, second);
  if (at.getUTCFullYear() < 1 || at.getUTCFullYear() > 9999) wrongMoment();
  const micro = fraction.slice(0, 6).padEnd(6, "0");
  return `${at.toISOString().slice(0, 19)}${Number(micro) ? `.${micro}` : ""}Z` as Moment;
}

function wrongMoment(): never {
  throw new FormError("a date and time with zone, such as '2026-01-31T12:00:00Z'");
}

/** Return an absolute path in its normal form. Throws `FormError`. */
export function path(text: string): Path {
  const parts = text.split("/");
  if (parts[0] !== "" || parts.length < 2 || text.includes("\0") || parts.includes("..")) {
    throw new FormError("an absolute path without '..'");
  }
  return `/${parts.filter((part) => part !== "" && part !== ".").join("/")}` as Path;
}

const OCTET = /^(?:0|[1-9][0-9]{0,2})$/;

/** Return an IP address in its shortest form. Throws `FormError`. */
export function address(text: string): Address {
  const found = text.includes(":") ? version6(text) : version4(text)?.join(".");
  if (!found) throw new FormError("an IP address, such as '192.0.2.1' or '2001:db8::1'");
  return found as Address;
}

/** Return the four numbers of an address of version 4. */
function version4(text: string): number[] | undefined {
  const parts = text.split(".");
  const right = parts.length === 4 && parts.every((part) => OCTET.test(part) && Number(part) < 256);
  return right ? parts.map(Number) : undefined;
}

function version6(text: string): string | undefined {
  const [plain = "", zone, ...more] = text.split("%");
  if (more.length > 0 || zone === "") return undefined;
  const last = plain.slice(plain.lastIndexOf(":") + 1);
  let whole = plain;
  if (last.includes(".")) {
    const [first = 0, second = 0, third = 0, fourth = 0] = version4(last) ?? [-1];
    if (first < 0) return undefined;
    const [high, low] = [first * 256 + second, third * 256 + fourth];
    whole = `${plain.slice(0, -last.length)}${high.toString(16)}:${low.toString(16)}`;
  }
  const words = hextets(whole);
  return words && `${shortest(words)}${zone === undefined ? "" : `%${zone}`}`;
}

/** Return the eight words of an address of version 6. */
function hextets(text: string): number[] | undefined {
  const halves = text.split("::");
  const [left = [], right = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const gap = 8 - left.length - right.length;
  if (halves.length > 2 || (halves.length === 2 ? gap < 1 : gap !== 0)) return undefined;
  const all = [...left, ...Array<string>(gap).fill("0"), ...right];
  return all.every((part) => /^[0-9a-fA-F]{1,4}$/.test(part)) ? all.map((part) => parseInt(part, 16)) : undefined;
}

function shortest(words: readonly number[]): string {
  let [begin, length] = [0, 1];
  words.forEach((_, start) => {
    let end = start;
    while (end < 8 && words[end] === 0) end += 1;
    if (end - start > length) [begin, length] = [start, end - start];
  });
  const text = words.map((word) => word.toString(16));
  if (length === 1) return text.join(":");
  return `${text.slice(0, begin).join(":")}::${text.slice(begin + length).join(":")}`;
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Return the bytes of a text in base64. Throws `FormError`. */
export function fromBase64(text: string): Uint8Array {
  if (!BASE64.test(text)) throw new FormError("text in base64");
  const plain = text.replace(/=+$/, "");
  const bytes = new Uint8Array(Math.floor((plain.length * 3) / 4));
  let [bits, held] = [0, 0];
  let at = 0;
  for (const letter of plain) {
    held = ((held << 6) | LETTERS.indexOf(letter)) & 0xffff;
    bits += 6;
    if (bits >= 8) bytes[at++] = (held >> (bits -= 8)) & 0xff;
  }
  return bytes;
}

/** Return bytes as text in base64. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const [first = 0, second = 0, third = 0] = bytes.subarray(at, at + 3);
    const group = (first << 16) | (second << 8) | third;
    text += [18, 12, 6, 0].map((shift) => LETTERS.charAt((group >> shift) & 63)).join("");
  }
  const rest = bytes.length % 3;
  return rest === 0 ? text : text.slice(0, rest - 3) + "=".repeat(3 - rest);
}
