// The calls of the README's loop, by the client that hey-api has made.

import { AGENT, BASE, KEY, TEAM, same } from "./calls";
import * as api from "./hey-api";
import { client } from "./hey-api/client.gen";

const orgSlug = "acme", teamId = TEAM, agentId = AGENT;
client.setConfig({ baseUrl: BASE, auth: (scheme) => (scheme.type === "apiKey" ? KEY : undefined) });

async function work() {
  const throwOnError = true;
  const registryRef = "acme/texts", name = "heyed";
  const { data: version } = await api.artifactVersionPublish({
    body: { registryRef, artifactType: "prompt", name, version: "1.0.0", source: "Test {{WHAT}}." },
    throwOnError,
  });
  same(version.variables, ["WHAT"]);
  const label = { registryRef, promptName: name, version: "1.0.0", label: "production" };
  await api.artifactLabelMove({ body: label, throwOnError });

  const { data: task } = await api.taskCreate({
    path: { teamId }, body: { orgSlug, title: "Try it", assigneeAgentId: agentId }, throwOnError,
  });
  const { data: { items: wakes } } = await api.wakeTake({
    path: { teamId, agentId }, query: { orgSlug, wait: 5 }, throwOnError,
  });
  same(wakes.map((wake) => wake.taskId), [task.id]);
  const path = { teamId, taskId: task.id };
  const { data: claimed } = await api.taskClaim({ path, body: { orgSlug, agentId }, throwOnError });
  const status: api.TaskStatus = claimed.status;
  same(status, "in_progress");
  same((await api.taskGet({ path, query: { orgSlug }, throwOnError })).data.title, "Try it");
  const { data: text } = await api.artifactVersionContent({
    query: { registryRef, promptName: name, version: "production" }, throwOnError,
  });
  same(text.compiled, "Test {{WHAT}}.");
  await api.inboxMessageCreate({
    path: { teamId },
    body: { orgSlug, fromAgentId: agentId, taskId: task.id, body: "It happens." },
    throwOnError,
  });
  const { data: done } = await api.taskUpdate({
    path, body: { orgSlug, status: "done" }, throwOnError,
  });
  same(done.status, "done");
  const { data: acknowledged } = await api.wakeAcknowledge({
    path: { teamId, agentId },
    body: { orgSlug, wakeIds: wakes.map((wake) => wake.id) },
    throwOnError,
  });
  same(acknowledged, { acknowledged: 1 });
  const { error, response } = await api.taskGet({ path, query: { orgSlug: "other" } });
  same([response?.status, error?.code], [404, "organization_not_found"]);
  console.log("done");
}

work();
