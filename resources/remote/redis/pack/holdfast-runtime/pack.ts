// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * The base of the generated classes of a package, and further functions for its users.
 *
 * Nothing here depends on Node.js or on another library.
 */

import { Decoder, InvalidData, type Values } from "./decode.js";
import { Encoder } from "./encode.js";
import { type Data, write } from "./json.js";
import { type Kind, type PackageText, Schema, inputs } from "./schema.js";
import { TOKEN } from "./values.js";

export { InvalidData as Invalid } from "./decode.js";
export { type Address, type Duration, type Moment, type Path, address, duration, moment, path } from "./forms.js";
export { fromBase64, toBase64 } from "./forms.js";
export type { Json } from "./json.js";
export { Secret, type Violation } from "./values.js";

const schemas = new Map<PackageText, Schema>();

/** Base of the generated classes of resources. Its constructor throws `Invalid`, with all violations. */
export abstract class Resource {
  readonly #schema: Schema;
  readonly #kind: Kind;

  /** `given`: the arguments, perhaps with the name of the resource before them. */
  protected constructor(source: PackageText, token: string, given: readonly unknown[]) {
    this.#schema = schemas.get(source) ?? new Schema(source);
    schemas.set(source, this.#schema);
    const kind = this.#schema.resources.get(token);
    if (kind === undefined) throw new Error(`the package has no resource ${token}`);
    this.#kind = kind;
    Object.assign(this, this.#valid(given));
  }

  #valid(given: readonly unknown[]): Values {
    const [first, second] = given;
    const named = typeof first === "string" ? { ...(second as object | undefined), name: first } : (first ?? {});
    const decoder = new Decoder(this.#schema, "value");
    const values = decoder.inputs(this.#kind, named);
    if (decoder.violations.length > 0) throw new InvalidData(decoder.violations);
    return values;
  }

  get [TOKEN](): string {
    return this.#kind.remote.token;
  }

  /** Return the declaration as a state of this ID; `ids`: the IDs of the resources to which it may refer. */
  declaration(ids: ReadonlyMap<unknown, string>): Data {
    const encoder = new Encoder(this.#schema, "state", (value) => referenceTo(value, ids));
    const fields = encoder.fields(inputs(this.#kind.fields), this as unknown as Values);
    return new Map([[this.#kind.name, [...fields].map((entry) => new Map([entry]))]]);
  }
}

function referenceTo(value: unknown, ids: ReadonlyMap<unknown, string>): Data {
  if (typeof value === "string") return value;
  const id = ids.get(value);
  if (id === undefined) throw new Error("a resource refers to another one that is not among these resources");
  return new Map([["ref", id]]);
}

/** Return the text of a state file with these resources, by their IDs. Its values are not templates. */
export function toYaml(resources: { readonly [id: string]: Resource }): string {
  const ids = new Map<unknown, string>(Object.entries(resources).map(([id, each]) => [each, id]));
  const declared = new Map([...ids].map(([each, id]) => [id, (each as Resource).declaration(ids)]));
  return `#!yaml\n${write(declared)}\n`; // JSON is YAML as well
}

/** The arguments of a constructor of resources that have names. */
export type Named<Args> = readonly [name: string, args: Args] | readonly [args: Args];
/** The same, where no argument is required. */
export type NamedAny<Args> = readonly [name: string, args?: Args] | readonly [args?: Args];
