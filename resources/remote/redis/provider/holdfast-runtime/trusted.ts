// Made by `holdfast idl compile` from the package redis, target typescript. Do not edit it.
/** Reads files that only root and the user of this process could have written. */

import { type Stats, closeSync, constants, fstatSync, openSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

import { Permanent } from "./stub.js";

const WRITABLE = 0o022;
const STICKY = 0o1000;
const EVERYBODY_READS = 0o004;

/**
 * Return the content of a file. Throws `Permanent` if it cannot be read, or if others could have written it or put it
 * there. `secret`: so it does if everybody can read it.
 */
export function readTrusted(path: string, secret = false): Buffer {
  try {
    const real = realpathSync(path);
    for (const folder of new Set([...foldersOf(resolve(path)), ...foldersOf(real)])) demand(folder, statSync(folder));
    return readOpen(path, real, secret);
  } catch (error) {
    if (error instanceof Permanent) throw error;
    throw new Permanent(`cannot read ${path}: ${said(error)}`);
  }
}

function readOpen(path: string, real: string, secret: boolean): Buffer {
  const descriptor = openSync(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const info = fstatSync(descriptor);
    if (!info.isFile()) throw new Permanent(`cannot read ${path}: it is not a regular file`);
    demand(real, info);
    if (secret && (info.mode & EVERYBODY_READS) !== 0) {
      throw new Permanent(`cannot use the secret in ${path}: everybody can read it; chmod o= ${path}`);
    }
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Throw `Permanent` if others than root and this user could write the file, or replace entries of the directory. */
function demand(path: string, info: Stats): void {
  if (info.uid !== 0 && info.uid !== process.geteuid?.()) {
    throw new Permanent(`${path}: it belongs to uid ${info.uid}, which is not trusted`);
  }
  const sticky = info.isDirectory() && (info.mode & STICKY) !== 0;
  if ((info.mode & WRITABLE) !== 0 && !sticky) throw new Permanent(`${path}: others may write it; chmod go-w ${path}`);
}

/** Return the directories above a path. */
function foldersOf(path: string): string[] {
  const folder = dirname(path);
  return folder === path ? [] : [...foldersOf(folder), folder];
}

/** Return the text of an error of the system, in the usual wording. */
function said(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const words: { readonly [code: string]: string } = {
    ENOENT: "No such file or directory",
    EACCES: "Permission denied",
    ENOTDIR: "Not a directory",
    ELOOP: "Too many levels of symbolic links",
  };
  return words[code ?? ""] ?? message;
}
