"""An agent that works by the official Python SDK (mcp 2): `mode` is `auto` or `legacy`."""

import asyncio, json, os, sys

import httpx2
from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

mode = sys.argv[1]
given = json.loads(os.environ["GIVEN"])
at = {"teamId": given["team"], "agentId": given["agent"]}
inbox = f"roadstead://{given['org']}/teams/{at['teamId']}/agents/{at['agentId']}/inbox"


def connect():
    headers = {"Authorization": f"Bearer {given['key']}"}
    http = httpx2.AsyncClient(headers=headers, timeout=30)
    return Client(streamable_http_client(given["url"], http_client=http), mode=mode)


async def work(client):
    expected = "2026-07-28" if mode == "auto" else "2025-11-25"
    assert client.protocol_version == expected, client.protocol_version
    assert client.server_info.name == "roadstead"
    tools = (await client.list_tools()).tools
    assert len(tools) == given["tools"], len(tools)
    me = await client.call_tool("who_am_i")
    assert me.structured_content["memberships"][0]["orgSlug"] == given["org"]
    task = await client.call_tool("task_create", {"teamId": at["teamId"], "title": "Write"})
    refused = await client.call_tool("task_create", {"teamId": at["teamId"], "title": ""})
    assert refused.is_error and "title" in refused.content[0].text, refused

    prompts = (await client.list_prompts()).prompts
    assert [prompt.name for prompt in prompts] == ["main.scribe"], prompts
    prompt = await client.get_prompt("main.scribe", {"WHO": "Ada"})
    assert prompt.messages[0].content.text == "Write to Ada.", prompt
    reference = {"type": "ref/prompt", "name": "main.scribe"}
    versions = await complete(client, reference)
    assert versions == ["production", "1.0.0"], versions
    resources = (await client.list_resources()).resources
    read = await client.read_resource(str(resources[0].uri))
    assert read.contents[0].text == "Write to {{WHO}}.", read
    templates = (await client.list_resource_templates()).resource_templates
    assert len(templates) == 4
    try:
        await client.read_resource(f"roadstead://{given['org']}/main/prompts/nobody")
        raise AssertionError("it does not exist")
    except MCPError as error:
        assert error.error.code == (-32602 if mode == "auto" else -32002), error
    return task


async def complete(client, reference):
    from mcp.types import PromptReference

    argument = {"name": "prompt-version", "value": ""}
    found = await client.complete(PromptReference(**reference), argument)
    return found.completion.values


async def wait(client):
    """Waits for a wake by a subscription and takes it by a tool."""
    async with client.listen(resource_subscriptions=[inbox]) as changes:
        assert changes.honored.resource_subscriptions == [inbox]
        async with connect() as other:
            mail = {"teamId": at["teamId"], "toAgentId": at["agentId"], "body": "Hi"}
            await other.call_tool("message_send", mail)
        async for change in changes:
            assert str(change.uri) == inbox
            break
    wakes = await client.call_tool("wake_wait", {**at, "wait": 10})
    assert wakes.structured_content["items"][0]["reason"] == "direct_message"


async def main():
    async with connect() as client:
        await work(client)
        if mode == "auto":
            await wait(client)
    print("done")


asyncio.run(main())
