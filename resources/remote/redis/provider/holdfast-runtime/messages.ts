// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/**
 * The messages and methods of the protocol. `scripts/reference` writes this file from provider.proto.
 *
 * A message that has been received has all of its members; one that is sent may leave out those with their default.
 */

import type { Messages } from "./protobuf.js";

export const OLDEST = 1;

export const NEWEST = 1;

export const SERVICE = "holdfast.plugin.v1.Provider";

export const SECRET = "holdfast-secret";

export const START = "holdfast-start";

export const READY = "holdfast-plugin ready";

export interface Violation {
  code: string;
  path: string;
  message: string;
}

export interface Failure {
  code: string;
  message: string;
}

export interface Subject {
  token: string;
  id: string;
  version: number;
  trace: string;
  intent: string;
}

export interface HandshakeRequest {
  oldest: number;
  newest: number;
  package: string;
  schema_digest: string;
  capabilities: string[];
}

export interface HandshakeResponse {
  protocol: number;
  package: string;
  version: string;
  schema_digest: string;
  capabilities: string[];
  failure: Failure;
  start: string;
}

export interface GetSchemaRequest {}

export interface GetSchemaResponse {
  schema: Uint8Array;
}

export interface ConfigRequest {
  config: Uint8Array;
}

export interface ConfigResponse {
  violations: Violation[];
  failure: Failure;
}

export interface CheckRequest {
  subject: Subject;
  old_inputs: Uint8Array;
  inputs: Uint8Array;
}

export interface CheckResponse {
  inputs: Uint8Array;
  violations: Violation[];
  failure: Failure;
}

export interface DiffRequest {
  subject: Subject;
  state: Uint8Array;
  inputs: Uint8Array;
  differs: string[];
}

export interface Difference {
  path: string;
  kind: string;
  replaces: boolean;
}

export interface DiffResponse {
  differences: Difference[];
  delete_first: boolean;
  violations: Violation[];
  failure: Failure;
}

export interface ReadItem {
  subject: Subject;
  inputs: Uint8Array;
}

export interface ReadRequest {
  items: ReadItem[];
}

export interface ReadResult {
  exists: boolean;
  id: string;
  state: Uint8Array;
  revision: string;
  violations: Violation[];
  failure: Failure;
  differs: string[];
}

export interface ReadResponse {
  results: ReadResult[];
  failure: Failure;
}

export interface CreateRequest {
  subject: Subject;
  inputs: Uint8Array;
  dry_run: boolean;
  timeout_ms: number;
}

export interface UpdateRequest {
  subject: Subject;
  state: Uint8Array;
  inputs: Uint8Array;
  dry_run: boolean;
  timeout_ms: number;
  expected_revision: string;
}

export interface DeleteRequest {
  subject: Subject;
  state: Uint8Array;
  dry_run: boolean;
  timeout_ms: number;
  expected_revision: string;
}

export interface ChangeResponse {
  id: string;
  state: Uint8Array;
  revision: string;
  partial: boolean;
  violations: Violation[];
  failure: Failure;
}

export interface WatchRequest {
  tokens: string[];
  revision: string;
  noop: boolean;
}

export interface WatchEvent {
  armed: boolean;
  relist: boolean;
  token: string;
  id: string;
  revision: string;
  unwatched: string;
}

export interface InvokeRequest {
  function: string;
  arguments: Uint8Array;
  timeout_ms: number;
}

export interface InvokeResponse {
  result: Uint8Array;
  violations: Violation[];
  failure: Failure;
}

export interface CancelRequest {}

export interface CancelResponse {}

export interface HealthRequest {}

export interface HealthResponse {
  serving: boolean;
  message: string;
}

export interface UpgradeStateRequest {
  subject: Subject;
  state: Uint8Array;
}

export interface UpgradeStateResponse {
  state: Uint8Array;
  failure: Failure;
}

