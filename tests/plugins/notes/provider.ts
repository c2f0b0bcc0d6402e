/** The provider of `provider.py` in TypeScript: it keeps notes as files, and misbehaves on the same requests. */

import { existsSync, readFileSync, readdirSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { PACKAGE } from "./holdfast-runtime/package.js";
import * as plugin from "./holdfast-runtime/plugin.js";
import { type Config, type Count, CountFunction, type CountResult } from "./note_stub.js";
import { type Note, type NoteArgs, NoteOperations } from "./note_stub.js";

type Content = [owner: string, lines: string[]];

export class Notes extends NoteOperations {
  directory = "";
  readonly calls: string[] = [];
  private readonly events: plugin.WatchEvent[] = [];
  private wake: () => void = () => undefined;

  override async check(inputs: NoteArgs): Promise<plugin.Violation[]> {
    this.calls.push("check");
    const wrong = { code: "rule", path: "owner", message: "nobody may own a note" };
    return Promise.resolve(inputs.owner === "nobody" ? [wrong] : []);
  }

  override async read(key: plugin.Key, inputs: NoteArgs): Promise<plugin.Found<Note> | undefined> {
    this.calls.push("read");
    const name = key.id || String(inputs.name);
    await misbehave(name, "read", inputs);
    if (!existsSync(join(this.directory, name))) return undefined;
    const [said, deed = ""] = partition(name);
    if (said === "wrong") return wrong(deed, this.found(name));
    return said === "differs" ? { ...this.found(name), differs: [deed] } : this.found(name);
  }

  override async readMany(
    wanted: readonly (readonly [plugin.Key, NoteArgs])[],
    signal: AbortSignal,
  ): Promise<readonly (plugin.Found<Note> | Error | undefined)[]> {
    const failing = wanted.find(([, inputs]) => inputs.name === "many-fails");
    if (failing !== undefined) throw new plugin.Permanent(`login failed with ${failing[1].password?.value}`);
    return await super.readMany(wanted, signal);
  }

  override async create(inputs: NoteArgs): Promise<plugin.Found<Note>> {
    this.calls.push("create");
    const name = String(inputs.name);
    this.write(inputs);
    if (name === "partial") throw new plugin.Partial("the disk was full half-way", this.found(name));
    await misbehave(name, "create", inputs);
    const [said, deed = ""] = partition(name);
    if (said === "part") throw new plugin.Partial("the disk was full", wrong(deed, this.found(name)));
    return said === "made" ? wrong(deed, this.found(name)) : this.found(name);
  }

  override update(found: plugin.Found<Note>, inputs: NoteArgs): Promise<plugin.Found<Note>> {
    this.calls.push("update");
    if (found.revision && found.revision !== this.found(found.id).revision) {
      throw new plugin.Conflict("somebody else has changed the note");
    }
    this.write(inputs);
    return Promise.resolve(this.found(found.id));
  }

  override async delete(found: plugin.Found<Note>): Promise<void> {
    this.calls.push("delete");
    await misbehave(found.id, "delete", {});
    const path = join(this.directory, found.id);
    if (existsSync(path)) unlinkSync(path);
  }

  override refusal(found: plugin.Found<Note>): Promise<string> {
    return Promise.resolve(found.id === "kept" ? "the note is kept for ever" : "");
  }

  override async createOnce(inputs: NoteArgs, intent: string): Promise<plugin.Found<Note>> {
    if (intent) this.calls.push(`intent=${intent}`);
    return await this.create(inputs);
  }

  override async *watch(revision: string, noop: boolean, signal: AbortSignal): AsyncGenerator<plugin.WatchEvent> {
    signal.addEventListener("abort", () => this.wake());
    yield revision === "lost" ? plugin.unwatched("the server is down") : plugin.ARMED;
    if (noop) yield { id: "noop", revision: "" };
    if (revision) yield { id: "", revision };
    while (!signal.aborted) {
      const next = this.events.shift();
      if (next?.revision.startsWith("!") === true) {
        yield plugin.unwatched(next.revision.slice(1), next.id.replaceAll("-", ""));
      } else if (next !== undefined) yield next;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }

  override upgrade(version: number, state: plugin.Json): Promise<plugin.Json> {
    const { name = "", owner = "", text = "" } = state as { [name: string]: string };
    if (version === 9) return Promise.resolve({ name: "web" });
    return Promise.resolve({ name, owner, size: "0", lines: [{ text }] });
  }

  /** Let the watch report this. */
  change(id: string, revision: string): void {
    this.events.push({ id, revision });
    this.wake();
  }

  private write(inputs: NoteArgs): void {
    const lines = (inputs.lines ?? []).map((each) => each.text);
    writeFileSync(join(this.directory, String(inputs.name)), `["${inputs.owner}", ${JSON.stringify(lines)}]`);
  }

  private found(name: string): plugin.Found<Note> {
    const path = join(this.directory, name);
    const [owner, lines] = JSON.parse(readFileSync(path, "utf-8")) as Content;
    const { size, mtimeNs } = statSync(path, { bigint: true });
    return { id: name, state: { name, owner, lines: lines.map((text) => ({ text })), size }, revision: `${mtimeNs}` };
  }
}

function partition(name: string): string[] {
  const at = name.indexOf("-");
  return at < 0 ? [name] : [name.slice(0, at), name.slice(at + 1)];
}

/** Return something else than what was found, as an author who ignores the types may do. */
function wrong(deed: string, found: plugin.Found<Note>): plugin.Found<Note> {
  const state: { [name: string]: unknown } = { ...found.state };
  if (deed === "nothing") return "web" as unknown as plugin.Found<Note>;
  if (deed === "size") state["size"] = "many";
  if (deed === "missing") delete state["size"];
  if (deed === "lines") state["lines"] = 5;
  return { ...found, id: deed === "id" ? "" : found.id, state: state as unknown as Note };
}

/** Do what the name of a note says: `read-hangs`, `create-crashes`, ... */
async function misbehave(name: string, when: string, inputs: Partial<NoteArgs>): Promise<void> {
  const [said, deed] = partition(name);
  if (said !== when) return;
  if (deed === "hangs") await new Promise(() => undefined);
  if (deed === "crashes") process.exit(3);
  if (deed === "floods") process.stderr.write(`${"x".repeat(1 << 20)}\n`);
  if (deed === "raises") throw new RangeError(`no such thing as ${inputs.password?.value}`);
  if (deed === "fails") throw new plugin.Permanent("the note is locked for ever");
  if (deed === "waits") throw new plugin.Temporary("the note is locked");
}

export class Counting extends CountFunction {
  constructor(private readonly notes: Notes) {
    super();
  }

  override call(args: Count): Promise<CountResult> {
    const [said, id = "", revision = ""] = args.owner.split(" ");
    if (said === "calls") return Promise.resolve({ total: 0n, largest: this.notes.calls.join(" ") });
    if (said === "event") this.notes.change(id, revision);
    if (args.owner.startsWith("count-returns-")) return Promise.resolve(returned(args.owner.slice(14)));
    if (args.owner === "nobody") {
      throw new plugin.Permanent(`nobody owns nothing, not even ${args.password?.value}`);
    }
    const owned = readdirSync(this.notes.directory).flatMap((name) => {
      const text = readFileSync(join(this.notes.directory, name), "utf-8");
      return (JSON.parse(text) as Content)[0] === args.owner ? [{ name, size: text.length }] : [];
    });
    const largest = owned.sort((first, second) => second.size - first.size)[0]?.name;
    return Promise.resolve({ total: BigInt(owned.length), largest });
  }
}

function returned(deed: string): CountResult {
  return { nothing: {}, text: { total: "five" } }[deed] as unknown as CountResult;
}

if (process.argv[1]?.endsWith("provider.js")) {
  const notes = new Notes();
  const parts = process.env["NOTES_WITHOUT_FUNCTION"] ? [notes] : [notes, new Counting(notes)];
  plugin.serve(PACKAGE, parts, (config: Config) => {
    notes.directory = config.directory;
  });
}
