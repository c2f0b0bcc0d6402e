/** Users of the server. Passwords only travel as hashes. */

import { createHash, randomBytes } from "node:crypto";

import { type AclUser, type AclUserArgs, AclUserOperations } from "./acl_stub.js";
import * as plugin from "./holdfast-runtime/plugin.js";
import { same } from "./holdfast-runtime/values.js";
import { type Reply, ReplyError } from "./replies.js";
import type { Server } from "./server.js";

/** Name of a user that exists within a transaction only. */
const PROBE = `holdfast-${randomBytes(6).toString("hex")}`;
type Told = ReadonlyMap<string, Reply>;

export class Users extends AclUserOperations {
  constructor(private readonly server: () => Server) {
    super();
  }

  override check(inputs: AclUserArgs): Promise<plugin.Violation[]> {
    const both = inputs.withoutPassword === true && (inputs.password ?? inputs.hashes) !== undefined;
    const message = "a user that can log in with any password has no password of its own";
    return Promise.resolve(both ? [{ code: "rule", path: "withoutPassword", message }] : []);
  }

  override async readMany(
    wanted: readonly (readonly [plugin.Key, AclUserArgs])[],
  ): Promise<readonly (plugin.Found<AclUser> | undefined)[]> {
    const names = wanted.map(([{ id }, { name }]) => id || name);
    const told = await this.server().ask(0, ...names.map((name) => ["ACL", "GETUSER", name]));
    const forms = await this.forms(wanted.map(([, { rules = [] }]) => rules));
    return wanted.map(([, inputs], number) =>
      foundOf({ ...inputs, name: names[number] ?? "" }, (told[number] ?? null) as Told | null, forms[number]),
    );
  }

  /**
   * Return rules in the server's form, which only the server knows. In a transaction, the server creates a user that
   * cannot log in, shows it and removes it. The result for wrong rules is undefined.
   */
  private async forms(wanted: readonly (readonly string[])[]): Promise<(readonly string[] | undefined)[]> {
    const commands = wanted.flatMap((rules) => [
      ["ACL", "SETUSER", PROBE, "reset", "resetchannels", ...rules],
      ["ACL", "GETUSER", PROBE],
      ["ACL", "DELUSER", PROBE],
    ]);
    const replies = await this.server().alone(0, (connection) => connection.transaction(commands));
    return wanted.map((_, number) => {
      const [made, shown] = replies.slice(3 * number);
      return made instanceof ReplyError || !(shown instanceof Map) ? undefined : rulesOf(shown as Told);
    });
  }

  override async create(inputs: AclUserArgs): Promise<plugin.Found<AclUser>> {
    return await this.write(inputs, []);
  }

  override async update(found: plugin.Found<AclUser>, inputs: AclUserArgs): Promise<plugin.Found<AclUser>> {
    const present = await this.read({ id: found.id, trace: "" }, { name: inputs.name });
    return await this.write(inputs, [...(present?.state.hashes?.value ?? [])]);
  }

  override async delete(found: plugin.Found<AclUser>): Promise<void> {
    if (found.id === "default") throw new plugin.Permanent("the user default cannot be removed; disable it");
    await this.server().ask(0, ["ACL", "DELUSER", found.id]);
    await this.server().save("users");
  }

  /** Set everything by one command. `hashes`: those of the user, used if no password is declared. */
  private async write(inputs: AclUserArgs, hashes: readonly string[]): Promise<plugin.Found<AclUser>> {
    const declared = inputs.password === undefined ? inputs.hashes?.value : [hashOf(inputs.password.value)];
    const passwords =
      inputs.withoutPassword === true ? ["nopass"] : [...(declared ?? hashes)].map((each) => `#${each}`);
    await this.server().ask(0, [
      ...["ACL", "SETUSER", inputs.name, "reset", "resetchannels", inputs.enabled === false ? "off" : "on"],
      ...[...passwords, ...keysOf(inputs.keys ?? new Set()), ...channelsOf(inputs.channels ?? new Set())],
      ...(inputs.rules ?? []),
    ]);
    await this.server().save("users");
    const found = await this.read({ id: inputs.name, trace: "" }, inputs);
    if (found === undefined) throw new plugin.Temporary("another client has removed the user at once");
    return found;
  }
}

function foundOf(
  inputs: AclUserArgs,
  told: Told | null,
  form: readonly string[] | undefined,
): plugin.Found<AclUser> | undefined {
  if (told === null) return undefined;
  const flags = told.get("flags") as readonly string[];
  const hashes = new Set(told.get("passwords") as readonly string[]);
  const rules = rulesOf(told);
  const state: AclUser = {
    name: inputs.name,
    enabled: flags.includes("on"),
    withoutPassword: flags.includes("nopass"),
    hashes: new plugin.Secret(hashes),
    rules: same(form, rules) ? inputs.rules : rules,
    keys: asDeclared(inputs.keys, keysOf, new Set(words(told.get("keys")))),
    channels: asDeclared(inputs.channels, channelsOf, new Set(words(told.get("channels")))),
  };
  const other = inputs.password !== undefined && !same(hashes, new Set([hashOf(inputs.password.value)]));
  return { id: inputs.name, state, differs: other ? ["password"] : [] };
}

/** Return the declared value if the server has the same in its own form, else the server's value. */
function asDeclared<T>(declared: T | undefined, form: (value: T) => T, present: T): T {
  return declared !== undefined && same(form(declared), form(present)) ? declared : present;
}

function keysOf(keys: ReadonlySet<string>): ReadonlySet<string> {
  const plain = [...keys].map((each) => each.replace(/^%RW~/, "~"));
  return new Set(plain.includes("~*") ? ["~*"] : plain);
}

function channelsOf(channels: ReadonlySet<string>): ReadonlySet<string> {
  return channels.has("&*") ? new Set(["&*"]) : channels;
}

/** Return the rules of a user, selectors included. */
function rulesOf(told: Told): string[] {
  const selectors = (told.get("selectors") ?? []) as readonly Told[];
  return [...words(told.get("commands")), ...selectors.map(selectorOf)];
}

/** Return a selector as `ACL LIST` shows it. */
function selectorOf(told: Told): string {
  const [keys, channels] = [words(told.get("keys")), words(told.get("channels"))];
  const limited = channels.includes("&*") ? channels : ["resetchannels", ...channels];
  return `(${[...keys, ...limited, ...words(told.get("commands"))].join(" ")})`;
}

function words(text: Reply | undefined): string[] {
  return String(text ?? "")
    .split(" ")
    .filter((each) => each !== "");
}

function hashOf(password: string): string {
  return createHash("sha256").update(password).digest("hex");
}
