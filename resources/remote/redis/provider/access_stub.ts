// Made by `holdfast idl compile` from access.py, target typescript. Do not edit it.
/** How the provider reaches the server. */

import * as $ from "./holdfast-runtime/plugin.js";

/** A port of TCP. */
export type Port = number;

/** Where the server is, and as whom the provider logs in. */
export interface Access {
  /** Its unix socket; without `socket` and `host`, the server is at 127.0.0.1. */
  readonly socket?: $.Path | undefined;
  /** Its name or address. */
  readonly host?: string | undefined;
  /** Its port, if `socket` is not given. */
  readonly port?: Port | undefined;
  /** The connection is encrypted, and the server shows a certificate for its name. */
  readonly tls?: boolean | undefined;
  /** File with the certificates (PEM) that may have signed that of the server; without it, those of Node.js. */
  readonly authority?: $.Path | undefined;
  /** File with the certificate (PEM) of the provider, if the server demands one (`tls-auth-clients`). */
  readonly certificate?: $.Path | undefined;
  /** File with the key of that certificate, which the user of the plugin can read. */
  readonly key?: $.Path | undefined;
  /** User of the server (ACL) as which the provider logs in, if there is a password. */
  readonly user?: string | undefined;
  /** Password of that user. */
  readonly password?: $.Secret<string> | undefined;
  /**
   * The provider adds `KA` to the parameter `notify-keyspace-events` where it is missing, so that the server
   * reports changes of keys. False: the parameter is left alone; without `KA` all keys are read every five seconds.
   */
  readonly events?: boolean | undefined;
  /** Changes of users and parameters are written to the files of the server, so that its next start has them. */
  readonly save?: boolean | undefined;
}
