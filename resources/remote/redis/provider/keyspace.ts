/**
 * Changes of keys, as the server reports them (keyspace notifications).
 *
 * The server does not report the flush of a database in this way, but as an invalidation of caches. After a lost
 * connection, the watch connects again, and all keys are read. Meanwhile, the keys are reported as not watched.
 */

import * as plugin from "./holdfast-runtime/plugin.js";
import type { KnownKeys } from "./known.js";
import type { Reply } from "./replies.js";
import { Connection, type Server } from "./server.js";

const CHANNEL = /^__keyspace@(\d+)__:(.*)$/s;
const PARAMETER = "notify-keyspace-events";
/** Kinds of events that `A` stands for. */
const ALL = "g$lshzxetd";
/** Milliseconds between two checks that the server reports events. While it does not, each check reads all keys. */
const LOOK = 5000;
const CHANGED = `${PARAMETER} was changed, so changes of keys were not reported; it has been set again`;
const UNREPORTED =
  `${PARAMETER} lacks KA, so changes of keys are not reported; the provider must not set it (events: false, or noop) ` +
  `and reads all keys every ${LOOK / 1000} seconds`;
/** Milliseconds before the second attempt to connect again, and the greatest number of milliseconds. */
const [FIRST, LAST] = [50, 5000];
/** Events that wait for the agent; if there are more, all keys are read. */
const MOST = 10_000;

export class KeyspaceWatch {
  private readonly changed = new Set<string>();
  private missed = false;
  private wake: () => void = () => undefined;

  constructor(
    private readonly server: Server,
    private readonly known: KnownKeys,
    private readonly noop: boolean,
  ) {}

  /** Yield `ARMED`, and then each key that has changed; without a connection, say why nothing is reported. */
  async *events(signal: AbortSignal): AsyncGenerator<plugin.WatchEvent> {
    signal.addEventListener("abort", () => this.wake());
    let connection: Connection | undefined;
    const timer = setInterval(() => void this.look(connection), LOOK);
    const forgotten = this.known.watched(() => this.miss());
    try {
      for (let [pause, tried] = [FIRST, 0]; !signal.aborted;) {
        if (connection === undefined || connection.closed) {
          if (Date.now() - tried > LAST) pause = FIRST;
          else await this.woken(pause);
          [pause, tried] = [Math.min(2 * pause, LAST), Date.now()];
          try {
            connection = await this.subscribed();
          } catch (error) {
            yield plugin.unwatched(`the keys are not watched: ${(error as Error).message}`);
            continue;
          }
          this.missed = true; // at first, this says that the keys are watched
        }
        yield* this.waiting();
        if (!signal.aborted && !connection.closed && !this.missed && this.changed.size === 0) await this.woken();
      }
    } finally {
      clearInterval(timer);
      forgotten();
      connection?.close(new Error("the watch has ended"));
    }
  }

  private *waiting(): Generator<plugin.WatchEvent> {
    while (this.missed || this.changed.size > 0) {
      const [id] = this.changed;
      if (this.missed) this.changed.clear();
      else if (id !== undefined) this.changed.delete(id);
      const event = this.missed || id === undefined ? plugin.MISSED : { id, revision: "" };
      this.missed = false;
      yield event;
    }
  }

  /** Report that changes may have been missed. */
  private miss(): void {
    this.missed = true;
    this.wake();
  }

  /** Wait until `wake` is called, or for some milliseconds. */
  private woken(milliseconds?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = milliseconds === undefined ? undefined : setTimeout(resolve, milliseconds);
      this.wake = (): void => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private async subscribed(): Promise<Connection> {
    const connection = await Connection.open(this.server.settings, 0);
    connection.onPush = (items): void => this.receive(items);
    connection.onClose = (): void => this.wake();
    try {
      if (!(await this.reporting(connection)) && !this.mayChange) plugin.log("warning", UNREPORTED);
      await connection.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "holdfast: only what is flushed");
      await connection.ask("PSUBSCRIBE", "__keyspace@*__:*");
    } catch (error) {
      connection.close(new Error("the keys cannot be watched"));
      throw error;
    }
    return connection;
  }

  private receive([kind, first, channel]: readonly Reply[]): void {
    if (kind === "invalidate" && first === null) this.missed = true;
    const [, database, name] = (kind === "pmessage" && CHANNEL.exec(String(channel))) || [];
    const id = `${database}:${name}`;
    if (this.known.has(id)) this.changed.add(id);
    this.missed ||= this.changed.size > MOST;
    if (this.missed || this.changed.size > 0) this.wake();
  }

  /** Check that the server still answers and reports events; if it does not report, events may have been missed. */
  private async look(connection: Connection | undefined): Promise<void> {
    if (connection === undefined || connection.closed) return;
    try {
      if (await this.reporting(connection)) return;
      if (this.mayChange) plugin.log("warning", CHANGED);
      this.miss();
    } catch (error) {
      connection.close(error as Error);
    }
  }

  /** Return whether the server reports all changes of keys. If not, make it report them, if that is allowed. */
  private async reporting(connection: Connection): Promise<boolean> {
    const found = (await connection.ask("CONFIG", "GET", PARAMETER)) as ReadonlyMap<string, Reply>;
    const flags = String(found.get(PARAMETER) ?? "");
    const all = flags.includes("A") || [...ALL].every((each) => flags.includes(each));
    if (all && flags.includes("K")) return true;
    if (this.mayChange) await connection.ask("CONFIG", "SET", PARAMETER, [...new Set(`${flags}KA`)].join(""));
    return false;
  }

  private get mayChange(): boolean {
    return this.server.settings.events !== false && !this.noop;
  }
}
