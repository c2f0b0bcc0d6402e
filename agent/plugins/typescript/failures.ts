/** Converts errors of an author's code to failures of the protocol, which contain no secret of the request. */

import { InvalidData } from "./decode.js";
import { toBase64 } from "./forms.js";
import { type Data, parse } from "./json.js";
import type { Failure } from "./messages.js";
import { Conflict, Partial, Permanent, Refusal, Temporary, Unsupported } from "./stub.js";
import { MASK, Secret, isPlain } from "./values.js";

/** Most characters of a message. */
const LONGEST = 2000;
/** Least number of characters of a secret that is masked within text: shorter ones are parts of too many words. */
const SHORTEST = 6;
const URL = /(:\/\/[^\s/:@'"]*:)([^\s/'"]+)(?=@)/g;
/** Members of messages with free text of the provider. */
const TOLD = ["message", "path"];
const CONNECTION = ["ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE"];

/** The caller no longer waits. */
export class Cancelled extends Error {}

/** The timeout of the caller has passed. */
export class TimeOver extends Error {}

/** Return the failure for an error. Secrets in the payloads of the request are masked in its text. */
export function failureOf(error: unknown, request: object): Failure {
  const code = codeOf(error);
  let said = error instanceof Error ? error.message || nameOf(error) : String(error);
  if (code === "fault") said = `${nameOf(error)}: ${said}`;
  if (isTimeOver(error)) said = "the time has run out";
  return { code, message: [...masked(said, request)].slice(0, LONGEST).join("") };
}

function codeOf(error: unknown): string {
  if (error instanceof Partial || error instanceof Temporary || isTimeOver(error)) return "retry";
  if (CONNECTION.includes(String((error as { code?: unknown } | null | undefined)?.code))) return "retry";
  if (error instanceof Conflict) return "conflict";
  if (error instanceof Permanent) return "permanent";
  if (error instanceof Unsupported) return "unsupported";
  return isCancelled(error) ? "cancelled" : "fault";
}

function isTimeOver(error: unknown): boolean {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return error instanceof TimeOver || nameOf(error) === "TimeoutError" || code === "ETIMEDOUT";
}

function isCancelled(error: unknown): boolean {
  return error instanceof Cancelled || nameOf(error) === "AbortError";
}

function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return error.name === "Error" ? error.constructor.name : error.name;
}

/** Return a text without the secrets of a request. */
function masked(text: string, request: object): string {
  return new Redactor(secretsOf(request)).text(text);
}

/** Replaces secrets in texts by a mask: as they are, quoted for a URL, and in base64. */
export class Redactor {
  private readonly forms: readonly string[];

  constructor(secrets: Iterable<string>) {
    this.forms = formsOf(secrets);
  }

  text(text: string): string {
    let shown = text;
    for (const form of this.forms) shown = shown.replaceAll(form, MASK);
    return shown.replace(URL, `$1${MASK}`);
  }

  /** Return a message in which the free texts of the provider are masked. */
  message(message: object): object {
    const entries = Object.entries(message) as [string, unknown][];
    return Object.fromEntries(entries.map(([name, value]) => [name, this.member(name, value)]));
  }

  private member(name: string, value: unknown): unknown {
    if (typeof value === "string") return TOLD.includes(name) ? this.text(value) : value;
    if (Array.isArray(value)) return value.map((each) => this.member("", each));
    return typeof value === "object" && value !== null && !(value instanceof Uint8Array) ? this.message(value) : value;
  }
}

/** Yield the texts in the secrets of a value. */
export function* textsOf(value: unknown, secret = false): Generator<string> {
  if (value instanceof Secret) yield* textsOf(value.value, true);
  else if (Array.isArray(value) || value instanceof Set) {
    for (const each of value as Iterable<unknown>) yield* textsOf(each, secret);
  } else if (isPlain(value)) yield* textsOf(Object.values(value), secret);
  else if (secret && value !== null && value !== undefined) yield String(value);
}

function formsOf(secrets: Iterable<string>): string[] {
  const lines = [...secrets].flatMap((each) => [each.trim(), ...each.split("\n").map((line) => line.trim())]);
  const long = lines.filter((each) => each.length >= SHORTEST);
  const forms = long.flatMap((each) => [
    each,
    quoted(each),
    toBase64(new TextEncoder().encode(each)).replace(/=+$/, ""),
  ]);
  return [...new Set(forms)].sort((first, second) => second.length - first.length);
}

function quoted(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text; // the text contains a surrogate
  }
}

/** Yield the texts that the payloads of a message mark as secret. */
function* secretsOf(message: unknown): Generator<string> {
  if (message instanceof Uint8Array) {
    try {
      yield* secretTexts(parse(new TextDecoder().decode(message)), false);
    } catch {
      // the payload is not JSON, so nothing in it is marked
    }
  } else if (typeof message === "object" && message !== null) {
    for (const each of Object.values(message)) yield* secretsOf(each);
  }
}

function* secretTexts(data: Data, secret: boolean): Generator<string> {
  if (data instanceof Map) {
    for (const [key, item] of data as ReadonlyMap<string, Data>) yield* secretTexts(item, secret || key === "$secret");
  } else if (Array.isArray(data)) {
    for (const item of data as readonly Data[]) yield* secretTexts(item, secret);
  } else if (secret && typeof data === "string") yield data;
}

export type Level = "debug" | "info" | "warning" | "error";

/** Write one line of the log, which the agent parses. */
export function log(level: Level, message: string): void {
  process.stderr.write(`${JSON.stringify({ time: Date.now() / 1000, level, message })}\n`);
}

/**
 * Log the place of an error in the author's code, unless the code has thrown it on purpose.
 *
 * The text of the error may contain secrets, and is not logged.
 */
export function logFailure(what: string, error: unknown): void {
  if (error instanceof Refusal || error instanceof InvalidData || isTimeOver(error) || isCancelled(error)) return;
  log("error", `${what} has failed: ${nameOf(error)}\n${placesOf(error)}`);
}

/** Return the places of an error, without its text. */
function placesOf(error: unknown): string {
  const lines = (error instanceof Error ? (error.stack ?? "") : "").split("\n");
  return lines.filter((line) => /^ {4}at .*:\d+:\d+\)?$/.test(line)).join("\n");
}
