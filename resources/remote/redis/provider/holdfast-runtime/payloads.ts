// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** The bytes of the protocol's messages: values of one resource, encoded against the schema. */

import { Decoder, type Form, InvalidData, type Values } from "./decode.js";
import { Encoder } from "./encode.js";
import { type Data, parse, write } from "./json.js";
import { type Field, type FunctionType, type Kind, type Schema, inputs, outputs } from "./schema.js";

/** Packs and unpacks values. Every method that unpacks throws `InvalidData`. */
export class Payloads {
  constructor(private readonly schema: Schema) {}

  /** Return the arguments of a resource, with `defaults` for those that are not given. */
  inputs(kind: Kind, data: Uint8Array, defaults = false): Values {
    return this.valid(defaults, (decoder) => decoder.inputs(kind, loaded(data)));
  }

  /** Return the state of a resource. */
  state(kind: Kind, data: Uint8Array): Values {
    return this.valid(false, (decoder) => decoder.outputs(kind, loaded(data)));
  }

  /** Return the configuration of the provider, with defaults. */
  config(data: Uint8Array): Values {
    const { fields = [], rules = [] } = this.schema.config ?? {};
    return this.valid(true, (decoder) => decoder.fields(fields, rules, loaded(data)));
  }

  /** Return the configuration that an operator has written, with defaults. */
  configGiven(data: Data): Values {
    const { fields = [], rules = [] } = this.schema.config ?? {};
    return this.valid(true, (decoder) => decoder.fields(fields, rules, data), "state");
  }

  /** Return the arguments of a function, with defaults. */
  arguments(model: FunctionType, data: Uint8Array): Values {
    return this.valid(true, (decoder) => decoder.fields(model.parameters, model.rules ?? [], loaded(data)));
  }

  /** Return the result of a function. */
  results(model: FunctionType, data: Uint8Array): Values {
    return this.valid(false, (decoder) => decoder.fields(model.results, [], loaded(data)));
  }

  packInputs(kind: Kind, values: Values): Uint8Array {
    return this.packed(inputs(kind.fields), values);
  }

  packState(kind: Kind, values: Values): Uint8Array {
    return this.packed(outputs(kind.fields), values);
  }

  packResults(model: FunctionType, values: Values): Uint8Array {
    return this.packed(model.results, values);
  }

  packConfig(values: Values): Uint8Array {
    return this.packed(this.schema.config?.fields ?? [], values);
  }

  private packed(fields: readonly Field[], values: Values): Uint8Array {
    return dumped(new Encoder(this.schema).fields(fields, values));
  }

  private valid(defaults: boolean, decode: (decoder: Decoder) => Values, form: Form = "wire"): Values {
    const decoder = new Decoder(this.schema, form, defaults ? process.env : undefined);
    const values = decode(decoder);
    if (decoder.violations.length > 0) throw new InvalidData(decoder.violations);
    return values;
  }
}

/** Return the data of a payload. Throws `InvalidData`. */
export function loaded(data: Uint8Array): Data {
  try {
    return data.length === 0 ? new Map() : parse(new TextDecoder("utf-8", { fatal: true }).decode(data));
  } catch (error) {
    const message = `the payload is not JSON: ${error instanceof Error ? error.message : String(error)}`;
    throw new InvalidData([{ code: "form", path: "", message }]);
  }
}

/** Return the payload of data. */
export function dumped(data: Data): Uint8Array {
  return new TextEncoder().encode(write(data));
}
