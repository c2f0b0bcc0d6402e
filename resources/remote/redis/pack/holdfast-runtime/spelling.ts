// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Suggestions for mistyped words. */

/** Least similarity of a word that a message suggests: twice the common letters, divided by all letters. */
const SIMILAR = 0.6;

/** Return the known word that is most similar to a mistyped one; undefined if none is similar enough. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const rated = words.map((each) => ({ each, rate: similarity(word, each) })).filter(({ rate }) => rate >= SIMILAR);
  return rated.sort((first, second) => second.rate - first.rate)[0]?.each;
}

function similarity(first: string, second: string): number {
  return first.length > 200 ? 0 : (2 * common(first, second)) / (first.length + second.length || 1);
}

/** Return the greatest number of letters that two words have in the same order. */
function common(first: string, second: string): number {
  let before = Array<number>(second.length + 1).fill(0);
  for (const letter of first) {
    const row = [0];
    for (let at = 0; at < second.length; at += 1) {
      row.push(letter === second[at] ? (before[at] ?? 0) + 1 : Math.max(row[at] ?? 0, before[at + 1] ?? 0));
    }
    before = row;
  }
  return before[second.length] ?? 0;
}
