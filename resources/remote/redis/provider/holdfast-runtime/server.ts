// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * The process of a plugin: a gRPC server on a unix socket, which only the agent that has started it can use.
 *
 * The agent gives the path of the socket as the only argument, in a directory that belongs to the plugin's user (0700),
 * and the secret of this start through the descriptor that `HOLDFAST_PLUGIN_SECRET` names. The process writes `READY`
 * to standard output once it listens, and ends when its standard input does: no plugin outlives its agent.
 */

import { timingSafeEqual } from "node:crypto";
import { closeSync, readFileSync } from "node:fs";

import * as grpc from "@grpc/grpc-js";

import { logFailure } from "./failures.js";
import { MESSAGES, METHODS, type Method, READY, type Requests, SECRET, SERVICE, START } from "./messages.js";
import { decode, encode } from "./protobuf.js";
import type { PackageText } from "./schema.js";
import { type Configure, type Part, Servicer } from "./servicer.js";

const SECRET_VARIABLE = "HOLDFAST_PLUGIN_SECRET";
/** Greatest size of a message, in bytes. */
const LARGEST = 64 * 1024 * 1024;
/** Milliseconds within which calls must end when the process is to end. */
const GRACE = 2000;

/** Return whether the agent has started this process. */
export function startedByAgent(): boolean {
  return process.argv.length === 3 && process.env[SECRET_VARIABLE] !== undefined;
}

/** Serve until standard input ends, or SIGTERM. Rejects with the reason why it cannot serve. */
export async function run(source: PackageText, parts: readonly Part[], configure?: Configure): Promise<void> {
  const secret = secretOf(Number(process.env[SECRET_VARIABLE]));
  const service = new Service(new Servicer(source, parts, configure), secret);
  process.umask(0o077);
  await service.listen(`unix:${process.argv[2]}`, grpc.ServerCredentials.createInsecure());
  process.stdout.write(`${READY}\n`);
  await endOfAgent();
  await service.stop();
  process.exit(0);
}

/** Return the secret of this start, which no child of the process can read. */
function secretOf(descriptor: number): string {
  delete process.env[SECRET_VARIABLE];
  const secret = readFileSync(descriptor, "utf-8").trim();
  closeSync(descriptor);
  if (secret === "") throw new Error("the agent has sent no secret");
  return secret;
}

/** Return when standard input ends, or at SIGTERM. */
function endOfAgent(): Promise<void> {
  return new Promise((resolve) => {
    process.once("SIGTERM", () => resolve());
    for (const event of ["end", "close", "error"]) process.stdin.once(event, () => resolve());
    process.stdin.resume();
  });
}

type Unary = grpc.ServerUnaryCall<Buffer, object>;
type Streaming = grpc.ServerWritableStream<Buffer, object>;

/**
 * The methods of the service. A call without the secret is refused before its request is read.
 *
 * Without a secret, certificates identify the caller; such a caller may not set the configuration.
 */
export class Service {
  private readonly server = new grpc.Server({
    "grpc.max_receive_message_length": LARGEST,
    "grpc.max_send_message_length": LARGEST,
  });
  private readonly secret: Buffer | undefined;
  private readonly ended = new AbortController();

  constructor(
    private readonly servicer: Servicer,
    secret?: string,
  ) {
    this.secret = secret === undefined ? undefined : Buffer.from(secret);
    const definition: Record<string, grpc.MethodDefinition<Buffer, object>> = {};
    const implementation: grpc.UntypedServiceImplementation = {};
    for (const name of Object.keys(METHODS) as Method[]) {
      definition[name] = methodOf(name);
      implementation[name] = name === "Watch" ? this.watch.bind(this) : this.unary(name);
    }
    this.server.addService(definition, implementation);
  }

  /** Listen at an address, and return its port. */
  listen(address: string, credentials: grpc.ServerCredentials): Promise<number> {
    grpc.setLogVerbosity(grpc.logVerbosity.NONE); // gRPC would write lines of another form
    return new Promise((resolve, reject) => {
      this.server.bindAsync(address, credentials, (error, port) => (error === null ? resolve(port) : reject(error)));
    });
  }

