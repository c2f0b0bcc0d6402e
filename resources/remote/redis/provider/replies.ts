/** The replies of a Redis server (RESP, version 3), parsed as they arrive. */

/** An error with which the server has answered a command. */
export class ReplyError extends Error {}

/** What the server sends without being asked, such as an event. */
export class Push {
  constructor(readonly items: readonly Reply[]) {}
}

export type Reply =
  null | boolean | number | string | ReplyError | Push | readonly Reply[] | ReadonlyMap<string, Reply>;

const MORE: unique symbol = Symbol("more bytes are needed");
/** Greatest length of a line, and greatest depth of nested lists. A server that exceeds them is not a Redis server. */
const [LONGEST, DEEPEST] = [1 << 20, 20];

/** Parses a stream of replies. */
export class ReplyParser {
  private parts: Buffer[] = [];
  private length = 0;
  private readonly replies = this.all();

  /** Return the replies that these bytes complete. Throws `Error` if they are not replies. */
  feed(chunk: Buffer): Reply[] {
    this.parts.push(chunk);
    this.length += chunk.length;
    const found: Reply[] = [];
    for (;;) {
      const { value } = this.replies.next();
      if (value === MORE) return found;
      found.push(value as Reply);
    }
  }

  private *all(): Generator<Reply | typeof MORE, never> {
    for (;;) yield yield* this.reply(0);
  }

  private *reply(depth: number): Generator<typeof MORE, Reply> {
    const line = yield* this.line();
    const rest = line.slice(1);
    if (depth > DEEPEST) throw new Error("the server sends lists that are nested too deeply");
    switch (line[0]) {
      case "+":
        return rest;
      case "-":
        return new ReplyError(rest);
      case ":":
      case "(":
      case ",":
        return numberOf(rest);
      case "_":
        return null;
      case "#":
        return rest === "t";
      case "$":
      case "=":
      case "!":
        return yield* this.text(line);
      default:
        return yield* this.list(line, depth);
    }
  }

  private *text(line: string): Generator<typeof MORE, Reply> {
    const length = lengthOf(line);
    if (length < 0) return null;
    const text = (yield* this.take(length + 2)).toString("utf-8", 0, length);
    if (line[0] === "!") return new ReplyError(text);
    return line[0] === "=" ? text.slice(4) : text;
  }

  private *list(line: string, depth: number): Generator<typeof MORE, Reply> {
    const pairs = line[0] === "%" || line[0] === "|";
    if (!pairs && !["*", "~", ">"].includes(line[0] ?? ""))
      throw new Error("the server sends something else than RESP");
    const length = lengthOf(line) * (pairs ? 2 : 1);
    if (length < 0) return null;
    const items: Reply[] = [];
    while (items.length < length) items.push(yield* this.reply(depth + 1));
    if (line[0] === "|") return yield* this.reply(depth); // attributes of the reply that follows
    if (!pairs) return line[0] === ">" ? new Push(items) : items;
    return new Map(items.flatMap((key, at) => (at % 2 === 0 ? [[String(key), items[at + 1] ?? null]] : [])));
  }

  private *line(): Generator<typeof MORE, string> {
    for (let known = 0; ; ) {
      const end = this.whole().indexOf("\r\n", Math.max(0, known - 1));
      if (end >= 0) return (yield* this.take(end + 2)).toString("utf-8", 0, end);
      known = this.length;
      if (known > LONGEST) throw new Error("the server sends something else than RESP");
      yield MORE;
    }
  }

  private *take(length: number): Generator<typeof MORE, Buffer> {
    while (this.length < length) yield MORE;
    const whole = this.whole();
    this.parts = [whole.subarray(length)];
    this.length -= length;
    return whole.subarray(0, length);
  }

  private whole(): Buffer {
    const whole = this.parts.length === 1 ? (this.parts[0] as Buffer) : Buffer.concat(this.parts);
    this.parts = [whole];
    return whole;
  }
}

function lengthOf(line: string): number {
  const length = Number(line.slice(1));
  if (!Number.isSafeInteger(length)) throw new Error("the server sends something else than RESP");
  return length;
}

function numberOf(text: string): number {
  return text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text);
}

/** Return the bytes of a command. */
export function command(words: readonly string[]): Buffer {
  const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return Buffer.from(`*${words.length}\r\n${parts.join("")}`);
}
