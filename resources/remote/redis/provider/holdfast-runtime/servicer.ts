// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Answers all calls of the protocol for one provider. The gRPC server and tests call `answer` and `watch`. */

import { randomBytes } from "node:crypto";

import { InvalidData, type Values } from "./decode.js";
import { Cancelled, Redactor, failureOf, logFailure, textsOf } from "./failures.js";
import { FunctionCalls } from "./function_calls.js";
import type { Data } from "./json.js";
import type * as messages from "./messages.js";
import { NEWEST, OLDEST } from "./messages.js";
import { matchesInTime } from "./matching.js";
import { Payloads } from "./payloads.js";
import { type AnyOperations, type Given, ResourceCalls } from "./resource_calls.js";
import { type PackageText, Schema } from "./schema.js";
import { Function as PackageFunction, Operations, Permanent } from "./stub.js";
import { untilAborted } from "./timeouts.js";

const CAPABILITIES = ["events", "read-many", "upgrade-state"];

/** The parts of a provider. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each has types of its own, and the schema checks them
export type Part = Operations<any, any> | PackageFunction<any, any>;
/** Receives the configuration of the provider, decoded and validated, before any other operation. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the author names the generated interface
export type Configure = (config: any) => Promise<void> | void;

type Handlers = {
  readonly [M in Exclude<messages.Method, "Watch">]: (
    request: messages.Requests[M],
    signal: AbortSignal,
  ) => Promise<Given<messages.Responses[M]>>;
};

/** One provider. The constructor throws `Permanent` if parts are missing. */
export class Servicer {
  private readonly schema: Schema;
  private readonly operations: ReadonlyMap<string, AnyOperations>;
  private readonly payloads: Payloads;
  /** Identifies this start of the provider. */
  readonly start = randomBytes(16).toString("hex");
  private readonly running = new Set<AbortController>();
  private readonly handlers: Handlers;
  /** Masks the secrets of the configuration. */
  private redactor = new Redactor([]);

  constructor(
    source: PackageText,
    parts: readonly Part[],
    private readonly configure?: Configure,
  ) {
    this.schema = new Schema(source, matchesInTime);
    this.operations = new Map(parts.flatMap((each) => (each instanceof Operations ? [[each.token, each]] : [])));
    const functions = new Map(parts.flatMap((each) => (each instanceof PackageFunction ? [[each.token, each]] : [])));
    const wanted = [...this.schema.resources.keys(), ...this.schema.functions.keys()];
    const missing = wanted.filter((token) => !this.operations.has(token) && !functions.has(token)).sort();
    if (missing.length > 0) {
      throw new Permanent(`nothing provides ${missing.join(", ")}: pass an instance of each to serve()`);
    }
    this.payloads = new Payloads(this.schema);
    this.handlers = this.made(new FunctionCalls(this.schema, functions));
  }

  private made(functions: FunctionCalls): Handlers {
    const calls = new ResourceCalls(this.schema, this.operations);
    return {
      Handshake: (request) => Promise.resolve(this.handshake(request)),
      GetSchema: () => Promise.resolve({ schema: new TextEncoder().encode(this.schema.source.text) }),
      CheckConfig: (request) => Promise.resolve(this.checkConfig(request)),
      Configure: (request) => this.setConfig(request),
      Check: (request, signal) => calls.check(request, signal),
      Diff: (request, signal) => calls.diff(request, signal),
      Read: (request, signal) => calls.read(request, signal),
      Create: (request, signal) => calls.create(request, signal),
      Update: (request, signal) => calls.update(request, signal),
      Delete: (request, signal) => calls.delete(request, signal),
      Invoke: (request, signal) => functions.invoke(request, signal),
      Cancel: () => Promise.resolve(this.cancel()),
      Health: () => Promise.resolve({ serving: true, message: "" }),
      UpgradeState: (request) => calls.upgrade(request),
    };
  }

  /** Return the response to a request. Failures of the author's code are part of it. */
  async answer<M extends Exclude<messages.Method, "Watch">>(
    method: M,
    request: messages.Requests[M],
    caller: AbortSignal,
  ): Promise<object> {
    return this.redactor.message(await this.response(method, request, caller));
  }