  /** End all watches, and the calls that do not end in time. */
  stop(): Promise<void> {
    this.ended.abort();
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.server.forceShutdown();
        resolve();
      }, GRACE);
      this.server.tryShutdown(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  private unary(method: Exclude<Method, "Watch">): grpc.handleUnaryCall<Buffer, object> {
    return (call: Unary, respond: grpc.sendUnaryData<object>): void => {
      const refusal = this.refusal(method, call.metadata);
      if (refusal !== undefined) {
        respond(refusal);
        return;
      }
      const caller = new AbortController();
      call.on("cancelled", () => caller.abort());
      this.answer(method, call.request, caller.signal).then(
        (response) => respond(null, response),
        (error: unknown) => respond({ code: grpc.status.INTERNAL, details: String(error) }),
      );
    };
  }

  private async answer<M extends Exclude<Method, "Watch">>(
    method: M,
    request: Uint8Array,
    caller: AbortSignal,
  ): Promise<object> {
    return await this.servicer.answer(method, received(method, request), caller);
  }

  private watch(call: Streaming): void {
    const refusal = this.refusal("Watch", call.metadata);
    if (refusal !== undefined) {
      call.emit("error", refusal);
      return;
    }
    const caller = new AbortController();
    const leave = (): void => caller.abort();
    call.on("cancelled", leave);
    this.ended.signal.addEventListener("abort", leave);
    const { tokens, revision, noop } = received("Watch", call.request);
    this.servicer
      .watch(tokens, revision, noop, caller.signal, (event) => written(call, event))
      .then(
        () => call.end(),
        (error: unknown) => {
          logFailure("Watch", error);
          const told = error instanceof Error ? error.message || error.name : String(error);
          call.emit("error", { code: grpc.status.ABORTED, details: this.servicer.masked(told) });
        },
      )
      .finally(() => this.ended.signal.removeEventListener("abort", leave));
  }

  /** Return why a call is refused; undefined if it is not. */
  private refusal(method: Method, metadata: grpc.Metadata): typeof STRANGER | undefined {
    if (this.secret !== undefined) {
      const given = Buffer.from(String(metadata.get(SECRET)[0] ?? ""));
      if (given.length !== this.secret.length || !timingSafeEqual(given, this.secret)) return STRANGER;
    } else if (method === "Configure" || method === "Cancel") return DENIED;
    const [start = this.servicer.start] = metadata.get(START);
    return start === this.servicer.start ? undefined : STARTED_ANEW;
  }
}

const STRANGER = { code: grpc.status.UNAUTHENTICATED, details: "the call does not carry the secret of this start" };
const DENIED = {
  code: grpc.status.PERMISSION_DENIED,
  details: "the plugin has its configuration from where it was started, and Cancel would end the calls of other agents",
};
const STARTED_ANEW = {
  code: grpc.status.FAILED_PRECONDITION,
  details: "the plugin was restarted: shake hands again",
};

function methodOf(name: Method): grpc.MethodDefinition<Buffer, object> {
  const { response, streams } = METHODS[name];
  return {
    path: `/${SERVICE}/${name}`,
    requestStream: false,
    responseStream: streams,
    requestSerialize: (request) => request,
    requestDeserialize: (bytes) => bytes,
    responseSerialize: (value) => Buffer.from(encode(MESSAGES, response, value)),
    responseDeserialize: (bytes) => decode(MESSAGES, response, bytes),
  };
}

function received<M extends Method>(method: M, request: Uint8Array): Requests[M] {
  return decode(MESSAGES, METHODS[method].request, request) as unknown as Requests[M];
}

/** Write an event. Waits while the agent does not read. */
export function written(call: Pick<Streaming, "write" | "on" | "off">, event: object): Promise<void> {
  if (call.write(event)) return Promise.resolve();
  const ends = ["drain", "cancelled", "close"];
  return new Promise((resolve) => {
    const end = (): void => {
      for (const each of ends) call.off(each, end);
      resolve();
    };
    for (const each of ends) call.on(each, end);
  });
}
