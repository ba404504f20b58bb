// What the programs of the loop share that are written in TypeScript.

declare const process: { env: Record<string, string> };

/** The base URL, a key of the organization `acme`, a team and its agent. */
export const { BASE, KEY, TEAM, AGENT } = process.env;

export function same(found: unknown, expected: unknown) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
  }
}
