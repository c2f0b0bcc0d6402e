// Made by `holdfast idl compile` from parameter.py, target typescript. Do not edit it.
/** Parameters of the server, as in redis.conf. */

import * as $ from "./holdfast-runtime/pack.js";
import { PACKAGE as $PACKAGE } from "./holdfast-runtime/package.js";

/** Name of a parameter. */
export type Parameter = string;

/** Arguments of `Config`. */
export interface ConfigArgs {
  /** Name of the parameter. A change replaces the resource. */
  readonly name: Parameter;
  /** Value of the parameter, in any form that redis.conf accepts. */
  readonly value?: string | undefined;
  /** Value of a parameter that is never shown, such as `requirepass`. */
  readonly secret?: string | $.Secret<string> | undefined;
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
export class Config extends $.Resource implements ConfigArgs {
  declare readonly name: Parameter;
  declare readonly value?: string;
  declare readonly secret?: $.Secret<string>;

  /** Throws `Invalid`, with everything that is wrong. */
  constructor(args: ConfigArgs) {
    super($PACKAGE, "redis:parameter:Config", [args]);
  }
}
