// An agent that works by the official TypeScript SDKs: `v2` without a handshake, `v2-legacy` and `v1`
// with one.

import assert from "node:assert/strict";

const mode = process.argv[2];
const given = JSON.parse(process.env.GIVEN);
const at = { teamId: given.team, agentId: given.agent };
const info = { name: "test", version: "1.0.0" };
const requestInit = { headers: { Authorization: `Bearer ${given.key}` } };

async function sdk() {
  if (mode === "v1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const http = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { client: new Client(info), Transport: http.StreamableHTTPClientTransport };
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const versionNegotiation = { mode: mode === "v2" ? "auto" : "legacy" };
  return { client: new Client(info, { versionNegotiation }), Transport: StreamableHTTPClientTransport };
}

async function connect() {
  const { client, Transport } = await sdk();
  await client.connect(new Transport(new URL(given.url), { requestInit }));
  return client;
}

const client = await connect();
assert.equal(client.getServerVersion().name, "roadstead");
const { tools } = await client.listTools();
assert.equal(tools.length, given.tools);
const call = (name, args) => client.callTool({ name, arguments: args });
const made = await call("task_create", { teamId: given.team, title: "Write" });
assert.equal(made.structuredContent.title, "Write");
const refused = await call("task_create", { teamId: given.team, title: "" });
assert.ok(refused.isError && refused.content[0].text.includes("title"));
const prompt = await client.getPrompt({ name: "main.scribe", arguments: { WHO: "Ada" } });
assert.equal(prompt.messages[0].content.text, "Write to Ada.");
const completed = await client.complete({
  ref: { type: "ref/prompt", name: "main.scribe" },
  argument: { name: "prompt-version", value: "prod" },
});
assert.deepEqual(completed.completion.values, ["production"]);
const { resources } = await client.listResources();
const read = await client.readResource({ uri: resources[0].uri });
assert.equal(read.contents[0].text, "Write to {{WHO}}.");
await assert.rejects(client.callTool({ name: "nothing", arguments: {} }));

if (mode === "v2") {
  const inbox = `roadstead://${given.org}/teams/${given.team}/agents/${given.agent}/inbox`;
  const changed = new Promise((resolve) =>
    client.setNotificationHandler("notifications/resources/updated", (told) => resolve(told)),
  );
  const changes = await client.listen({ resourceSubscriptions: [inbox] });
  const other = await connect();
  const mail = { teamId: given.team, toAgentId: given.agent, body: "Hi" };
  await other.callTool({ name: "message_send", arguments: mail });
  assert.equal((await changed).params.uri, inbox);
  await changes.close();
  await other.close();
}
const wakes = await call("wake_wait", { ...at, wait: 0 });
assert.equal(wakes.structuredContent.items.length, mode === "v2" ? 1 : 0);
await client.close();
console.log("done");
