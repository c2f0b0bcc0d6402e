/** Parameters of the server. All of them exist from its start, and none can be removed. */

import { type Config, type ConfigArgs, ConfigOperations } from "./parameter_stub.js";
import * as plugin from "./holdfast-runtime/plugin.js";
import type { Reply } from "./replies.js";
import type { Server } from "./server.js";

const UNITS: { readonly [unit: string]: number } = { b: 1, k: 1e3, kb: 1024, m: 1e6, mb: 1 << 20, g: 1e9, gb: 1 << 30 };
/** Parameters whose values are secrets. */
const SECRET = /pass$|^(?:masterauth)$/;

export class Parameters extends ConfigOperations {
  constructor(private readonly server: () => Server) {
    super();
  }

  override check(inputs: ConfigArgs): Promise<plugin.Violation[]> {
    const open = SECRET.test(inputs.name) && inputs.value !== undefined;
    const message = "the value of this parameter is a secret: give it as `secret`";
    return Promise.resolve(open ? [{ code: "rule", path: "value", message }] : []);
  }

  override async readMany(
    wanted: readonly (readonly [plugin.Key, ConfigArgs])[],
  ): Promise<readonly (plugin.Found<Config> | Error)[]> {
    const told = await this.server().ask(0, ...wanted.map(([, { name }]) => ["CONFIG", "GET", name]));
    return wanted.map(([, inputs], number) => {
      const value = (told[number] as ReadonlyMap<string, Reply>).get(inputs.name);
      if (value === undefined) return new plugin.Permanent(`the server has no parameter ${inputs.name}`);
      return foundOf(inputs, String(value));
    });
  }

  override async create(inputs: ConfigArgs): Promise<plugin.Found<Config>> {
    return await this.set(inputs);
  }

  override async update(_found: plugin.Found<Config>, inputs: ConfigArgs): Promise<plugin.Found<Config>> {
    return await this.set(inputs);
  }

  override delete(found: plugin.Found<Config>): Promise<void> {
    return Promise.reject(new plugin.Permanent(`${found.id} cannot be removed; declare another value`));
  }

  private async set(inputs: ConfigArgs): Promise<plugin.Found<Config>> {
    const value = inputs.secret?.value ?? inputs.value ?? "";
    await this.server().ask(0, ["CONFIG", "SET", inputs.name, value]);
    await this.server().save("parameters");
    if (inputs.name === "requirepass") await this.server().save("users"); // this is the password of the user default
    const found = await this.read({ id: inputs.name, trace: "" }, inputs);
    if (found !== undefined && (found.state.secret?.value ?? found.state.value) === value) return found;
    throw new plugin.Permanent(`the server has stored a value of ${inputs.name} other than the declared one`);
  }
}

/** Return a parameter. A value that means the same as the declared one is written as declared. */
function foundOf(inputs: ConfigArgs, present: string): plugin.Found<Config> {
  const declared = inputs.secret?.value ?? inputs.value;
  const equal = declared !== undefined && formOf(inputs.name, declared) === formOf(inputs.name, present);
  const value = equal ? declared : present;
  const hidden = inputs.secret !== undefined || SECRET.test(inputs.name);
  const shown = hidden ? { secret: new plugin.Secret(value) } : { value };
  return { id: inputs.name, state: { name: inputs.name, ...shown } };
}

/** Return the normal form of a value: amounts of memory in bytes, kinds of events sorted. */
function formOf(name: string, value: string): string {
  if (name === "notify-keyspace-events") return [...value.replace("A", "g$lshzxetd")].sort().join("");
  const [, amount, unit] = /^(\d+)(b|kb?|mb?|gb?)$/i.exec(value) ?? [];
  if (amount !== undefined) return String(BigInt(amount) * BigInt(UNITS[unit?.toLowerCase() ?? "b"] ?? 1));
  return /^(?:yes|no)$/i.test(value) ? value.toLowerCase() : value;
}
