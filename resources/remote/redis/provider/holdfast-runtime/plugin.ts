// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * What the author of a provider uses: `import * as plugin from "./holdfast-runtime/plugin.js"`.
 *
 * The generated stub has a class for each resource; the author derives from it and writes what is interesting:
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
 * Values arrive decoded and validated, and what the author returns is validated as well. What an author throws becomes a
 * failure with a code: `Temporary` may be tried again, `Permanent` may not, `Conflict` says that the resource has another
 * revision, `Partial` that a resource was created but not finished.
 */

export { log } from "./failures.js";
export { type Address, type Duration, type Moment, type Path, address, duration, moment, path } from "./forms.js";
export type { Json } from "./json.js";
export { serve } from "./server.js";
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
} from "./stub.js";
export { Secret, UNKNOWN, type Violation } from "./values.js";
