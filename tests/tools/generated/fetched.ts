// The calls of the README's loop, by openapi-fetch with the types that openapi-typescript has made.

import createClient from "openapi-fetch";
import { AGENT, BASE, KEY, TEAM, same } from "./calls";
import type { components, paths } from "./schema";

const orgSlug = "acme", teamId = TEAM, agentId = AGENT;
const client = createClient<paths, "application/json">({ baseUrl: BASE, headers: { "X-API-Key": KEY } });

/** What is answered with success. */
async function ok<T>(answer: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await answer;
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

async function work() {
  const named = { registryRef: "acme/texts", artifactType: "prompt" as const, name: "fetched" };
  const version = await ok(client.POST("/registries/artifacts", {
    body: { ...named, version: "1.0.0", source: "Test {{WHAT}}." },
  }));
  same(version.variables, ["WHAT"]);
  const label = { registryRef: "acme/texts", promptName: "fetched", label: "production" };
  await ok(client.PATCH("/registries/artifacts/labels", { body: { ...label, version: "1.0.0" } }));

  const task = await ok(client.POST("/teams/{teamId}/tasks", {
    params: { path: { teamId } },
    body: { orgSlug, title: "Try it", assigneeAgentId: agentId },
  }));
  const wakes = (await ok(client.GET("/teams/{teamId}/agents/{agentId}/wakes", {
    params: { path: { teamId, agentId }, query: { orgSlug, wait: 5 } },
  }))).items;
  same(wakes.map((wake) => wake.taskId), [task.id]);
  const path = { teamId, taskId: task.id };
  const claimed = await ok(client.POST("/teams/{teamId}/tasks/{taskId}/claim", {
    params: { path }, body: { orgSlug, agentId },
  }));
  const status: components["schemas"]["TaskStatus"] = claimed.status;
  same(status, "in_progress");
  const get = (orgSlug: string) =>
    client.GET("/teams/{teamId}/tasks/{taskId}", { params: { path, query: { orgSlug } } });
  same((await ok(get(orgSlug))).title, "Try it");
  const text = await ok(client.GET("/registries/artifact-versions/content", {
    params: { query: { registryRef: "acme/texts", promptName: "fetched", version: "production" } },
  }));
  same(text.compiled, "Test {{WHAT}}.");
  await ok(client.POST("/teams/{teamId}/inbox", {
    params: { path: { teamId } },
    body: { orgSlug, fromAgentId: agentId, taskId: task.id, body: "It happens." },
  }));
  const done = await ok(client.PATCH("/teams/{teamId}/tasks/{taskId}", {
    params: { path }, body: { orgSlug, status: "done" },
  }));
  same(done.status, "done");
  same(await ok(client.POST("/teams/{teamId}/agents/{agentId}/wakes/ack", {
    params: { path: { teamId, agentId } },
    body: { orgSlug, wakeIds: wakes.map((wake) => wake.id) },
  })), { acknowledged: 1 });
  const { error, response } = await get("other");
  same([response.status, error?.code], [404, "organization_not_found"]);
  console.log("done");
}

work();
