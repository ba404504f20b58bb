// An agent of a Roadstead team, complete, without any package: Node 22.18 or newer runs it as it is.
//
//     API=http://127.0.0.1:7420/api KEY=rsk_... ORG=acme TEAM=... AGENT=... node agent.ts
//
// KEY is an API key; TEAM and AGENT are ids. It waits for wakes with a long poll. With a port as its
// argument and WAKE_SECRET=whsec_... it waits for posted wakes instead, at the agent's `wakeUrl`.
//
// `work` and `read` are where a model comes in.

import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const needed: Record<string, string> = {
  API: "the URL of the API, such as http://127.0.0.1:7420/api",
  KEY: "an API key, rsk_...",
  ORG: "the slug of the organization",
  TEAM: "the id of the team",
  AGENT: "the id of the agent in the team",
};
if (process.argv[2]) {
  needed.WAKE_SECRET = "the wakeSecret that was shown when the wakeUrl was set, whsec_...";
}
const missing = Object.keys(needed).filter((name) => !process.env[name]);
for (const name of missing) console.error(`set ${name}: ${needed[name]}`);
if (missing.length > 0) process.exit(2);

const { API, KEY, ORG, TEAM, AGENT, WAKE_SECRET = "" } = process.env;
const team = `/teams/${TEAM}`;

type Fields = Record<string, unknown>;
type List<T> = { items: T[] };
type Task = { id: string; title: string; description: string | null; status: string };
type Message = { id: string; toAgentId: string | null; body: string };
type Wake = { id: string; reason: string; taskId: string | null; text: string | null; failedAgentId: string | null };

class Refused extends Error {
  status: number;
  constructor(status: number, problem: string) {
    super(`${status}: ${problem}`);
    this.status = status;
  }
}

/** Calls the API. While the server is busy or the agent paused, it waits and tries again. */
async function call<T>(method: string, path: string, fields: Fields = {}): Promise<T> {
  const all = { ...fields, orgSlug: ORG };
  const headers: Record<string, string> = { "X-API-Key": KEY ?? "" };
  const inQuery = Object.entries(all).map(([name, value]) => [name, String(value)]);
  const query = method === "GET" ? `?${new URLSearchParams(inQuery)}` : "";
  const body = method === "GET" ? undefined : JSON.stringify(all);
  if (body) headers["Content-Type"] = "application/json";
  // However often it is sent, it is done once.
  if (method === "POST") headers["Idempotency-Key"] = randomUUID();
  for (let pause = 1; ; pause = Math.min(pause * 2, 60)) {
    let seconds = pause;
    let problem: unknown;
    try {
      const signal = AbortSignal.timeout(90_000);
      const answer = await fetch(API + path + query, { method, headers, body, signal });
      if (answer.ok) return (await answer.json()) as T;
      problem = await answer.text();
      const isPaused = answer.status === 409 && `${problem}`.includes('"agent_paused"');
      if (![429, 502, 503].includes(answer.status) && !isPaused) {
        throw new Refused(answer.status, `${problem}`);
      }
      seconds = Number(answer.headers.get("Retry-After") ?? pause);
    } catch (error) {
      if (error instanceof Refused) throw error;
      problem ??= error; // Not reachable, or broken off.
    }
    console.error(`waiting ${seconds} s: ${problem}`);
    // Not all at the same moment.
    await sleep((seconds + Math.random() * pause) * 1000);
  }
}

/** Does a claimed task, and says so to the people. */
async function work(task: Task): Promise<void> {
  // Two wakes may be about one task, and it is done or blocked since.
  const now = await call<Task>("GET", `${team}/tasks/${task.id}`);
  if (now.status !== "in_progress") return;
  console.log("working on", task.title);
  const body = `It is done. (You asked: ${task.description ?? "nothing more"})`;
  const mail = { fromAgentId: AGENT, taskId: task.id, subject: task.title, body };
  await call("POST", `${team}/inbox`, mail);
  await call("PATCH", `${team}/tasks/${task.id}`, { status: "done", fromAgentId: AGENT });
}

