/**
 * How calls end before their time: a promise cannot be cancelled, so its caller stops waiting, and tells it by a
 * signal.
 */

import { TimeOver } from "./failures.js";

/** Return the result of work; its signal is aborted, and the reason thrown, when `milliseconds` (0: any) are over. */
export async function within<T>(
  milliseconds: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const inner = new AbortController();
  const forward = (): void => inner.abort(signal.reason);
  const timer = milliseconds > 0 ? setTimeout(() => inner.abort(new TimeOver()), milliseconds) : undefined;
  signal.addEventListener("abort", forward);
  if (signal.aborted) forward();
  try {
    return await untilAborted(inner.signal, work(inner.signal));
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", forward);
  }
}

/** Return the result of a promise. Throws the reason of the signal as soon as that is aborted. */
export async function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
