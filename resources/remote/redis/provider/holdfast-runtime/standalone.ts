// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * A plugin that no agent has started: it listens at a TCP address, for agents whose certificates it demands.
 *
 * It reads its configuration from a file of its own, because several agents may use it.
 */

import { createSecureContext } from "node:tls";
import { parseArgs } from "node:util";

import * as grpc from "@grpc/grpc-js";

import { type Data, parse } from "./json.js";
import { READY } from "./messages.js";
import type { PackageText } from "./schema.js";
import { Service } from "./server.js";
import { type Configure, type Part, Servicer } from "./servicer.js";
import { Permanent } from "./stub.js";
import { readTrusted } from "./trusted.js";

const USAGE = `usage: --listen HOST:PORT --certificate FILE --key FILE --authority FILE [--config FILE]

A plugin of Holdfast, for agents that reach it over the network.

  --listen HOST:PORT  address at which to listen
  --certificate FILE  its certificate (PEM)
  --key FILE          its private key (PEM)
  --authority FILE    certificates that sign those of agents (PEM)
  --config FILE       configuration (JSON)
`;
const TEXT = { type: "string" } as const;
const OPTIONS = { listen: TEXT, certificate: TEXT, key: TEXT, authority: TEXT, config: TEXT };
const REQUIRED = ["listen", "certificate", "key", "authority"] as const;
const ADDRESS = /^(.+):([0-9]{1,5})$/;

type Wanted = { readonly [option in (typeof REQUIRED)[number]]: string } & { readonly config?: string };

/** Serve as the arguments of the process say, until SIGTERM or SIGINT. Rejects with an error in them. */
export async function run(source: PackageText, parts: readonly Part[], configure?: Configure): Promise<void> {
  const words = process.argv.slice(2);
  if (words.length === 0) {
    throw new Permanent("this is a plugin of Holdfast: name it under `plugins` in agent.yaml, and the agent starts it");
  }
  if (words.includes("--help") || words.includes("-h")) {
    process.stdout.write(USAGE);
    return;
  }
  const wanted = wantedOf(words);
  const servicer = new Servicer(source, parts, configure);
  await servicer.configureWith(configuration(wanted.config, servicer.hasSecrets));
  const service = new Service(servicer);
  const port = await listening(service, wanted);
  const ended = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => resolve());
  });
  process.stdout.write(`${READY} at ${wanted.listen.slice(0, wanted.listen.lastIndexOf(":"))}:${port}\n`);
  await ended;
  await service.stop();
  process.exit(0);
}

function wantedOf(words: string[]): Wanted {
  let given: { readonly [option in keyof typeof OPTIONS]?: string };
  try {
    given = parseArgs({ args: words, options: OPTIONS }).values;
  } catch (error) {
    throw new Permanent(`${(error as Error).message}\n${USAGE}`);
  }
  const missing = REQUIRED.filter((each) => given[each] === undefined);
  if (missing.length > 0) throw new Permanent(`required: ${missing.map((each) => `--${each}`).join(", ")}\n${USAGE}`);
  return given as Wanted;
}

/** Listen, and return the port. */
async function listening(service: Service, wanted: Wanted): Promise<number> {
  const [, , port] = ADDRESS.exec(wanted.listen) ?? [];
  if (port === undefined || Number(port) > 65535) {
    throw new Permanent(`cannot listen at ${wanted.listen}: write a host and a port, as in db.example.org:7400`);
  }
  const credentials = credentialsOf(wanted);
  try {
    return await service.listen(wanted.listen, credentials);
  } catch (error) {
    throw new Permanent(`cannot listen at ${wanted.listen}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function credentialsOf(wanted: Wanted): grpc.ServerCredentials {
  const [key, cert] = [readTrusted(wanted.key, true), readTrusted(wanted.certificate)];
  const authority = readTrusted(wanted.authority);
  try {
    createSecureContext({ key, cert, ca: authority }); // gRPC would report errors later, and with less detail
    return grpc.ServerCredentials.createSsl(authority, [{ private_key: key, cert_chain: cert }], true);
  } catch (error) {
    throw new Permanent(`cannot use ${wanted.certificate} with ${wanted.key}: ${(error as Error).message}`);
  }
}

/** Return the data of the file with the configuration. */
function configuration(path: string | undefined, secret: boolean): Data {
  if (path === undefined) return new Map();
  try {
    return parse(new TextDecoder("utf-8", { fatal: true }).decode(readTrusted(path, secret)));
  } catch (error) {
    if (error instanceof Permanent) throw error;
    throw new Permanent(`cannot read ${path}: this is not JSON: ${(error as Error).message}`);
  }
}