export const MESSAGES: Messages = {
  Violation: [
    { number: 1, name: "code", type: "string", repeated: false },
    { number: 2, name: "path", type: "string", repeated: false },
    { number: 3, name: "message", type: "string", repeated: false },
  ],
  Failure: [
    { number: 1, name: "code", type: "string", repeated: false },
    { number: 2, name: "message", type: "string", repeated: false },
  ],
  Subject: [
    { number: 1, name: "token", type: "string", repeated: false },
    { number: 2, name: "id", type: "string", repeated: false },
    { number: 3, name: "version", type: "int64", repeated: false },
    { number: 4, name: "trace", type: "string", repeated: false },
    { number: 5, name: "intent", type: "string", repeated: false },
  ],
  HandshakeRequest: [
    { number: 1, name: "oldest", type: "int64", repeated: false },
    { number: 2, name: "newest", type: "int64", repeated: false },
    { number: 3, name: "package", type: "string", repeated: false },
    { number: 4, name: "schema_digest", type: "string", repeated: false },
    { number: 5, name: "capabilities", type: "string", repeated: true },
  ],
  HandshakeResponse: [
    { number: 1, name: "protocol", type: "int64", repeated: false },
    { number: 2, name: "package", type: "string", repeated: false },
    { number: 3, name: "version", type: "string", repeated: false },
    { number: 4, name: "schema_digest", type: "string", repeated: false },
    { number: 5, name: "capabilities", type: "string", repeated: true },
    { number: 6, name: "failure", type: "Failure", repeated: false },
    { number: 7, name: "start", type: "string", repeated: false },
  ],
  GetSchemaRequest: [
  ],
  GetSchemaResponse: [
    { number: 1, name: "schema", type: "bytes", repeated: false },
  ],
  ConfigRequest: [
    { number: 1, name: "config", type: "bytes", repeated: false },
  ],
  ConfigResponse: [
    { number: 1, name: "violations", type: "Violation", repeated: true },
    { number: 2, name: "failure", type: "Failure", repeated: false },
  ],
  CheckRequest: [
    { number: 1, name: "subject", type: "Subject", repeated: false },
    { number: 2, name: "old_inputs", type: "bytes", repeated: false },
    { number: 3, name: "inputs", type: "bytes", repeated: false },
  ],
  CheckResponse: [
    { number: 1, name: "inputs", type: "bytes", repeated: false },
    { number: 2, name: "violations", type: "Violation", repeated: true },
    { number: 3, name: "failure", type: "Failure", repeated: false },
  ],
  DiffRequest: [
    { number: 1, name: "subject", type: "Subject", repeated: false },
    { number: 2, name: "state", type: "bytes", repeated: false },
    { number: 3, name: "inputs", type: "bytes", repeated: false },
    { number: 4, name: "differs", type: "string", repeated: true },
  ],
  Difference: [
    { number: 1, name: "path", type: "string", repeated: false },
    { number: 2, name: "kind", type: "string", repeated: false },
    { number: 3, name: "replaces", type: "bool", repeated: false },
  ],
  DiffResponse: [
    { number: 1, name: "differences", type: "Difference", repeated: true },
    { number: 2, name: "delete_first", type: "bool", repeated: false },
    { number: 3, name: "violations", type: "Violation", repeated: true },
    { number: 4, name: "failure", type: "Failure", repeated: false },
  ],
  ReadItem: [
    { number: 1, name: "subject", type: "Subject", repeated: false },
    { number: 2, name: "inputs", type: "bytes", repeated: false },
  ],
  ReadRequest: [
    { number: 1, name: "items", type: "ReadItem", repeated: true },
  ],
  ReadResult: [
    { number: 1, name: "exists", type: "bool", repeated: false },
    { number: 2, name: "id", type: "string", repeated: false },
    { number: 3, name: "state", type: "bytes", repeated: false },
    { number: 4, name: "revision", type: "string", repeated: false },
    { number: 5, name: "violations", type: "Violation", repeated: true },
    { number: 6, name: "failure", type: "Failure", repeated: false },
    { number: 7, name: "differs", type: "string", repeated: true },
  ],
  ReadResponse: [
    { number: 1, name: "results", type: "ReadResult", repeated: true },
    { number: 2, name: "failure", type: "Failure", repeated: false },
  ],
  CreateRequest: [
    { number: 1, name: "subject", type: "Subject", repeated: false },
    { number: 2, name: "inputs", type: "bytes", repeated: false },
    { number: 3, name: "dry_run", type: "bool", repeated: false },
    { number: 4, name: "timeout_ms", type: "int64", repeated: false },
  ],
  UpdateRequest: [
    { number: 1, name: "subject", type: "Subject", repeated: false },
    { number: 2, name: "state", type: "bytes", repeated: false },
    { number: 3, name: "inputs", type: "bytes", repeated: false },
    { number: 4, name: "dry_run", type: "bool", repeated: false },
    { number: 5, name: "timeout_ms", type: "int64", repeated: false },
    { number: 6, name: "expected_revision", type: "string", repeated: false },
  ],
  DeleteRequest: [
    { number: 1, name: "subject", type: "Subject", repeated: false },
    { number: 2, name: "state", type: "bytes", repeated: false },
    { number: 3, name: "dry_run", type: "bool", repeated: false },
    { number: 4, name: "timeout_ms", type: "int64", repeated: false },
    { number: 5, name: "expected_revision", type: "string", repeated: false },
  ],
  ChangeResponse: [
    { number: 1, name: "id", type: "string", repeated: false },
    { number: 2, name: "state", type: "bytes", repeated: false },
    { number: 3, name: "revision", type: "string", repeated: false },
    { number: 4, name: "partial", type: "bool", repeated: false },
    { number: 5, name: "violations", type: "Violation", repeated: true },
    { number: 6, name: "failure", type: "Failure", repeated: false },
  ],
  WatchRequest: [
    { number: 1, name: "tokens", type: "string", repeated: true },
    { number: 2, name: "revision", type: "string", repeated: false },
    { number: 3, name: "noop", type: "bool", repeated: false },
  ],
  WatchEvent: [
    { number: 1, name: "armed", type: "bool", repeated: false },
    { number: 2, name: "relist", type: "bool", repeated: false },
    { number: 3, name: "token", type: "string", repeated: false },
    { number: 4, name: "id", type: "string", repeated: false },
    { number: 5, name: "revision", type: "string", repeated: false },
    { number: 6, name: "unwatched", type: "string", repeated: false },
  ],
  InvokeRequest: [
    { number: 1, name: "function", type: "string", repeated: false },
    { number: 2, name: "arguments", type: "bytes", repeated: false },
    { number: 3, name: "timeout_ms", type: "int64", repeated: false },
  ],
  InvokeResponse: [
    { number: 1, name: "result", type: "bytes", repeated: false },
    { number: 2, name: "violations", type: "Violation", repeated: true },
    { number: 3, name: "failure", type: "Failure", repeated: false },
  ],
  CancelRequest: [
  ],
  CancelResponse: [
  ],
  HealthRequest: [
  ],
  HealthResponse: [
    { number: 1, name: "serving", type: "bool", repeated: false },
    { number: 2, name: "message", type: "string", repeated: false },
  ],
  UpgradeStateRequest: [
    { number: 1, name: "subject", type: "Subject", repeated: false },
    { number: 2, name: "state", type: "bytes", repeated: false },
  ],
  UpgradeStateResponse: [
    { number: 1, name: "state", type: "bytes", repeated: false },
    { number: 2, name: "failure", type: "Failure", repeated: false },
  ],
};

