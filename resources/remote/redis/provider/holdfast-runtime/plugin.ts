// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * The API for authors of providers: `import * as plugin from "./holdfast-runtime/plugin.js"`.
 *
 * The generated stub has a class for each resource. The author derives from it and writes the operations:
 *
 *     class Roles extends RoleOperations {
 *       override async read(key: plugin.Key, inputs: RoleArgs): Promise<plugin.Found<Role> | undefined> { ... }
 *       override async create(inputs: RoleArgs): Promise<plugin.Found<Role>> { ... }
 *       override async update(found: plugin.Found<Role>, inputs: RoleArgs): Promise<plugin.Found<Role>> { ... }
 *       override async delete(found: plugin.Found<Role>): Promise<void> { ... }
 *     }
 *
 *     plugin.serve(PACKAGE, [new Roles()]);
 *
 * Values arrive decoded and validated, and what the author returns is validated as well. What an author throws becomes
 * a failure with a code: `Temporary` may be tried again, `Permanent` may not, `Conflict` says that the resource has
 * another revision, `Partial` that a resource was created but not finished. `Trial` calls a provider in a test.
 */

import { logFailure } from "./failures.js";
import type { PackageText } from "./schema.js";
import * as server from "./server.js";
import type { Configure, Part } from "./servicer.js";
import * as standalone from "./standalone.js";

export { InvalidData as Invalid } from "./decode.js";
export { log } from "./failures.js";
export { type Address, type Duration, type Moment, type Path, address, duration, moment, path } from "./forms.js";
export type { Json } from "./json.js";
export { Servicer } from "./servicer.js";
export {
  ARMED,
  Conflict,
  type Found,
  Function,
  type Key,
  MISSED,
  Operations,
  Partial,
  Permanent,
  Temporary,
  Unsupported,
  type WatchEvent,
  unwatched,
} from "./stub.js";
export { type KindTrial, Trial } from "./trial.js";
export { Secret, UNKNOWN, type Violation } from "./values.js";

/**
 * Serve as a plugin until the agent ends the process. `configure` receives the configuration of agent.yaml, before any
 * other call. Started by an operator with `--listen HOST:PORT`, the process serves agents over the network.
 */
export function serve(source: PackageText, parts: readonly Part[], configure?: Configure): void {
  for (const event of ["uncaughtException", "unhandledRejection"]) process.on(event, crash);
  const { run } = server.startedByAgent() ? server : standalone;
  run(source, parts, configure).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  });
}

/** End the process after an uncaught error. The text of the error may contain secrets, and is not logged. */
function crash(error: unknown): void {
  logFailure("the provider", error);
  process.exit(1);
}
