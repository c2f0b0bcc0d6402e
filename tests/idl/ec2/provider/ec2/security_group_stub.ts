// Made by `holdfast idl compile` from ec2/security_group.py, target typescript. Do not edit it.
// Rules follow the console of the cloud.
/** Security groups: which traffic reaches the machines of a network. */

import * as $ from "../holdfast-runtime/plugin.js";

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
  readonly sourceGroup?: string | undefined;
  readonly description?: string | null | undefined;
}

/** Arguments of `SecurityGroup`. */
export interface SecurityGroupArgs {
  /** Name of the resource. A change replaces the resource. */
  readonly name?: string | undefined;
  /** Network of the group. A change replaces the resource. */
  readonly vpc: string;
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
export interface SecurityGroup {
  /** Name of the resource. A change replaces the resource. */
  readonly name?: string | undefined;
  /** Network of the group. A change replaces the resource. */
  readonly vpc: string;
  /** A change replaces the resource. */
  readonly description: string;
  /** Traffic to the machines. */
  readonly ingress?: readonly SecurityGroupRule[] | undefined;
  /** Traffic from the machines; by default all of it. */
  readonly egress?: readonly SecurityGroupRule[] | undefined;
  /** @since 0.2.0 */
  readonly tags?: { readonly [key: string]: string } | undefined;
  /** Identifier that the cloud has given to the group. */
  readonly groupId: string;
  readonly ownerId?: string | undefined;
}

/** Names of the fields. */
export const SecurityGroupProperty = {
  NAME: "name",
  VPC: "vpc",
  DESCRIPTION: "description",
  INGRESS: "ingress",
  EGRESS: "egress",
  TAGS: "tags",
  GROUP_ID: "groupId",
  OWNER_ID: "ownerId",
} as const;

/** Derive from this class, and write check, diff, read, create, update, delete and watch. */
export abstract class SecurityGroupOperations extends $.Operations<SecurityGroupArgs, SecurityGroup> {
  override readonly token = "aws:ec2/security_group:SecurityGroup";
}
