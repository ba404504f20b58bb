// The calls of the README's loop, by the modules that openapi-generator has made.

import { Configuration, RegistriesApi, ResponseError, TaskStatus, TeamsApi } from "./made";

declare const process: { env: Record<string, string> };
const { BASE, KEY, TEAM, AGENT } = process.env;
const orgSlug = "acme", teamId = TEAM, agentId = AGENT;
const configuration = new Configuration({ basePath: BASE, apiKey: KEY });
const teams = new TeamsApi(configuration), registries = new RegistriesApi(configuration);

function same(found: unknown, expected: unknown) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
  }
}

async function work() {
  const published = { registryRef: "acme/texts", artifactType: "prompt" as const, name: "typed" };
  const createArtifactVersion = { ...published, version: "1.0.0", source: "Test {{WHAT}}." };
  const version = await registries.artifactVersionPublish({ createArtifactVersion });
  same(version.variables, ["WHAT"]);

  const createTask = { orgSlug, title: "Try it", assigneeAgentId: agentId };
  const task = await teams.taskCreate({ teamId, createTask });
  const wakes = (await teams.wakeTake({ teamId, agentId, orgSlug, wait: 5 })).items;
  same(wakes.map((wake) => wake.taskId), [task.id]);
  const at = { teamId, taskId: task.id };
  const claimed = await teams.taskClaim({ ...at, claimTask: { orgSlug, agentId } });
  same(claimed.status, TaskStatus.InProgress);
  same((await teams.taskGet({ ...at, orgSlug })).title, "Try it");
  const text = await registries.artifactVersionContent({
    registryRef: "acme/texts", promptName: "typed", version: "^1.0.0",
  });
  same(text.compiled, "Test {{WHAT}}.");
  const createInboxMessage = { orgSlug, fromAgentId: agentId, taskId: task.id, body: "Done." };
  await teams.inboxMessageCreate({ teamId, createInboxMessage });
  const done = await teams.taskUpdate({ ...at, taskPatch: { orgSlug, status: TaskStatus.Done } });
  same(done.status, "done");
  const ackWakes = { orgSlug, wakeIds: wakes.map((wake) => wake.id) };
  same(await teams.wakeAcknowledge({ teamId, agentId, ackWakes }), { acknowledged: 1 });
  const missing = await teams.taskGet({ ...at, orgSlug: "other" }).catch((error) => error);
  same(missing instanceof ResponseError && missing.response.status, 404);
  console.log("done");
}

work();
