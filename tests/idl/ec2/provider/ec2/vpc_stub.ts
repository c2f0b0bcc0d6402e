// Made by `holdfast idl compile` from ec2/vpc.py, target typescript. Do not edit it.
/** Virtual networks. */

import * as $ from "../holdfast-runtime/plugin.js";

/** Arguments of `Vpc`. */
export interface VpcArgs {
  /** Name of the resource. A change replaces the resource. */
  readonly name?: string | undefined;
  /** Range of addresses: `10.0.0.0/16`. A change replaces the resource. */
  readonly cidrBlock: string;
}

/** A virtual network of its own. */
export interface Vpc {
  /** Name of the resource. A change replaces the resource. */
  readonly name?: string | undefined;
  /** Range of addresses: `10.0.0.0/16`. A change replaces the resource. */
  readonly cidrBlock: string;
  /** Identifier that the cloud has given to the network. */
  readonly vpcId: string;
}

/** Names of the fields. */
export const VpcProperty = {
  NAME: "name",
  CIDR_BLOCK: "cidrBlock",
  VPC_ID: "vpcId",
} as const;

/** Derive from this class, and write check, diff, read, create, update, delete and watch. */
export abstract class VpcOperations extends $.Operations<VpcArgs, Vpc> {
  override readonly token = "aws:ec2/vpc:Vpc";
}
