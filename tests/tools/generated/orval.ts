// The calls of the README's loop, by the functions that orval has made.

import { AGENT, TEAM, same } from "./calls";
import * as api from "./orval/client";

const orgSlug = "acme", teamId = TEAM, agentId = AGENT;
const registryRef = "acme/texts", name = "orval";

/** What is answered with success. */
async function ok<A extends { status: number; data: unknown }>(
  answer: Promise<A>,
): Promise<Extract<A, { status: 200 }>["data"]> {
  const { status, data } = await answer;
  if (status !== 200) throw new Error(JSON.stringify(data));
  return data;
}

async function work() {
  const version = await ok(api.artifactVersionPublish({
    registryRef, artifactType: "prompt", name, version: "1.0.0", source: "Test {{WHAT}}.",
  }));
  same(version.variables, ["WHAT"]);
  const label = { registryRef, promptName: name, version: "1.0.0", label: "production" };
  await ok(api.artifactLabelMove(label));

  const task = await ok(api.taskCreate(teamId, {
    orgSlug, title: "Try it", assigneeAgentId: agentId,
  }));
  const page = await ok(api.wakeTake(teamId, agentId, { orgSlug, wait: 5 }));
  if (typeof page === "string") throw new Error("an event stream");
  const wakes = page.items;
  same(wakes.map((wake) => wake.taskId), [task.id]);
  const claimed = await ok(api.taskClaim(teamId, task.id, { orgSlug, agentId }));
  same(claimed.status, api.TaskStatus.in_progress);
  same((await ok(api.taskGet(teamId, task.id, { orgSlug }))).title, "Try it");
  const text = await ok(api.artifactVersionContent({
    registryRef, promptName: name, version: "production",
  }));
  same(text.compiled, "Test {{WHAT}}.");
  await ok(api.inboxMessageCreate(teamId, {
    orgSlug, fromAgentId: agentId, taskId: task.id, body: "It happens.",
  }));
  const done = await ok(api.taskUpdate(teamId, task.id, { orgSlug, status: api.TaskStatus.done }));
  same(done.status, "done");
  const wakeIds = wakes.map((wake) => wake.id);
  same(await ok(api.wakeAcknowledge(teamId, agentId, { orgSlug, wakeIds })), { acknowledged: 1 });
  const missing = await api.taskGet(teamId, task.id, { orgSlug: "other" });
  same(missing.status === 404 && missing.data.code, "organization_not_found");
  console.log("done");
}

work();
