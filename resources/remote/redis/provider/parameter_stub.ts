// Made by `holdfast idl compile` from parameter.py, target typescript. Do not edit it.
/** Parameters of the server, as in redis.conf. */

import * as $ from "./holdfast-runtime/plugin.js";

/** Name of a parameter. */
export type Parameter = string;

/** Arguments of `Config`. */
export interface ConfigArgs {
  /** Name of the parameter. A change replaces the resource. */
  readonly name: Parameter;
  /** Value of the parameter, in any form that redis.conf accepts. */
  readonly value?: string | undefined;
  /** Value of a parameter that is never shown, such as `requirepass`. */
  readonly secret?: $.Secret<string> | undefined;
}

/**
 * A parameter of the server (`CONFIG SET`). The server does not report changes of parameters, so they are polled.
 *
 * ```yaml
 * maxmemory:
 *   redis.config:
 *     - value: 100mb
 * ```
 */
export interface Config {
  /** Name of the parameter. A change replaces the resource. */
  readonly name: Parameter;
  /** Value of the parameter, in any form that redis.conf accepts. */
  readonly value?: string | undefined;
  /** Value of a parameter that is never shown, such as `requirepass`. */
  readonly secret?: $.Secret<string> | undefined;
}

/** Names of the fields. */
export const ConfigProperty = {
  NAME: "name",
  VALUE: "value",
  SECRET: "secret",
} as const;

/** Derive from this class, and write check, diff, read, create, update, delete and watch. */
export abstract class ConfigOperations extends $.Operations<ConfigArgs, Config> {
  override readonly token = "redis:parameter:Config";
}
