/** `plugin.Trial`, with which authors test their providers, behaves as the agent does: see `test_trial.py`. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { PACKAGE } from "./holdfast-runtime/package.js";
import * as plugin from "./holdfast-runtime/plugin.js";
import type { Config, Note, NoteArgs } from "./note_stub.js";
import { Counting, Notes } from "./provider.js";

let directory: string;
let notes: Notes;
let trial: plugin.Trial;
let calls: plugin.KindTrial<NoteArgs, Note>;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "trial-"));
  notes = new Notes();
  trial = new plugin.Trial(PACKAGE, [notes, new Counting(notes)], (config: Config) => {
    notes.directory = config.directory;
  });
  await trial.configure({ directory });
  calls = trial.of(notes);
});

afterEach(() => rmSync(directory, { recursive: true }));

/** Return what a promise throws, which must be of this class. */
async function thrown<E extends Error>(work: Promise<unknown>, type: abstract new (...args: never[]) => E): Promise<E> {
  const error = await work.then(
    () => assert.fail("nothing was thrown"),
    (each: unknown) => each,
  );
  assert.ok(error instanceof type, `${String(error)} is no ${type.name}`);
  return error;
}

test("a resource is created, read, changed and deleted", async () => {
  const made = await calls.create({ name: "a", owner: "me", lines: [{ text: "x" }] });
  const changed = await calls.update(made, { name: "a", owner: "me" });

  assert.deepEqual(made.state.lines, [{ text: "x" }]);
  assert.deepEqual((await calls.read({ name: "a", owner: "me" }))?.state, changed.state);
  await calls.delete(changed);
  assert.equal(await calls.read({ owner: "me" }, "a"), undefined);
});

test("a read names the write-only fields that differ", async () => {
  await calls.create({ name: "differs-password", owner: "me" });
  const password = new plugin.Secret("hunter2");

  assert.deepEqual((await calls.read({ name: "differs-password", owner: "me", password }))?.differs, ["password"]);
});

test("inputs are checked and completed; wrong values have all their violations", async () => {
  const checked = await calls.check({ owner: "me" });
  const many = { name: "", owner: "me", lines: [{ text: "x", number: "5x" as unknown as bigint }] };
  const error = await thrown(calls.check(many), plugin.Invalid);

  assert.ok(checked.name?.startsWith("note-"));
  assert.deepEqual(checked.lines, []);
  assert.deepEqual(
    error.violations.map((each) => each.path),
    ["name", "lines[0].number"],
  );
  assert.match((await thrown(calls.check({ owner: "nobody" }), plugin.Invalid)).message, /nobody may own a note/);
});

test("failures are thrown as the provider has thrown them; a defect is permanent", async () => {
  const create = (name: string): Promise<unknown> => calls.create({ name, owner: "me" });

  assert.match((await thrown(create("create-waits"), plugin.Temporary)).message, /the note is locked/);
  assert.match((await thrown(create("create-fails"), plugin.Permanent)).message, /locked for ever/);
  assert.match((await thrown(create("create-raises"), plugin.Permanent)).message, /RangeError/);
  assert.equal(((await thrown(create("partial"), plugin.Partial)) as plugin.Partial<Note>).found.id, "partial");
});

test("a conflict is thrown: the note has another revision than the one that is known", async () => {
  const made = await calls.create({ name: "a", owner: "me" });
  const stale = { ...made, revision: "1" };

  assert.match((await thrown(calls.update(stale, { name: "a", owner: "me" }), plugin.Conflict)).message, /changed/);
});

test("a wrong configuration is refused with its violations", async () => {
  const refused = await thrown(trial.configure({ directory: "notes" }), plugin.Invalid);

  assert.match(refused.message, /directory: it must be an absolute path/);
});

test("events are identifiers, and a watch that nobody reads any more ends", async () => {
  const events = calls.watch();
  assert.equal((await events.next()).value, "");
  notes.change("a", "1");
  assert.equal((await events.next()).value, "a");
  await events.return(undefined);
  assert.equal((await events.next()).done, true);
});

test("a watch that fails throws what the provider throws", async () => {
  notes.watch = async function* (): AsyncGenerator<plugin.WatchEvent> {
    yield await Promise.resolve(plugin.ARMED);
    throw new plugin.Temporary("the connection is lost");
  };
  const events = calls.watch();
  assert.equal((await events.next()).value, "");
  assert.match((await thrown(events.next(), plugin.Temporary)).message, /the connection is lost/);
});
