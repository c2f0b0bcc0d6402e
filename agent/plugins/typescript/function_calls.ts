/** Answers calls of a package's functions with an author's code. */

import { InvalidData, type Values } from "./decode.js";
import type { InvokeRequest, InvokeResponse } from "./messages.js";
import { Payloads } from "./payloads.js";
import type { Given } from "./resource_calls.js";
import type { FunctionType, Schema } from "./schema.js";
import { Permanent, type Function as PackageFunction } from "./stub.js";
import { within } from "./timeouts.js";

/** Decodes and validates arguments, calls the author's code, and validates and encodes its result. */
export class FunctionCalls {
  private readonly payloads: Payloads;

  constructor(
    private readonly schema: Schema,
    private readonly functions: ReadonlyMap<string, PackageFunction<Values, Values>>,
  ) {
    this.payloads = new Payloads(schema);
  }

  /** Return the result of one call. */
  async invoke(request: InvokeRequest, signal: AbortSignal): Promise<Given<InvokeResponse>> {
    const [model, found] = [this.schema.functions.get(request.function), this.functions.get(request.function)];
    if (model === undefined || found === undefined) {
      throw new Permanent(`there is no function ${request.function} in version ${this.schema.version}`);
    }
    const values = this.payloads.arguments(model, request.arguments);
    const result = await within(request.timeout_ms, signal, (inner) => found.call(values, inner));
    return { result: this.returned(model, result) };
  }

  /** Return the encoded result, after checking it against the schema. */
  private returned(model: FunctionType, result: unknown): Uint8Array {
    if (typeof result !== "object" || result === null) {
      throw new TypeError(`${model.name} must return an object, not ${typeof result}`);
    }
    let data: Uint8Array;
    try {
      data = this.payloads.packResults(model, result as Values);
    } catch (error) {
      throw new TypeError(`the provider returned a result of ${model.name} of a wrong type: ${String(error)}`);
    }
    try {
      this.payloads.results(model, data);
    } catch (error) {
      if (!(error instanceof InvalidData)) throw error;
      throw new TypeError(`the provider returned a wrong result of ${model.name}: ${error.message}`);
    }
    return data;
  }
}
