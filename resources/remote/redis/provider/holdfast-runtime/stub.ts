// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** The base classes of a provider, and the types of its arguments and results. */

import type { Json } from "./json.js";
import type { Violation } from "./values.js";

/** The known facts about a resource before it is read. */
export interface Key {
  /** Identifier that `create` has returned; empty if it is unknown. */
  readonly id: string;
  /** Identifier of the run, for the log. */
  readonly trace: string;
  /** Token of a creation whose result the agent does not know: see `createOnce`; empty or missing if there was none. */
  readonly intent?: string;
}

/** A resource that exists. */
export interface Found<State> {
  readonly id: string;
  readonly state: State;
  /** A value that changes whenever the resource does; not given if the provider has none. */
  readonly revision?: string;
  /** Write-only fields whose value in the resource differs from the inputs, if `read` can find out. */
  readonly differs?: readonly string[];
}

/** The report of a watch that a resource may have changed. An empty id says that changes may have been missed. */
export interface WatchEvent {
  readonly id: string;
  /** The position at which to resume. */
  readonly revision: string;
  /** Why changes are not reported from now on, until the next event about the same: see `unwatched`. */
  readonly unwatched?: string;
}

/** The first event of a watch: all later changes are reported. */
export const ARMED: WatchEvent = { id: "", revision: "" };
/** Changes may have been missed: all resources must be read. */
export const MISSED: WatchEvent = { id: "", revision: "" };

/**
 * Changes of a resource, or of all of the kind, are not reported from now on, for example because the connection is
 * lost. The next event about the same resource or kind ends this state, and says that it may have changed meanwhile.
 */
export function unwatched(why: string, id = ""): WatchEvent {
  return { id, revision: "", unwatched: why };
}

/** The signal of a call that the author's own code makes. */
const NEVER = new AbortController().signal;

/** Base of the errors that an author throws on purpose. */
export abstract class Refusal extends Error {}

/** The operation may succeed when it is tried again. */
export class Temporary extends Refusal {}

/** The operation cannot succeed until something changes. */
export class Permanent extends Refusal {}

/** The resource no longer has the revision that was expected. */
export class Conflict extends Refusal {}

/** A resource was created, but not finished; the next attempt updates `found`. */
export class Partial<State> extends Refusal {
  constructor(
    message: string,
    readonly found: Found<State>,
  ) {
    super(message);
  }
}

/** The provider cannot do this. */
export class Unsupported extends Error {}

/**
 * The operations on one kind of resource, with its arguments and its state. `signal` is aborted when the caller no
 * longer waits. If the author does not write a method, its documentation says what it does.
 */
export abstract class Operations<Args, State> {
  /** `package:module:Name`. */
  abstract readonly token: string;

  /** Return the problems of inputs that satisfy the schema and are all known; by default none. */
  check(_inputs: Args, _signal: AbortSignal): Promise<readonly Violation[]> {
    return Promise.resolve([]);
  }

  /** Return further fields whose difference replaces the resource; by default only those declared so do. */
  diff(_found: Found<State>, _inputs: Args, _signal: AbortSignal): Promise<readonly (string & keyof Args)[]> {
    return Promise.resolve([]);
  }

  /**
   * Return the resource; undefined if it does not exist. Without an id, find it by its inputs. An author writes this or
   * `readMany`.
   */
  async read(key: Key, inputs: Args, signal: AbortSignal = NEVER): Promise<Found<State> | undefined> {
    if (this.readMany === Operations.prototype.readMany) return await unsupported("read");
    const [found] = await this.readMany([[key, inputs]], signal);
    if (found instanceof Error) throw found;
    return found;
  }

  /** Return several resources, in order. By default one by one; write this if one query can return all. */
  async readMany(
    wanted: readonly (readonly [Key, Args])[],
    signal: AbortSignal,
  ): Promise<readonly (Found<State> | Error | undefined)[]> {
    const results: (Found<State> | Error | undefined)[] = [];
    for (const [key, inputs] of wanted) {
      try {
        results.push(await this.read(key, inputs, signal));
      } catch (error) {
        results.push(error instanceof Error ? error : new Error(String(error)));
      }
    }
    return results;
  }

  /** Create the resource, and return it. */
  create(_inputs: Args, _signal: AbortSignal): Promise<Found<State>> {
    return unsupported("create");
  }

  /**
   * Create the resource as `create` does, which is the default; override this if a server accepts such tokens.
   * `intent` is the same whenever the creation is tried again because its result is unknown: the agent or the provider
   * died during it. If a resource was created with this token before, it is returned, and none is created.
   */
  createOnce(inputs: Args, _intent: string, signal: AbortSignal): Promise<Found<State>> {
    return this.create(inputs, signal);
  }

  /** Change the resource to these inputs, and return it. */
  update(_found: Found<State>, _inputs: Args, _signal: AbortSignal): Promise<Found<State>> {
    return unsupported("update");
  }

  /** Delete the resource; it is no error if it does not exist. */
  delete(_found: Found<State>, _signal: AbortSignal): Promise<void> {
    return unsupported("delete");
  }

  /** Return why `delete` would fail, without a change. By default that is unknown, so a plan cannot say it. */
  refusal(_found: Found<State>, _signal: AbortSignal): Promise<string> {
    return Promise.resolve("");
  }

  /**
   * Yield `ARMED`, and then each resource that has changed. Yield `unwatched()` when changes are not reported from now
   * on, which can also come first. `revision` is that of the last event that the agent has received; empty at the
   * start. With `noop` the agent changes nothing, and the watch must not change the server either. When `signal` is
   * aborted, the watch ends.
   */
  watch(_revision: string, _noop: boolean, _signal: AbortSignal): AsyncIterable<WatchEvent> {
    throw new Unsupported("the provider has no watch");
  }

  /** Return the state that an older version has stored, as JSON of the present version. */
  upgrade(_version: number, _state: Json): Promise<Json> {
    return unsupported("upgrade");
  }
}

/** A function of the package. */
abstract class PackageFunction<Args, Result> {
  /** `package:module:Name`. */
  abstract readonly token: string;

  /** Return the result for arguments that satisfy the schema. */
  abstract call(args: Args, signal: AbortSignal): Promise<Result>;
}

export { PackageFunction as Function };

function unsupported(operation: string): Promise<never> {
  return Promise.reject(new Unsupported(`the provider has no ${operation}`));
}
