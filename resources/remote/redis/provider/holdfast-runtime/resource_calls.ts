// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Answers the calls of the protocol for resources with an author's operations. */

import { randomBytes } from "node:crypto";

import { InvalidData, type Values } from "./decode.js";
import { differences } from "./differences.js";
import { failureOf, logFailure } from "./failures.js";
import { fromJson, toJson } from "./json.js";
import type * as messages from "./messages.js";
import { idlPath } from "./names.js";
import { Payloads, dumped, loaded } from "./payloads.js";
import { type Field, type Kind, type Schema, outputs, wireName } from "./schema.js";
import { type Found, type Key, type Operations, Partial, Permanent } from "./stub.js";
import { within } from "./timeouts.js";
import { UNKNOWN, hasUnknown } from "./values.js";

/** A message in which members with their default may be missing. */
export type Given<M> = { readonly [K in keyof M]?: M[K] extends object ? Inner<M[K]> : M[K] };
type Inner<T> = T extends Uint8Array ? T : T extends readonly (infer I)[] ? readonly Given<I>[] : Given<T>;

/** Operations on any kind of resource: the schema has the types of their values. */
export type AnyOperations = Operations<Values, Values>;

/** Decodes and validates a request, calls the author's code, and validates and encodes its result. */
export class ResourceCalls {
  private readonly payloads: Payloads;

  constructor(
    private readonly schema: Schema,
    private readonly operations: ReadonlyMap<string, AnyOperations>,
  ) {
    this.payloads = new Payloads(schema);
  }

  /** Return the inputs with defaults and, if they have no name, a new one. */
  async check(request: messages.CheckRequest, signal: AbortSignal): Promise<Given<messages.CheckResponse>> {
    const [kind, operations] = this.kind(request.subject);
    const values = this.payloads.inputs(kind, request.inputs, true);
    if (kind.remote.named === true && values["name"] === undefined) {
      const before = request.old_inputs.length > 0 ? this.payloads.inputs(kind, request.old_inputs) : {};
      const own = kind.name.slice(kind.name.lastIndexOf(".") + 1);
      values["name"] = before["name"] || `${own}-${randomBytes(4).toString("hex")}`;
    }
    const found = hasUnknown(values) ? [] : await operations.check(values, signal);
    const violations = found.map((each) => ({ ...each, path: idlPath(this.schema, kind.fields, each.path) }));
    return { inputs: this.payloads.packInputs(kind, values), violations };
  }

  /** Return the fields that an update would change, and those that replace the resource. */
  async diff(request: messages.DiffRequest, signal: AbortSignal): Promise<Given<messages.DiffResponse>> {
    const [kind, operations] = this.kind(request.subject);
    const state = this.payloads.state(kind, request.state);
    const values = this.payloads.inputs(kind, request.inputs);
    const more = await operations.diff({ id: request.subject.id, state }, values, signal);
    return {
      differences: differences(kind, state, values, more, request.differs),
      delete_first: kind.remote.delete_first === true,
    };
  }

  /** Return the resources in the order of the items. Those of one kind are read together, and fail together. */
  async read(request: messages.ReadRequest, signal: AbortSignal): Promise<Given<messages.ReadResponse>> {
    const results: Given<messages.ReadResult>[] = request.items.map(() => ({}));
    const groups = new Map<string, number[]>();
    request.items.forEach(({ subject }, number) => {
      groups.set(subject.token, [...(groups.get(subject.token) ?? []), number]);
    });
    for (const numbers of groups.values()) {
      const items = numbers.flatMap((number) => request.items[number] ?? []);
      const found = await this.readGroup(items, signal).catch((error: unknown) => {
        logFailure("Read", error);
        return items.map(() => ({ failure: failureOf(error, request) }));
      });
      numbers.forEach((number, index) => (results[number] = found[index] ?? {}));
    }
    return { results };
  }

  private async readGroup(
    items: readonly messages.ReadItem[],
    signal: AbortSignal,
  ): Promise<Given<messages.ReadResult>[]> {
    const [kind, operations] = this.kind(items[0]?.subject);
    const results: Given<messages.ReadResult>[] = items.map(() => ({}));
    const wanted = new Map<number, [Key, Values]>();
    items.forEach(({ subject, inputs }, number) => {
      try {
        const { id, trace, intent } = subject;
        wanted.set(number, [{ id, trace, intent }, this.payloads.inputs(kind, inputs)]);
      } catch (error) {
        if (!(error instanceof InvalidData)) throw error;
        results[number] = { violations: error.violations };
      }
    });
    const found = wanted.size > 0 ? await operations.readMany([...wanted.values()], signal) : [];
    if (found.length !== wanted.size) {
      throw new TypeError(`readMany returned ${found.length} results for ${wanted.size} resources`);
    }
    [...wanted.keys()].forEach((number, index) => {
      results[number] = this.readResult(kind, found[index], items[number] ?? {});
    });
    return results;
  }

  private readResult(kind: Kind, found: Found<Values> | Error | undefined, item: object): Given<messages.ReadResult> {
    if (found === undefined || found === null) return { exists: false };
    try {
      if (found instanceof Error) throw found;
      const state = this.returned(kind, found);
      return { exists: true, id: found.id, revision: found.revision ?? "", state, differs: differing(kind, found) };
    } catch (error) {
      logFailure("Read", error);
      return { failure: failureOf(error, item) };
    }
  }

  /** Create a resource. With `dry_run` the author's code is not called. */
  async create(request: messages.CreateRequest, signal: AbortSignal): Promise<Given<messages.ChangeResponse>> {
    const [kind, operations] = this.kind(request.subject);
    const values = this.payloads.inputs(kind, request.inputs);
    if (request.dry_run) return this.predicted(kind, "", values);
    const { intent } = request.subject;
    return await this.changed(kind, request, signal, (inner) => operations.createOnce(values, intent, inner));
  }

