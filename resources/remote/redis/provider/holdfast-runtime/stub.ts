// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** What the author of a provider writes, and what his code gives and gets. */

import type { Json } from "./json.js";
import type { Violation } from "./values.js";

/** What is known about a resource before it is read. */
export interface Key {
  /** Identifier that `create` has returned; empty if it is not known. */
  readonly id: string;
  /** Identifier of the run, for the log. */
  readonly trace: string;
  /** Token of a creation whose end the agent does not know: see `createOnce`; empty or missing if there was none. */
  readonly intent?: string;
}

/** A resource that exists. */
export interface Found<State> {
  readonly id: string;
  readonly state: State;
  /** Changes whenever the resource does; not given if the provider has no such thing. */
  readonly revision?: string;
  /** Write-only fields whose value in the resource is not that of the inputs, where `read` can tell. */
  readonly differs?: readonly string[];
}

/** The report of a watch that a resource may have changed. An empty id says that changes may have been missed. */
export interface WatchEvent {
  readonly id: string;
  /** Where to resume. */
  readonly revision: string;
  /** Why changes are not reported from now on, until the next event about the same: see `unwatched`. */
  readonly unwatched?: string;
}

/** The first event of a watch: all later changes are reported. */
export const ARMED: WatchEvent = { id: "", revision: "" };
/** Changes may have been missed: everything has to be read. */
export const MISSED: WatchEvent = { id: "", revision: "" };

/**
 * Changes of a resource, or of all of the kind, are not reported from now on, because the connection is lost for
 * example. It ends with the next event about the same, which says that the resource may have changed meanwhile.
 */
export function unwatched(why: string, id = ""): WatchEvent {
  return { id, revision: "", unwatched: why };
}

/** The signal of a call that an author makes himself. */
const NEVER = new AbortController().signal;

/** Base of the errors that an author throws on purpose. */
export abstract class Refusal extends Error {}

/** The operation may succeed when it is tried again. */
export class Temporary extends Refusal {}

/** The operation cannot succeed until something changes. */
export class Permanent extends Refusal {}

/** The resource no longer has the revision that was expected. */
export class Conflict extends Refusal {}

/** A resource was created, but not finished; the next try is an update of `found`. */
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
 * longer waits. A method that the author does not write answers as its documentation says.
 */
export abstract class Operations<Args, State> {
  /** `package:module:Name`. */
  abstract readonly token: string;

  /** Return what is wrong with inputs that satisfy the schema and are all known; by default nothing. */
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

  /** Return several resources, in order; write this where one question answers all. By default one by one. */
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
   * Create the resource as `create` does, which is the default; override this where a server knows such tokens.
   * `intent` is the same whenever the creation is tried again because its end is not known: the agent or the provider
   * has died meanwhile. A resource that was made with it is returned, and none is made.
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

  /** Return why `delete` would fail, without a change; by default nothing is known, so a plan cannot tell. */
  refusal(_found: Found<State>, _signal: AbortSignal): Promise<string> {
    return Promise.resolve("");
  }

  /**
   * Yield `ARMED`, and then each resource that has changed; `unwatched()` while changes are not seen, which can also
   * come first. `revision` is that of the last event that the agent has received; empty at the start. With `noop` the
   * agent only observes, and the watch may not change the server either. When `signal` is aborted, the watch ends.
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