  /** Whether the configuration may have secrets. */
  get hasSecrets(): boolean {
    return (this.schema.config?.fields ?? []).some((each) => each.secret === true);
  }

  /** Configure the provider with the configuration of an operator. Throws `InvalidData`. */
  async configureWith(data: Data): Promise<void> {
    await this.use(this.payloads.configGiven(data));
  }

  /** Return a text of the author's code without the secrets of the configuration. */
  masked(text: string): string {
    return this.redactor.text(text);
  }

  private async response<M extends Exclude<messages.Method, "Watch">>(
    method: M,
    request: messages.Requests[M],
    caller: AbortSignal,
  ): Promise<object> {
    const controller = new AbortController();
    const leave = (): void => controller.abort(new Cancelled("the caller has cancelled the call"));
    caller.addEventListener("abort", leave);
    if (method !== "Cancel") this.running.add(controller);
    try {
      const handler = this.handlers[method];
      const work = Promise.resolve().then(() => handler(request, controller.signal));
      return await untilAborted(controller.signal, work);
    } catch (error) {
      if (error instanceof InvalidData) return { violations: error.violations };
      logFailure(method, error);
      return { failure: failureOf(error, request) };
    } finally {
      this.running.delete(controller);
      caller.removeEventListener("abort", leave);
    }
  }

  private handshake(request: messages.HandshakeRequest): Given<messages.HandshakeResponse> {
    const common = Math.min(request.newest, NEWEST);
    if (common < Math.max(request.oldest, OLDEST)) {
      const spoken = `${request.oldest} to ${request.newest}`;
      throw new Permanent(`the plugin speaks versions ${OLDEST} to ${NEWEST} of the protocol, the agent ${spoken}`);
    }
    const { name, version, source } = this.schema;
    if (request.package !== name) {
      throw new Permanent(`the plugin provides the package '${name}', not '${request.package}'`);
    }
    const known = { package: name, version, schema_digest: source.digest, start: this.start };
    return { protocol: common, capabilities: CAPABILITIES, ...known };
  }

  private checkConfig(request: messages.ConfigRequest): Given<messages.ConfigResponse> {
    this.payloads.config(request.config);
    return {};
  }

  private async setConfig(request: messages.ConfigRequest): Promise<Given<messages.ConfigResponse>> {
    await this.use(this.payloads.config(request.config));
    return {};
  }

  private async use(config: Values): Promise<void> {
    this.redactor = new Redactor(textsOf(config));
    await this.configure?.(config);
  }

  private cancel(): Given<messages.CancelResponse> {
    for (const each of this.running) each.abort(new Cancelled("the agent has cancelled the call"));
    return {};
  }

  /**
   * Send the events of these resources; one says that all of them are watched. It ends when one of the watches does, or
   * when `signal` is aborted. Throws errors of the author's code.
   */
  async watch(
    tokens: readonly string[],
    revision: string,
    noop: boolean,
    signal: AbortSignal,
    send: (event: Given<messages.WatchEvent>) => Promise<void>,
  ): Promise<void> {
    const inner = new AbortController();
    const end = (): void => inner.abort(new Cancelled("the watch has ended"));
    signal.addEventListener("abort", end);
    const unarmed = new Set(tokens);
    const follow = async (token: string): Promise<void> => {
      for await (const { id, revision: at, unwatched } of this.watched(token).watch(revision, noop, inner.signal)) {
        if (inner.signal.aborted) return;
        const armed = unarmed.delete(token);
        if (unwatched) await send({ token, id, unwatched: this.masked(unwatched) });
        else if (!armed) await send({ token, id, revision: at, relist: id === "" });
        if (armed && unarmed.size === 0) await send({ armed: true });
      }
    };
    try {
      await untilAborted(inner.signal, Promise.race(tokens.map(follow)));
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      end();
      signal.removeEventListener("abort", end);
    }
  }

  private watched(token: string): AnyOperations {
    const found = this.operations.get(token);
    if (found !== undefined) return found;
    throw new Permanent(`there is no resource ${token} in version ${this.schema.version}`);
  }
}
