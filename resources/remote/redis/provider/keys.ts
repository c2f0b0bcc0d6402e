/** Keys. A value is read as a whole, and written as a whole in one transaction. */

import { createHmac, randomBytes } from "node:crypto";

import type { KeyspaceWatch } from "./keyspace.js";
import * as plugin from "./holdfast-runtime/plugin.js";
import { type Key, type KeyArgs, KeyOperations } from "./key_stub.js";
import { KnownKeys } from "./known.js";
import type { Reply } from "./replies.js";
import type { Connection, Server } from "./server.js";

/** New at each start, so that a revision reveals nothing about the value, which may be secret. */
const SALT = randomBytes(16);
type Asking = (...commands: readonly (readonly string[])[]) => Promise<Reply[]>;

/** Type of a value -> the command that reads the value of a name, and the fields of the state for the reply. */
const READERS: { readonly [type: string]: readonly [(name: string) => string[], (reply: Reply) => Partial<Key>] } = {
  string: [(name) => ["GET", name], (reply) => ({ text: String(reply) })],
  hash: [(name) => ["HGETALL", name], (reply) => ({ fields: texts(reply) })],
  list: [(name) => ["LRANGE", name, "0", "-1"], (reply) => ({ items: (reply as string[]).map(String) })],
  set: [(name) => ["SMEMBERS", name], (reply) => ({ members: new Set((reply as string[]).map(String)) })],
  zset: [(name) => ["ZRANGE", name, "0", "-1", "WITHSCORES"], (reply) => ({ scores: numbers(reply) })],
};

export class Keys extends KeyOperations {
  private readonly known = new KnownKeys();

  constructor(
    private readonly server: () => Server,
    private readonly keyspace: (known: KnownKeys, noop: boolean) => KeyspaceWatch,
  ) {
    super();
  }

  /** Read all keys of a database by two batches of commands. */
  override async readMany(
    wanted: readonly (readonly [plugin.Key, KeyArgs])[],
  ): Promise<readonly (plugin.Found<Key> | Error | undefined)[]> {
    const all = wanted.map(([{ id }, inputs]) => placed(id, inputs));
    for (const each of all) this.known.add(idOf(each));
    const results = new Map<KeyArgs, plugin.Found<Key> | Error | undefined>();
    for (const database of new Set(all.map(databaseOf))) {
      const here = all.filter((each) => databaseOf(each) === database);
      const ask: Asking = (...commands) => this.server().ask(database, ...commands);
      const found = await readAll(ask, here);
      here.forEach((each, number) => results.set(each, found[number]));
    }
    return all.map((each) => results.get(each));
  }

  override async create(inputs: KeyArgs, signal: AbortSignal): Promise<plugin.Found<Key>> {
    return await this.write(inputs, undefined, signal);
  }

  override async update(found: plugin.Found<Key>, inputs: KeyArgs, signal: AbortSignal): Promise<plugin.Found<Key>> {
    return await this.write(inputs, found, signal);
  }

  override async delete(found: plugin.Found<Key>, signal: AbortSignal): Promise<void> {
    const remove = async (connection: Connection): Promise<void> => {
      await watched(connection, found.state, found);
      await connection.together([["DEL", found.state.name]]);
    };
    await this.server().alone(databaseOf(found.state), remove, signal);
  }

  override watch(_revision: string, noop: boolean, signal: AbortSignal): AsyncIterable<plugin.WatchEvent> {
    return this.keyspace(this.known, noop).events(signal);
  }

  private async write(
    inputs: KeyArgs,
    before: plugin.Found<Key> | undefined,
    signal: AbortSignal,
  ): Promise<plugin.Found<Key>> {
    this.known.add(idOf(inputs));
    const write = async (connection: Connection): Promise<plugin.Found<Key>> => {
      const left = await watched(connection, inputs, before);
      const expire = inputs.persistent === false && left > 0 ? [["PEXPIRE", inputs.name, String(left)]] : [];
      await connection.together([["DEL", inputs.name], writing(inputs), ...expire]);
      const [found] = await readAll(askingOf(connection), [inputs]);
      if (found instanceof Error) throw found;
      if (found === undefined) throw new plugin.Temporary("another client has removed the key at once");
      return found;
    };
    return await this.server().alone(databaseOf(inputs), write, signal);
  }
}

/**
 * Watch a key for a transaction; return the milliseconds that it has left. Throws `Conflict` if it is not as it was
 * before (undefined: there was none).
 */
async function watched(
  connection: Connection,
  inputs: KeyArgs,
  before: plugin.Found<Key> | undefined,
): Promise<number> {
  await connection.ask("WATCH", inputs.name);
  if (await isOther(connection, inputs, before)) {
    await connection.ask("UNWATCH");
    throw new plugin.Conflict(`another client has ${before === undefined ? "made" : "changed"} the key`);
  }
  return Number(await connection.ask("PTTL", inputs.name));
}

