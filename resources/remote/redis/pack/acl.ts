// Made by `holdfast idl compile` from acl.py, target typescript. Do not edit it.
/** Users of access control lists (ACL). */

import * as $ from "./holdfast-runtime/pack.js";
import { PACKAGE as $PACKAGE } from "./holdfast-runtime/package.js";

/** Name of a user, without spaces. */
export type UserName = string;

/** SHA-256 of a password, in hexadecimal digits: `printf %s PASSWORD | sha256sum`. */
export type Hash = string;

/** `+get`, `-@dangerous`, `+config|get`; or a selector, as in `ACL LIST`: `(~cache:* resetchannels -@all +get)`. */
export type Rule = string;

/** `~app:*`; `%R~app:*` to read only, `%W~app:*` to write only. */
export type KeyPattern = string;

/** `&news:*`. */
export type ChannelPattern = string;

/** Arguments of `AclUser`. */
export interface AclUserArgs {
  /** Name of the user. A change replaces the resource. */
  readonly name: UserName;
  /** Whether the user may log in. */
  readonly enabled?: boolean | undefined;
  /** The only password. The server receives its hash, never the password. */
  readonly password?: string | $.Secret<string> | undefined;
  /** Hashes of all passwords. */
  readonly hashes?: ReadonlySet<Hash> | $.Secret<ReadonlySet<Hash>> | undefined;
  /** Whether the user can log in with any password. */
  readonly withoutPassword?: boolean | undefined;
  /** Rules for commands, and selectors, in order. Without rules, no command is allowed. */
  readonly rules?: readonly Rule[] | undefined;
  /** Patterns of all keys that the user may use. */
  readonly keys?: ReadonlySet<KeyPattern> | undefined;
  /** Patterns of all channels that the user may use. */
  readonly channels?: ReadonlySet<ChannelPattern> | undefined;
}

/**
 * A user of the server. The server does not report changes of users, so they are polled.
 *
 * ```yaml
 * app:
 *   redis.acl_user:
 *     - password: {{ pillar.app_password | tojson }}
 *     - rules: [+@read, +@write, -@dangerous]
 *     - keys: [~app:*]
 * ```
 */
export class AclUser extends $.Resource implements AclUserArgs {
  declare readonly name: UserName;
  declare readonly enabled?: boolean;
  declare readonly password?: $.Secret<string>;
  declare readonly hashes?: $.Secret<ReadonlySet<Hash>>;
  declare readonly withoutPassword?: boolean;
  declare readonly rules?: readonly Rule[];
  declare readonly keys?: ReadonlySet<KeyPattern>;
  declare readonly channels?: ReadonlySet<ChannelPattern>;

  /** Throws `Invalid`, with everything that is wrong. */
  constructor(args: AclUserArgs) {
    super($PACKAGE, "redis:acl:AclUser", [args]);
  }
}
