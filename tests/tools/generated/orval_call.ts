// How the functions that orval makes send a request.

import { BASE, KEY } from "./calls";

export async function call<T>(url: string, options: RequestInit): Promise<T> {
  const headers = { ...options.headers, "X-API-Key": KEY };
  const response = await fetch(BASE + url, { ...options, headers });
  return { status: response.status, data: await response.json(), headers: response.headers } as T;
}
