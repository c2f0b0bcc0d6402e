// Made by `holdfast idl compile` from ec2/vpc.py, target typescript. Do not edit it.
/** Virtual networks. */

import * as $ from "../holdfast-runtime/pack.js";
import { PACKAGE as $PACKAGE } from "../holdfast-runtime/package.js";

/** Arguments of `Vpc`. */
export interface VpcArgs {
  /** Range of addresses: `10.0.0.0/16`. A change replaces the resource. */
  readonly cidrBlock: string;
}

/** A virtual network of its own. */
export class Vpc extends $.Resource implements VpcArgs {
  declare readonly name?: string;
  declare readonly cidrBlock: string;

  /** `name` may be left out; then one is made. Throws `Invalid`. */
  constructor(...given: $.Named<VpcArgs>) {
    super($PACKAGE, "aws:ec2/vpc:Vpc", given);
  }
}