  /** Change a resource. With `dry_run` the author's code is not called. */
  async update(request: messages.UpdateRequest, signal: AbortSignal): Promise<Given<messages.ChangeResponse>> {
    const [kind, operations] = this.kind(request.subject);
    const state = this.payloads.state(kind, request.state);
    const values = this.payloads.inputs(kind, request.inputs);
    if (request.dry_run) return this.predicted(kind, request.subject.id, { ...state, ...values });
    const found = { id: request.subject.id, state, revision: request.expected_revision };
    return await this.changed(kind, request, signal, (inner) => operations.update(found, values, inner));
  }

  /** Delete a resource. With `dry_run` the author is only asked whether that would fail. */
  async delete(request: messages.DeleteRequest, signal: AbortSignal): Promise<Given<messages.ChangeResponse>> {
    const [kind, operations] = this.kind(request.subject);
    const state = this.payloads.state(kind, request.state);
    const found = { id: request.subject.id, state, revision: request.expected_revision };
    if (!request.dry_run) await within(request.timeout_ms, signal, (inner) => operations.delete(found, inner));
    else {
      const why = await within(request.timeout_ms, signal, (inner) => operations.refusal(found, inner));
      if (why) throw new Permanent(why);
    }
    return { id: request.subject.id };
  }

  /** Return a state of an older version as one of the present version. */
  async upgrade(request: messages.UpgradeStateRequest): Promise<Given<messages.UpgradeStateResponse>> {
    const [kind, operations] = this.kind(request.subject);
    const state = dumped(fromJson(await operations.upgrade(request.subject.version, toJson(loaded(request.state)))));
    this.demandRight(kind, state);
    return { state };
  }

  private kind(subject: messages.Subject | undefined): [Kind, AnyOperations] {
    const token = subject?.token ?? "";
    const [kind, operations] = [this.schema.resources.get(token), this.operations.get(token)];
    if (kind !== undefined && operations !== undefined) return [kind, operations];
    throw new Permanent(`there is no resource ${token} in version ${this.schema.version}`);
  }

  /** Return the response to a change. After an unfinished one, it has the state of the resource. */
  private async changed(
    kind: Kind,
    request: messages.CreateRequest | messages.UpdateRequest,
    signal: AbortSignal,
    change: (signal: AbortSignal) => Promise<Found<Values>>,
  ): Promise<Given<messages.ChangeResponse>> {
    let found: Found<Values>;
    try {
      found = await within(request.timeout_ms, signal, change);
    } catch (error) {
      if (error instanceof Partial) return this.unfinished(kind, request, error.found as Found<Values>, error);
      throw error;
    }
    try {
      return { id: found?.id, state: this.returned(kind, found), revision: found.revision ?? "" };
    } catch (error) {
      return this.unfinished(kind, request, found, error);
    }
  }

  /**
   * Return the response to a change that has failed after it created something: the next attempt needs its id. The
   * state is empty if the author has returned a wrong one.
   */
  private unfinished(
    kind: Kind,
    request: object,
    found: Found<Values>,
    error: unknown,
  ): Given<messages.ChangeResponse> {
    if (!isObject(found) || typeof found.id !== "string" || found.id === "") throw error;
    let state: Uint8Array = new Uint8Array();
    let told = error;
    try {
      state = this.returned(kind, found);
    } catch (wrong) {
      logFailure("the check of what it returned", wrong);
      told = wrong;
    }
    return { id: found.id, state, partial: true, failure: failureOf(told, request) };
  }

  /** Return the expected state after a change: fields that only the provider sets are unknown. */
  private predicted(kind: Kind, id: string, values: Values): Given<messages.ChangeResponse> {
    const required = outputs(kind.fields).filter((each) => each.required === true);
    const unknown = Object.fromEntries(required.map((each) => [wireName(each), UNKNOWN]));
    return { id, state: this.payloads.packState(kind, { ...unknown, ...values }) };
  }

  /** Return the state that an author has returned, after checking it against the schema. */
  private returned(kind: Kind, found: unknown): Uint8Array {
    const { id, state } = (isObject(found) ? found : {}) as Partly<Found<Values>>;
    if (typeof id !== "string" || id === "" || !isObject(state)) {
      throw new TypeError("the provider must return an object with a state and an id");
    }
    let data: Uint8Array;
    try {
      data = this.payloads.packState(kind, state);
    } catch (error) {
      throw new TypeError(`the provider returned a ${kind.name} with a value of a wrong type: ${String(error)}`);
    }
    this.demandRight(kind, data);
    return data;
  }

  private demandRight(kind: Kind, data: Uint8Array): void {
    try {
      this.payloads.state(kind, data);
    } catch (error) {
      if (!(error instanceof InvalidData)) throw error;
      throw new TypeError(`the provider returned a wrong ${kind.name}: ${error.message}`);
    }
  }
}

type Partly<T> = { readonly [K in keyof T]?: T[K] };

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Return the write-only fields that differ, by what an author says; their names are those of the IDL. */
function differing(kind: Kind, found: Found<Values>): string[] {
  const known = kind.fields.filter((each) => each.write_only === true);
  return (found.differs ?? []).map((name) => {
    const field = known.find((each: Field) => wireName(each) === name);
    if (field !== undefined) return field.name;
    const listed = known.map(wireName).join(", ") || "none";
    throw new TypeError(`the provider says that '${name}' differs; only write-only fields may be named: ${listed}`);
  });
}
