/** The schema of a package, indexed by the names that its types use. */

import { type Data, isSafe, parse } from "./json.js";

/** The data that the compiler has generated from the package. */
export interface PackageText {
  /** The text of schema.json. */
  readonly text: string;
  /** SHA-256 of the schema, by which agent and provider check that they use the same one. */
  readonly digest: string;
  /** Pattern of the schema -> the expression of JavaScript, and how many ways of matching a text it may try. */
  readonly patterns: { readonly [pattern: string]: Pattern };
}

/** An expression; it tries at most `constant` times the `degree`-th power of the text's length. */
export type Pattern = readonly [expression: string, constant: number, degree: number];

export interface Type {
  readonly type: string;
  readonly patterns?: readonly string[];
  readonly choices?: readonly string[];
  readonly minimum?: number | bigint;
  readonly maximum?: number | bigint;
  readonly above?: number | bigint;
  readonly below?: number | bigint;
  readonly shortest?: number;
  readonly longest?: number;
  readonly items?: Type;
  readonly keys?: Type;
  readonly record?: string;
  readonly target?: string;
  readonly members?: readonly Type[];
}

export interface Field {
  readonly name: string;
  readonly type: Type;
  readonly required?: boolean;
  /** As in state files; missing if there is none. */
  readonly default?: Data;
  readonly secret?: boolean;
  readonly wire?: string;
  readonly out?: boolean;
  readonly computed?: boolean;
  readonly replaces?: boolean;
  readonly write_only?: boolean;
  /** Variables of the provider's environment that give the default. */
  readonly environment?: readonly string[];
}

export interface Rule {
  readonly rule: "ordered" | "exactly one" | "at most one" | "at least one" | "together";
  readonly fields: readonly string[];
}

export interface RecordType {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly rules?: readonly Rule[];
  readonly tag?: string;
}

export interface Remote {
  readonly token: string;
  readonly named?: boolean;
  readonly delete_first?: boolean;
  readonly rules?: readonly Rule[];
}

export interface Kind {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly remote: Remote;
}

export interface FunctionType {
  readonly name: string;
  readonly parameters: readonly Field[];
  readonly results: readonly Field[];
  readonly rules?: readonly Rule[];
}

interface Module {
  readonly name: string;
  readonly resources?: readonly Kind[];
  readonly records?: readonly RecordType[];
  readonly functions?: readonly FunctionType[];
}

interface Package {
  readonly name: string;
  readonly version: string;
  readonly modules?: readonly Module[];
  readonly config?: string;
}

/** Returns whether a pattern matches a whole text. */
export type Matcher = (pattern: Pattern, text: string) => boolean;

/** The type of values without another one. */
export const ANY: Type = { type: "any" };
export const TEXT: Type = { type: "text" };

/** A package by its names. It never changes. */
export class Schema {
  readonly name: string;
  readonly version: string;
  readonly config: RecordType | undefined;
  readonly resources: ReadonlyMap<string, Kind>;
  readonly functions: ReadonlyMap<string, FunctionType>;
  private readonly records: ReadonlyMap<string, RecordType>;

  constructor(
    readonly source: PackageText,
    private readonly matcher: Matcher = matchesWhole,
  ) {
    const found = plain(parse(source.text)) as unknown as Package;
    const modules = found.modules ?? [];
    this.name = found.name;
    this.version = found.version;
    this.records = new Map(
      modules.flatMap((module) => (module.records ?? []).map((each) => [`${module.name}:${each.name}`, each])),
    );
    this.resources = new Map(
      modules.flatMap((module) => (module.resources ?? []).map((each) => [each.remote.token, each])),
    );
    this.functions = new Map(
      modules.flatMap((module) =>
        (module.functions ?? []).map((each) => [`${found.name}:${module.name}:${each.name}`, each]),
      ),
    );
    this.config = found.config ? this.record(found.config) : undefined;
  }

  /** Return the record with this qualified name. */
  record(name: string | undefined): RecordType {
    const found = this.records.get(name ?? "");
    if (found === undefined) throw new Error(`the schema has no record ${name}`);
    return found;
  }

  /** Return whether a pattern of the schema matches a whole text. */
  matches(pattern: string, text: string): boolean {
    const made = this.source.patterns[pattern];
    return made !== undefined && this.matcher(made, text);
  }
}

/** Return whether a pattern matches a whole text, however long that takes. */
export function matchesWhole([expression]: Pattern, text: string): boolean {
  return new RegExp(expression, "u").test(text);
}

/** Return the fields that a declaration may give. */
export function inputs(fields: readonly Field[]): readonly Field[] {
  return fields.filter((each) => each.out !== true);
}

/** Return the fields that a provider returns: all but those that are never stored. */
export function outputs(fields: readonly Field[]): readonly Field[] {
  return fields.filter((each) => each.write_only !== true);
}

/** Return the name of a field on the wire and in TypeScript. */
export function wireName(field: Field): string {
  return field.wire ?? field.name;
}

/** Return data of schema.json as objects. Defaults stay as they are, because their whole numbers are exact. */
function plain(data: Data): unknown {
  if (typeof data === "bigint") return isSafe(data) ? Number(data) : data;
  if (Array.isArray(data)) return (data as readonly Data[]).map(plain);
  if (!(data instanceof Map)) return data;
  const members = [...(data as ReadonlyMap<string, Data>)];
  return Object.fromEntries(members.map(([key, item]) => [key, key === "default" ? item : plain(item)]));
}