/** Return whether an existing key differs from what was read before. */
async function isOther(
  connection: Connection,
  inputs: KeyArgs,
  before: plugin.Found<Key> | undefined,
): Promise<boolean> {
  if (before === undefined) return (await connection.ask("EXISTS", inputs.name)) === 1;
  if (!before.revision) return false;
  const [found] = await readAll(askingOf(connection), [inputs]);
  return found !== undefined && !(found instanceof Error) && found.revision !== before.revision;
}

function askingOf(connection: Connection): Asking {
  return async (...commands) => await Promise.all(commands.map((words) => connection.ask(...words)));
}

/** Return keys of one database, in order. */
async function readAll(ask: Asking, wanted: readonly KeyArgs[]): Promise<(plugin.Found<Key> | Error | undefined)[]> {
  const told = await ask(
    ...wanted.flatMap(({ name }) => [
      ["TYPE", name],
      ["PTTL", name],
    ]),
  );
  const types = wanted.map((_, number) => String(told[2 * number]));
  const values = await Promise.all(wanted.map(({ name }, number) => valueOf(ask, name, types[number] ?? "none")));
  return wanted.map((inputs, number) => {
    const value = values[number];
    if (types[number] === "none" || value instanceof Error || value === undefined) return value as Error | undefined;
    return found(inputs, value, Number(told[2 * number + 1]) >= 0);
  });
}

/** Return the fields with the value of a key; none for a type that cannot be declared. */
async function valueOf(ask: Asking, name: string, type: string): Promise<Partial<Key> | Error | undefined> {
  const [command, read] = READERS[type] ?? [];
  if (command === undefined || read === undefined) return type === "none" ? undefined : {};
  try {
    const [reply = null] = await ask(command(name));
    return reply === null ? undefined : read(reply);
  } catch (error) {
    const changed = error instanceof Error && error.message.includes("WRONGTYPE");
    return changed ? new plugin.Temporary("the type of the key is changing") : (error as Error);
  }
}

function found(inputs: KeyArgs, value: Partial<Key>, expires: boolean): plugin.Found<Key> {
  const hidden = inputs.secret !== undefined && value.text !== undefined;
  const shown = hidden ? { secret: new plugin.Secret(String(value.text)) } : value;
  const persistent = inputs.persistent === false ? false : !expires;
  const revision = createHmac("sha256", SALT)
    .update(JSON.stringify([Object.keys(value), Object.values(value).map(plainOf), expires]))
    .digest("hex");
  const state = { name: inputs.name, database: databaseOf(inputs), persistent, ...shown };
  return { id: idOf(inputs), state, revision };
}

function plainOf(value: unknown): unknown {
  if (value instanceof Set) return [...(value as Set<string>)].sort();
  return typeof value === "object" && !Array.isArray(value) ? Object.entries(value ?? {}).sort() : value;
}

function writing(inputs: KeyArgs): string[] {
  const { name, text, secret, fields, items, members, scores } = inputs;
  if (fields !== undefined) return ["HSET", name, ...Object.entries(fields).flat()];
  if (items !== undefined) return ["RPUSH", name, ...items];
  if (members !== undefined) return ["SADD", name, ...members];
  if (scores !== undefined) {
    return ["ZADD", name, ...Object.entries(scores).flatMap(([member, score]) => [String(score), member])];
  }
  return ["SET", name, text ?? secret?.value ?? ""];
}

/** Return the declaration of a key, with database and name from its id, if the key has one. */
function placed(id: string, inputs: KeyArgs): KeyArgs {
  const at = id.indexOf(":");
  return at < 0 ? { ...inputs } : { ...inputs, database: Number(id.slice(0, at)), name: id.slice(at + 1) };
}

function databaseOf(inputs: { readonly database?: number | undefined }): number {
  return inputs.database ?? 0;
}

function idOf(inputs: KeyArgs): string {
  return `${databaseOf(inputs)}:${inputs.name}`;
}

function texts(reply: Reply): { [name: string]: string } {
  const entries = [...(reply as ReadonlyMap<string, Reply>)].map(([name, value]) => [name, String(value)] as const);
  return Object.fromEntries(entries);
}

function numbers(reply: Reply): { [name: string]: number } {
  const pairs = reply as readonly (readonly [string, number])[];
  const finite = (score: number): number => Math.min(Math.max(score, -Number.MAX_VALUE), Number.MAX_VALUE);
  return Object.fromEntries(pairs.map(([member, score]) => [member, finite(score)]));
}
