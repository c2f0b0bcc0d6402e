/** Connections to the server: opening them, sending commands, and the meaning of the server's errors. */

import { readFileSync } from "node:fs";
import { type Socket, connect, isIP, isIPv6 } from "node:net";
import { type SecureContext, TLSSocket, connect as connectSecurely, createSecureContext } from "node:tls";

import type { Access as Settings } from "./access_stub.js";
import * as plugin from "./holdfast-runtime/plugin.js";
import { Push, type Reply, ReplyError, ReplyParser, command } from "./replies.js";

/** Milliseconds within which the server must answer. */
const PATIENCE = 10_000;
/** Milliseconds within which a connection must be established. */
const PATIENCE_OPENING = 5_000;
/** First words of errors that disappear by themselves. */
const PASSING = [
  "LOADING",
  "BUSY",
  "MASTERDOWN",
  "READONLY",
  "CLUSTERDOWN",
  "TRYAGAIN",
  "OOM",
  "MISCONF",
  "NOREPLICAS",
];
const HASH = /#[0-9a-f]{64}/g;

interface Waiting {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

/** One connection, which answers commands in their order. It is closed by the first error of the transport. */
export class Connection {
  private readonly waiting: Waiting[] = [];
  private readonly parser = new ReplyParser();
  private error: Error | undefined;
  private secured = false;
  /** Receives what the server sends without being asked. */
  onPush: (items: readonly Reply[]) => void = () => undefined;
  onClose: () => void = () => undefined;

  private constructor(private readonly socket: Socket) {
    socket.on("data", (chunk: Buffer) => this.receive(chunk));
    socket.on("error", (error) => this.close(explained(socket, error)));
    socket.on("close", () => this.close(new Error("the server has closed the connection")));
    socket.on("secureConnect", () => (this.secured = true));
    socket.setTimeout(PATIENCE, () => this.close(this.silence()));
  }

  /** Return a connection to a database, after logging in. Throws `Temporary` and `Permanent`. */
  static async open(settings: Settings, database: number): Promise<Connection> {
    const socket = socketTo(settings);
    const made = new Connection(socket);
    const password = settings.password?.value;
    const login = password === undefined ? [] : ["AUTH", settings.user ?? "default", password];
    // the timer of a TLS socket starts again once while something waits to be written
    const timer = setTimeout(() => made.close(made.silence()), PATIENCE_OPENING);
    try {
      await made.ask("HELLO", "3", ...login, "SETNAME", "holdfast");
      if (database > 0) await made.ask("SELECT", String(database));
    } catch (error) {
      made.close(new Error("the connection was not made"));
      throw error;
    } finally {
      clearTimeout(timer);
    }
    return made;
  }

  get closed(): boolean {
    return this.error !== undefined;
  }

  /** Return the reply to a command. Throws `Temporary` and `Permanent`. */
  async ask(...words: string[]): Promise<Reply> {
    return demandRight(await this.send(words));
  }

  /** Run commands as one transaction. Throws the error of the first that fails; the others have run all the same. */
  async together(commands: readonly (readonly string[])[]): Promise<void> {
    for (const each of await this.transaction(commands)) demandRight(each);
  }

  /** Run commands as one transaction, and return their replies; errors are among these. */
  async transaction(commands: readonly (readonly string[])[]): Promise<readonly Reply[]> {
    const replies = await Promise.all([["MULTI"], ...commands, ["EXEC"]].map((words) => this.send(words)));
    const results = demandRight(replies.at(-1) ?? null);
    if (results === null) throw new plugin.Conflict("another client has changed it at the same time");
    return results as readonly Reply[];
  }

  private send(words: readonly string[]): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.error !== undefined) {
        reject(this.error);
        return;
      }
      this.waiting.push({ resolve, reject });
      this.socket.setTimeout(PATIENCE);
      this.socket.write(command(words));
    });
  }

  private receive(chunk: Buffer): void {
    try {
      for (const reply of this.parser.feed(chunk)) {
        const answer = !(reply instanceof Push) || reply.items[0] === "psubscribe";
        if (!answer) this.onPush(reply.items);
        else this.waiting.shift()?.resolve(reply);
      }
    } catch (error) {
      this.close(error as Error);
    }
    if (this.waiting.length === 0) this.socket.setTimeout(0);
  }

  private silence(): Error {
    const handshake = this.socket instanceof TLSSocket && !this.secured;
    return new Error(handshake ? "the server does not answer by TLS; is it a TLS port?" : "the server does not answer");
  }

  close(error: Error): void {
    if (this.error !== undefined) return;
    this.error =
      error instanceof plugin.Permanent ? error : new plugin.Temporary(`cannot use the server: ${error.message}`);
    this.socket.destroy();
    for (const each of this.waiting.splice(0)) each.reject(this.error);
    this.onClose();
  }
}

function socketTo(settings: Settings): Socket {
  const { socket, host = "127.0.0.1", port = 6379, tls } = settings;
  if (socket !== undefined) return connect({ path: socket });
  if (tls !== true) return connect({ host, port });
  // TLS sends no addresses; the certificate is compared with `host`
  const name = isIP(host) ? {} : { servername: host };
  return connectSecurely({ host, port, ...name, secureContext: contextOf(settings) });
}

