// Made by `holdfast idl compile` from access.py, target typescript. Do not edit it.
/** How the provider reaches the server. */

import * as $ from "./holdfast-runtime/plugin.js";

/** A TCP port. */
export type Port = number;

/** Where the server is, and as whom the provider logs in. */
export interface Access {
  /** Unix socket of the server. Without `socket` and `host`, the provider connects to 127.0.0.1. */
  readonly socket?: $.Path | undefined;
  /** Name or address of the server. */
  readonly host?: string | undefined;
  /** Port of the server, if `socket` is not given. */
  readonly port?: Port | undefined;
  /** Whether the connection is encrypted. The server must then have a certificate for `host`. */
  readonly tls?: boolean | undefined;
  /** File with the trusted authorities (PEM) for the server's certificate. The default is those of Node.js. */
  readonly authority?: $.Path | undefined;
  /** File with the provider's certificate (PEM), if the server demands one (`tls-auth-clients`). */
  readonly certificate?: $.Path | undefined;
  /** File with the key of `certificate`. The user of the plugin must be able to read it. */
  readonly key?: $.Path | undefined;
  /** User (ACL) that the provider logs in as, if there is a password. */
  readonly user?: string | undefined;
  /** Password of `user`. */
  readonly password?: $.Secret<string> | undefined;
  /**
   * Whether the provider adds `KA` to the parameter `notify-keyspace-events`, so that the server reports changes of
   * keys. If false, the parameter is not changed; without `KA` the provider reads all keys every five seconds.
   */
  readonly events?: boolean | undefined;
  /**
   * Whether changes of users and parameters are written to the files of the server, so that they survive its
   * restart.
   */
  readonly save?: boolean | undefined;
}
