/** The keys that the agent has asked for: only their changes are reported. */

/** Number of keys up to which none is forgotten. */
const FEW = 10_000;
/** Milliseconds within which the agent reads all watched keys after a report that changes may have been missed. */
const GRACE = 600_000;

/**
 * Ids of keys. The agent does not say which keys have left its states, so the number of ids would only grow. When there
 * are many, each watch reports that changes may have been missed, and the agent reads all keys that it watches. Ids
 * that were not read again are forgotten after some time.
 */
export class KnownKeys {
  private ids = new Set<string>();
  /** Ids that were not read since the last review began. */
  private unread = new Set<string>();
  private review: NodeJS.Timeout | undefined;
  private most: number;
  private readonly watches = new Set<() => void>();

  constructor(
    private readonly few = FEW,
    private readonly grace = GRACE,
  ) {
    this.most = few;
  }

  get size(): number {
    return this.ids.size + this.unread.size;
  }

  has(id: string): boolean {
    return this.ids.has(id) || this.unread.has(id);
  }

  add(id: string): void {
    this.unread.delete(id);
    this.ids.add(id);
    if (this.ids.size > this.most && this.review === undefined) this.begin();
  }

  /** Call `missed` whenever all keys have to be read; return a function that ends this. */
  watched(missed: () => void): () => void {
    this.watches.add(missed);
    return () => void this.watches.delete(missed);
  }

  private begin(): void {
    [this.unread, this.ids] = [this.ids, new Set()];
    this.review = setTimeout(() => this.end(), this.grace).unref();
    for (const missed of this.watches) missed();
  }

  private end(): void {
    this.unread.clear();
    this.review = undefined;
    this.most = Math.max(this.few, 2 * this.ids.size);
  }
}
