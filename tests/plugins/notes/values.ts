/** Decodes values for tests: each line of standard input has a schema and data, each line of the output the result. */

import { createInterface } from "node:readline";

import { Decoder, type Form, InvalidData } from "./holdfast-runtime/decode.js";
import { Encoder } from "./holdfast-runtime/encode.js";
import { parse, write } from "./holdfast-runtime/json.js";
import { loaded } from "./holdfast-runtime/payloads.js";
import { type Field, type Pattern, type Rule, Schema } from "./holdfast-runtime/schema.js";

interface Asked {
  readonly text: string;
  readonly patterns: { readonly [pattern: string]: Pattern };
  /** Name of a record, or token of a resource. */
  readonly record: string;
  readonly form: Form;
  /** Text of the data. */
  readonly data: string;
}

interface Fields {
  readonly fields: readonly Field[];
  readonly rules?: readonly Rule[];
}

function answer({ text, patterns, record, form, data }: Asked): object {
  const schema = new Schema({ text, patterns, digest: "" });
  const kind = schema.resources.get(record);
  const { fields, rules = [] }: Fields = kind ?? schema.record(record);
  const decoder = new Decoder(schema, form, process.env);
  const read = form === "wire" ? loaded(new TextEncoder().encode(data)) : parse(data);
  const values = kind === undefined ? decoder.fields(fields, rules, read) : decoder.inputs(kind, read);
  const again = decoder.violations.length > 0 ? "" : write(new Encoder(schema).fields(fields, values));
  return { violations: decoder.violations, again };
}

function refusal(error: unknown): object {
  if (error instanceof InvalidData) return { violations: error.violations, again: "" };
  throw error;
}

for await (const line of createInterface(process.stdin)) {
  const asked = JSON.parse(line) as Asked;
  let said: object;
  try {
    said = answer(asked);
  } catch (error) {
    said = refusal(error);
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
