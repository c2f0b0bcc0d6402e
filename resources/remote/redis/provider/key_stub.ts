// Made by `holdfast idl compile` from key.py, target typescript. Do not edit it.
/** Keys, with their values. */

import * as $ from "./holdfast-runtime/plugin.js";

/** Name of a key. */
export type Name = string;

/** Arguments of `Key`. */
export interface KeyArgs {
  /** Name of the key. A change replaces the resource. */
  readonly name: Name;
  /** Number of the database that has the key. A change replaces the resource. */
  readonly database?: number | undefined;
  /** Value of a string. */
  readonly text?: string | undefined;
  /** Value of a string that is never shown. */
  readonly secret?: $.Secret<string> | undefined;
  /** All fields of a hash. */
  readonly fields?: { readonly [key: string]: string } | undefined;
  /** All items of a list. */
  readonly items?: readonly string[] | undefined;
  /** All members of a set. */
  readonly members?: ReadonlySet<string> | undefined;
  /** All members of a sorted set, with their scores. */
  readonly scores?: { readonly [key: string]: number } | undefined;
  /** Whether the key must never expire. If false, an expiry is not changed. */
  readonly persistent?: boolean | undefined;
}

/**
 * A key with its value. The server reports each change of a key, so the agent repairs it at once.
 *
 * ```yaml
 * greeting:
 *   redis.key:
 *     - text: hello
 *
 * limits:
 *   redis.key:
 *     - name: app:limits
 *     - database: 2
 *     - fields: {requests: "100", window: "60"}
 * ```
 */
export interface Key {
  /** Name of the key. A change replaces the resource. */
  readonly name: Name;
  /** Number of the database that has the key. A change replaces the resource. */
  readonly database?: number | undefined;
  /** Value of a string. */
  readonly text?: string | undefined;
  /** Value of a string that is never shown. */
  readonly secret?: $.Secret<string> | undefined;
  /** All fields of a hash. */
  readonly fields?: { readonly [key: string]: string } | undefined;
  /** All items of a list. */
  readonly items?: readonly string[] | undefined;
  /** All members of a set. */
  readonly members?: ReadonlySet<string> | undefined;
  /** All members of a sorted set, with their scores. */
  readonly scores?: { readonly [key: string]: number } | undefined;
  /** Whether the key must never expire. If false, an expiry is not changed. */
  readonly persistent?: boolean | undefined;
}

/** Names of the fields. */
export const KeyProperty = {
  NAME: "name",
  DATABASE: "database",
  TEXT: "text",
  SECRET: "secret",
  FIELDS: "fields",
  ITEMS: "items",
  MEMBERS: "members",
  SCORES: "scores",
  PERSISTENT: "persistent",
} as const;

/** Derive from this class, and write check, diff, read, create, update, delete and watch. */
export abstract class KeyOperations extends $.Operations<KeyArgs, Key> {
  override readonly token = "redis:key:Key";
}
