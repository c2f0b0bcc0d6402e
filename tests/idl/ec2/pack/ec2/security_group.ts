// Made by `holdfast idl compile` from ec2/security_group.py, target typescript. Do not edit it.
// Rules follow the console of the cloud.
/** Security groups: which traffic reaches the machines of a network. */

import * as $ from "../holdfast-runtime/pack.js";
import { PACKAGE as $PACKAGE } from "../holdfast-runtime/package.js";
import type * as $ec2$vpc from "./vpc.js";

/** A port of TCP or UDP. */
export type Port = number;

/** Range of all addresses of version 4. */
export const ANYWHERE = "0.0.0.0/0";

/** What a rule applies to. */
export const Protocol = {
  /** Every protocol. */
  ALL: "-1",
  TCP: "tcp",
  UDP: "udp",
} as const;
export type Protocol = (typeof Protocol)[keyof typeof Protocol];

/** One kind of traffic that is let through. */
export interface SecurityGroupRule {
  readonly protocol: Protocol;
  /** First port of the range. */
  readonly fromPort: Port;
  readonly toPort: Port;
  // A rule names addresses or a group, never both.
  readonly cidrBlocks?: readonly string[] | undefined;
  readonly sourceGroup?: string | SecurityGroup | undefined;
  readonly description?: string | null | undefined;
}

/** Arguments of `SecurityGroup`. */
export interface SecurityGroupArgs {
  /** Network of the group. A change replaces the resource. */
  readonly vpc: string | $ec2$vpc.Vpc;
  /** A change replaces the resource. */
  readonly description: string;
  /** Traffic to the machines. */
  readonly ingress?: readonly SecurityGroupRule[] | undefined;
  /** Traffic from the machines; by default all of it. */
  readonly egress?: readonly SecurityGroupRule[] | undefined;
  /** @since 0.2.0 */
  readonly tags?: { readonly [key: string]: string } | undefined;
}

/**
 * Traffic that reaches the machines which are members of the group.
 *
 * ```yaml
 * web:
 *   aws-ec2.security_group:
 *     - vpc: main
 *     - description: the web servers
 *     - ingress:
 *         - {protocol: tcp, from_port: 443, to_port: 443, cidr_blocks: [0.0.0.0/0]}
 * ```
 */
export class SecurityGroup extends $.Resource implements SecurityGroupArgs {
  declare readonly name?: string;
  declare readonly vpc: string | $ec2$vpc.Vpc;
  declare readonly description: string;
  declare readonly ingress?: readonly SecurityGroupRule[];
  declare readonly egress?: readonly SecurityGroupRule[];
  declare readonly tags?: { readonly [key: string]: string };

  /** `name` may be left out; then one is made. Throws `Invalid`. */
  constructor(...given: $.Named<SecurityGroupArgs>) {
    super($PACKAGE, "aws:ec2/security_group:SecurityGroup", given);
  }
}