export interface Requests {
  Handshake: HandshakeRequest;
  GetSchema: GetSchemaRequest;
  CheckConfig: ConfigRequest;
  Configure: ConfigRequest;
  Check: CheckRequest;
  Diff: DiffRequest;
  Read: ReadRequest;
  Create: CreateRequest;
  Update: UpdateRequest;
  Delete: DeleteRequest;
  Watch: WatchRequest;
  Invoke: InvokeRequest;
  Cancel: CancelRequest;
  Health: HealthRequest;
  UpgradeState: UpgradeStateRequest;
}

export interface Responses {
  Handshake: HandshakeResponse;
  GetSchema: GetSchemaResponse;
  CheckConfig: ConfigResponse;
  Configure: ConfigResponse;
  Check: CheckResponse;
  Diff: DiffResponse;
  Read: ReadResponse;
  Create: ChangeResponse;
  Update: ChangeResponse;
  Delete: ChangeResponse;
  Watch: WatchEvent;
  Invoke: InvokeResponse;
  Cancel: CancelResponse;
  Health: HealthResponse;
  UpgradeState: UpgradeStateResponse;
}

export type Method = keyof Requests;

export interface MethodOf {
  readonly request: string;
  readonly response: string;
  readonly streams: boolean;
}

export const METHODS: {
  readonly [M in Method]: MethodOf;
} = {
  Handshake: { request: "HandshakeRequest", response: "HandshakeResponse", streams: false },
  GetSchema: { request: "GetSchemaRequest", response: "GetSchemaResponse", streams: false },
  CheckConfig: { request: "ConfigRequest", response: "ConfigResponse", streams: false },
  Configure: { request: "ConfigRequest", response: "ConfigResponse", streams: false },
  Check: { request: "CheckRequest", response: "CheckResponse", streams: false },
  Diff: { request: "DiffRequest", response: "DiffResponse", streams: false },
  Read: { request: "ReadRequest", response: "ReadResponse", streams: false },
  Create: { request: "CreateRequest", response: "ChangeResponse", streams: false },
  Update: { request: "UpdateRequest", response: "ChangeResponse", streams: false },
  Delete: { request: "DeleteRequest", response: "ChangeResponse", streams: false },
  Watch: { request: "WatchRequest", response: "WatchEvent", streams: true },
  Invoke: { request: "InvokeRequest", response: "InvokeResponse", streams: false },
  Cancel: { request: "CancelRequest", response: "CancelResponse", streams: false },
  Health: { request: "HealthRequest", response: "HealthResponse", streams: false },
  UpgradeState: { request: "UpgradeStateRequest", response: "UpgradeStateResponse", streams: false },
};
