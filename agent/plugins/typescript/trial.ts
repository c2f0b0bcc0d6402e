/** A provider within the process of its tests: `plugin.Trial`. */

import { InvalidData, type Values } from "./decode.js";
import { fromJson } from "./json.js";
import * as messages from "./messages.js";
import { Payloads } from "./payloads.js";
import { decode, encode } from "./protobuf.js";
import type { Given } from "./resource_calls.js";
import { type Kind, type PackageText, Schema } from "./schema.js";
import { type Configure, type Part, Servicer } from "./servicer.js";
import {
  Conflict,
  type Found,
  type Operations,
  Partial,
  Permanent,
  Temporary,
  type WatchEvent,
  unwatched,
} from "./stub.js";

type Method = Exclude<messages.Method, "Watch">;
type Caller = <M extends Method>(method: M, request: Given<messages.Requests[M]>) => Promise<messages.Responses[M]>;

/**
 * Calls a provider as the agent does: arguments and results are validated, encoded and decoded as on the wire.
 *
 * Wrong values throw `Invalid`; a failure throws `Temporary`, `Conflict`, `Partial` or `Permanent`, as the provider
 * did. A defect of the provider is `Permanent`.
 */
export class Trial {
  private readonly servicer: Servicer;
  private readonly schema: Schema;

  constructor(source: PackageText, parts: readonly Part[], configure?: Configure) {
    this.servicer = new Servicer(source, parts, configure);
    this.schema = new Schema(source);
  }

  /** Configure the provider, with values as in agent.yaml. */
  async configure(config: object): Promise<void> {
    const payloads = new Payloads(this.schema);
    await this.call("Configure", { config: payloads.packConfig(payloads.configGiven(fromJson(config))) });
  }

  /** Return the caller of the operations on one kind of resource. */
  of<Args, State>(operations: Operations<Args, State>): KindTrial<Args, State> {
    const kind = this.schema.resources.get(operations.token);
    if (kind === undefined) throw new Permanent(`the package has no resource ${operations.token}`);
    return new KindTrial(this.servicer, this.schema, kind, this.call.bind(this));
  }

  private async call<M extends Method>(
    method: M,
    request: Given<messages.Requests[M]>,
  ): Promise<messages.Responses[M]> {
    const names = messages.METHODS[method];
    const received = asOnTheWire(names.request, request) as messages.Requests[M];
    const answer = await this.servicer.answer(method, received, new AbortController().signal);
    return asOnTheWire(names.response, answer) as messages.Responses[M];
  }
}

/** Calls the operations on one kind of resource. */
export class KindTrial<Args, State> {
  private readonly payloads: Payloads;

  constructor(
    private readonly servicer: Servicer,
    schema: Schema,
    private readonly kind: Kind,
    private readonly call: Caller,
  ) {
    this.payloads = new Payloads(schema);
  }

  /** Return inputs as the provider gets them in other calls: with defaults, and with a name. */
  async check(inputs: Args): Promise<Args> {
    const answer = succeeded(await this.call("Check", { subject: this.subject(), inputs: this.inputs(inputs) }));
    return this.payloads.inputs(this.kind, answer.inputs) as Args;
  }

  /**
   * Return the resource with this identifier or these inputs; undefined if it does not exist. `intent`: token of a
   * creation whose result is unknown.
   */
  async read(inputs: Args, id = "", intent = ""): Promise<Found<State> | undefined> {
    const { results } = await this.call("Read", {
      items: [{ subject: this.subject(id, intent), inputs: this.inputs(inputs) }],
    });
    const result = succeeded(results[0] as messages.ReadResult);
    return result.exists ? { ...this.found(result), differs: result.differs } : undefined;
  }

  /** Check inputs, and create a resource. `intent`: token of this creation, the same whenever it is repeated. */
  async create(inputs: Args, intent = ""): Promise<Found<State>> {
    const checked = this.inputs(await this.check(inputs));
    return this.changed(await this.call("Create", { subject: this.subject("", intent), inputs: checked }));
  }

  /** Check inputs, and change a resource. */
  async update(found: Found<State>, inputs: Args): Promise<Found<State>> {
    const checked = this.inputs(await this.check(inputs));
    const more = { state: this.state(found), expected_revision: found.revision ?? "" };
    return this.changed(await this.call("Update", { subject: this.subject(found.id), inputs: checked, ...more }));
  }

  /** Delete a resource. */
  async delete(found: Found<State>): Promise<void> {
    const more = { state: this.state(found), expected_revision: found.revision ?? "" };
    succeeded(await this.call("Delete", { subject: this.subject(found.id), ...more }));
  }

  /**
   * Yield an empty text once changes are reported, and then the identifier of each resource that has changed. An empty
   * text again says that changes may have been missed, and an event with `unwatched` that they are not reported.
   */
  async *watch(revision = "", noop = false): AsyncGenerator<string | WatchEvent> {
    const [ended, events] = [new AbortController(), new Array<string | WatchEvent>()];
    let [wake, over]: [() => void, boolean] = [() => undefined, false];
    const send = (event: Given<messages.WatchEvent>): Promise<void> => {
      events.push(event.unwatched ? unwatched(event.unwatched, event.id) : (event.id ?? ""));
      wake();
      return Promise.resolve();
    };
    const end = this.servicer.watch([this.kind.remote.token], revision, noop, ended.signal, send);
    end.finally(() => ((over = true), wake())).catch(() => undefined);
    try {
      while (!over || events.length > 0) {
        const next = events.shift();
        if (next !== undefined) yield next;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
      await end;
    } finally {
      ended.abort();
    }
  }

  private subject(id = "", intent = ""): Given<messages.Subject> {
    return { token: this.kind.remote.token, id, intent };
  }

  private inputs(inputs: Args): Uint8Array {
    return this.payloads.packInputs(this.kind, inputs as unknown as Values);
  }

  private state(found: Found<State>): Uint8Array {
    return this.payloads.packState(this.kind, found.state as unknown as Values);
  }

  private found(answer: { readonly id: string; readonly state: Uint8Array; readonly revision: string }): Found<State> {
    const state = this.payloads.state(this.kind, answer.state) as State;
    return { id: answer.id, state, revision: answer.revision };
  }

  private changed(answer: messages.ChangeResponse): Found<State> {
    if (answer.partial) throw new Partial(answer.failure.message, this.found(answer));
    return this.found(succeeded(answer));
  }
}

/** Return a message as the other side receives it. */
function asOnTheWire(name: string, message: object): object {
  return decode(messages.MESSAGES, name, encode(messages.MESSAGES, name, message));
}

/** Return a response without violations and failure. Throws the errors for these. */
function succeeded<
  R extends { readonly failure: messages.Failure; readonly violations?: readonly messages.Violation[] },
>(answer: R): R {
  if (answer.violations !== undefined && answer.violations.length > 0) throw new InvalidData(answer.violations);
  const { code, message } = answer.failure;
  if (code === "retry") throw new Temporary(message);
  if (code === "conflict") throw new Conflict(message);
  if (code !== "") throw new Permanent(message);
  return answer;
}
