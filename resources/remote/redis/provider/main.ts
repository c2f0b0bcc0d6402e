/** The provider of the package redis, which the agent starts. */

import type { Access } from "./access_stub.js";
import { PACKAGE } from "./holdfast-runtime/package.js";
import * as plugin from "./holdfast-runtime/plugin.js";
import { Keys } from "./keys.js";
import { KeyspaceWatch } from "./keyspace.js";
import { Parameters } from "./parameters.js";
import { Server } from "./server.js";
import { Users } from "./users.js";

let server: Server | undefined;

function configured(): Server {
  if (server === undefined) throw new plugin.Temporary("the provider is not configured yet");
  return server;
}

const keys = new Keys(configured, (known, noop) => new KeyspaceWatch(configured(), known, noop));
const parts = [keys, new Users(configured), new Parameters(configured)];
plugin.serve(PACKAGE, parts, (config: Access) => {
  server = new Server(config);
});