/** Return the content of the files for TLS. Throws `Permanent`. */
function contextOf({ authority, certificate, key }: Settings): SecureContext {
  const files = { ca: ["the authority", authority], cert: ["the certificate", certificate], key: ["the key", key] };
  const found = Object.entries(files).flatMap(([option, [what, path]]) => {
    try {
      return path === undefined ? [] : [[option, readFileSync(path)] as const];
    } catch (error) {
      throw new plugin.Permanent(`cannot read ${what} ${path}: ${messageOf(error)}`);
    }
  });
  try {
    return createSecureContext(Object.fromEntries(found));
  } catch (error) {
    const paths = [authority, certificate, key].filter((path) => path !== undefined).join(", ");
    throw new plugin.Permanent(`cannot use the files for TLS (${paths}): ${reasonOf(error)}`);
  }
}

/** Return the error for an error of the transport, with the remedy if it is known. */
function explained(socket: Socket, error: Error): Error {
  if (socket instanceof TLSSocket && socket.authorizationError) {
    const told = "`authority` names the file with the trusted authorities";
    return new plugin.Permanent(`the certificate of the server is refused: ${error.message}; ${told}`);
  }
  if (/certificate required/.test(error.message)) {
    return new plugin.Permanent("the server demands a certificate: give `certificate` and `key`");
  }
  return new Error(unreached(error) ?? reasonOf(error));
}

/** Return why the connection failed, for the system errors that an operator may see. */
function unreached(error: NodeJS.ErrnoException & { address?: string; port?: number }): string | undefined {
  const { code, syscall, address, port } = error;
  if (syscall !== "connect" || address === undefined) return undefined;
  const place = port === undefined ? address : `${isIPv6(address) ? `[${address}]` : address}:${port}`;
  if (code === "ENOENT") return `there is no socket ${place}`;
  if (code === "ECONNREFUSED") return `no server listens at ${place}`;
  return code === "EACCES" ? `the user of the plugin may not use ${place}` : undefined;
}

/** Return the message of an error; for an error of OpenSSL, only the reason. */
function reasonOf(error: unknown): string {
  return (error as { reason?: string }).reason ?? messageOf(error);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Return a reply unless it is an error. The thrown error does not contain hashes of passwords. */
function demandRight(reply: Reply): Reply {
  if (!(reply instanceof ReplyError)) return reply;
  const told = `the server says: ${reply.message.replace(HASH, "#********")}`;
  if (PASSING.includes(reply.message.split(" ", 1)[0] ?? "")) throw new plugin.Temporary(told);
  if (/unknown command .?HELLO/.test(reply.message)) throw new plugin.Permanent("the server is older than Redis 7");
  throw new plugin.Permanent(told);
}

/** The server. Each database has one connection for reading and one for writing. */
export class Server {
  private readonly readers = new Map<number, Promise<Connection>>();
  private readonly writers = new Map<number, Promise<Connection>>();
  /** When the server last did not answer while a connection was opened, by database, and the error. */
  private readonly failures = new Map<number, { at: number; error: Error }>();
  private turn: Promise<unknown> = Promise.resolve();

  constructor(readonly settings: Settings) {}

  /** Return the replies to commands, which are sent together. */
  async ask(database: number, ...commands: readonly (readonly string[])[]): Promise<Reply[]> {
    const connection = await this.connection(this.readers, database, performance.now());
    return await Promise.all(commands.map((words) => connection.ask(...words)));
  }

  /**
   * Return the result of work with a connection that only this work uses. If the agent no longer waits for the work
   * when its turn comes, the work is not done.
   */
  async alone<T>(database: number, work: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.turn;
    const since = performance.now();
    const mine = before.then(async () => {
      const connection = await this.connection(this.writers, database, since);
      if (signal?.aborted === true) throw new plugin.Temporary("the agent no longer waits for this");
      return await work(connection);
    });
    this.turn = mine.catch(() => undefined);
    return await mine;
  }

  /** Write users or parameters to their file in the server. If that fails, the changes stay in effect. */
  async save(what: "users" | "parameters"): Promise<void> {
    if (this.settings.save === false) return;
    try {
      if (what === "parameters" || !(await this.savedUsers())) await this.ask(0, ["CONFIG", "REWRITE"]);
    } catch (error) {
      const told = messageOf(error);
      if (!told.includes("without a config file")) plugin.log("warning", `the server cannot save the change: ${told}`);
    }
  }

  /** Write users to the ACL file. Return false if the server has none, and keeps users in redis.conf. */
  private async savedUsers(): Promise<boolean> {
    try {
      await this.ask(0, ["ACL", "SAVE"]);
      return true;
    } catch (error) {
      if (messageOf(error).includes("not configured to use an ACL file")) return false;
      throw error;
    }
  }

  /** Return a connection. If the server does not answer, all calls that wait fail; later calls try again. */
  private async connection(
    known: Map<number, Promise<Connection>>,
    database: number,
    since: number,
  ): Promise<Connection> {
    const before = known.get(database);
    const found = await before?.catch(() => undefined);
    if (found !== undefined && !found.closed) return found;
    const meanwhile = known.get(database);
    if (meanwhile !== undefined && meanwhile !== before) return await meanwhile; // another call has opened it
    const failure = this.failures.get(database);
    if (failure !== undefined && failure.at >= since) throw failure.error;
    const began = performance.now();
    const made = Connection.open(this.settings, database);
    known.set(database, made);
    made.catch((error: unknown) => {
      const at = performance.now();
      if (at - began > PATIENCE_OPENING / 2) this.failures.set(database, { at, error: error as Error });
    });
    return await made;
  }
}
