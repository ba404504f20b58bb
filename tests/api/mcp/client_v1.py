"""An agent that works by the official Python SDK before the newest revision (mcp 1)."""

import asyncio, json, os

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client

given = json.loads(os.environ["GIVEN"])


async def main():
    headers = {"Authorization": f"Bearer {given['key']}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=30) as http,
        streamable_http_client(given["url"], http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        begun = await session.initialize()
        assert begun.protocolVersion == "2025-11-25", begun
        assert len((await session.list_tools()).tools) == given["tools"]
        task = {"teamId": given["team"], "title": "Write"}
        made = await session.call_tool("task_create", task)
        assert made.structuredContent["title"] == "Write", made
        refused = await session.call_tool("task_create", {**task, "title": ""})
        assert refused.isError and "title" in refused.content[0].text, refused
        prompt = await session.get_prompt("main.scribe", {"WHO": "Ada"})
        assert prompt.messages[0].content.text == "Write to Ada.", prompt
        resources = (await session.list_resources()).resources
        text = (await session.read_resource(resources[0].uri)).contents[0].text
        assert text == "Write to {{WHO}}.", text
        await session.send_ping()
        try:
            await session.call_tool("nothing", {})
            raise AssertionError("there is no such tool")
        except McpError as error:
            assert error.error.code == -32602, error
        # The session goes on after an error.
        await session.list_prompts()
    print("done")


asyncio.run(main())