/** Reads all unread mail: wakes about the same thing join, so there may be several. */
async function read(which: Fields): Promise<void> {
  const unread = { unread: true, limit: 200, ...which };
  for (const message of (await call<List<Message>>("GET", `${team}/messages`, unread)).items) {
    // Not mail to others about the task.
    if (message.toAgentId !== null && message.toAgentId !== AGENT) continue;
    console.log("reading", message.body);
    await call("POST", `${team}/messages/${message.id}/consume`, { agentId: AGENT });
  }
}

/** Takes what a wake is about; returns the task to work on, if there is one. */
async function take(wake: Wake): Promise<Task | undefined> {
  if (["task_assigned", "task_unblocked", "task_reopened", "claim_expired", "dependency_done"].includes(wake.reason)) {
    try {
      const task = await call<Task>("GET", `${team}/tasks/${wake.taskId}`);
      if (["open", "in_progress"].includes(task.status)) {
        return await call<Task>("POST", `${team}/tasks/${task.id}/claim`, { agentId: AGENT });
      }
    } catch (error) {
      // It is gone, closed, or another agent's.
      if (!(error instanceof Refused && [404, 409].includes(error.status))) throw error;
    }
  } else if (wake.reason === "direct_message") {
    await read({ agentId: AGENT });
  } else if (wake.reason === "schedule") {
    console.log("told", wake.text);
  } else if (wake.reason === "wake_failed") {
    console.log("an agent does not acknowledge its wakes:", wake.failedAgentId);
  } else if (wake.taskId) {
    await read({ taskId: wake.taskId, audience: "agent" });
  }
}

/** Works on what was claimed before a crash. */
async function resume(): Promise<void> {
  const claimed = { assigneeAgentId: AGENT, status: "in_progress" };
  for (const task of (await call<List<Task>>("GET", `${team}/tasks`, claimed)).items) {
    await work(task);
  }
}

/** Waits for wakes, one at a time: what is fetched and not begun in 60 s is handed out again. */
async function poll(): Promise<never> {
  const wakes = `${team}/agents/${AGENT}/wakes`;
  await resume();
  for (;;) {
    for (const wake of (await call<List<Wake>>("GET", wakes, { wait: 55, limit: 1 })).items) {
      const task = await take(wake);
      // Before the work, which may take longer than the lease of the wake.
      await call("POST", `${wakes}/ack`, { wakeIds: [wake.id] });
      if (task) await work(task);
    }
  }
}

/** Whether a posted body is signed with the secret, recently (Standard Webhooks). */
function verified(headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  const id = headers["webhook-id"];
  const stamp = headers["webhook-timestamp"];
  const signatures = headers["webhook-signature"];
  if (typeof id !== "string" || typeof stamp !== "string" || typeof signatures !== "string") {
    return false;
  }
  if (!(Math.abs(Date.now() / 1000 - Number(stamp)) <= 300)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const right = createHmac("sha256", key).update(`${id}.${stamp}.`).update(body).digest();
  return signatures.split(" ").some((signature) => {
    const [version, text = ""] = signature.split(",");
    const sent = Buffer.from(text, "base64");
    return version === "v1" && sent.length === right.length && timingSafeEqual(sent, right);
  });
}

/** Waits for posted wakes; a 2xx acknowledges one. */
async function listen(port: number): Promise<void> {
  await resume();
  let working = Promise.resolve();
  const server = createServer(async (request, answer) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const body = Buffer.concat(pieces);
    if (!verified(request.headers, body, WAKE_SECRET)) {
      answer.writeHead(401).end();
      return;
    }
    const posted = JSON.parse(body.toString()) as { type: string; data: Wake };
    const task = posted.type === "wake" ? await take(posted.data) : undefined;
    // The server waits 10 seconds: the work comes after the answer.
    answer.writeHead(204).end();
    if (task) working = working.then(() => work(task));
  });
  server.listen(port, "127.0.0.1");
}

// 401 or 404 end it: the key was revoked, or the agent left the team.
await (process.argv[2] ? listen(Number(process.argv[2])) : poll());
