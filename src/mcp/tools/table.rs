//! The table of tools.

use crate::api::Method::{self, Delete, Get, Patch, Post};

/// A tool.
pub struct ToolInfo {
    pub name: &'static str,
    pub method: Method,
    /// The pattern of the path of its route.
    pub path: &'static str,
    /// What it does, where the summary of the route does not say it all.
    pub about: Option<&'static str>,
    /// The arguments that models are not told of: few need them. The route takes them all the same. Those
    /// within another are `other.name`.
    pub untold: &'static [&'static str],
    /// The arguments that are described, since their names do not say it all.
    pub explained: &'static [&'static str],
    /// The fields of the answer that models are not given: they say again what another field says.
    pub without: &'static [&'static str],
    /// The fields that the schema of the answer names; all of them if there are none. Each name takes place
    /// in the list that every model reads.
    pub named: &'static [&'static str],
    /// The arguments that a word clears in place of null: the schemas that all clients take have no null.
    pub clears: &'static [&'static str],
    /// The tool that has all of an item of its list, or of what it has written.
    pub whole_in: Option<&'static str>,
    /// Whether a part of its answer would be taken for all by programs that run what it says: what is too
    /// long is refused.
    pub is_exact: bool,
    /// Whether a second call with the same arguments has no further effect, where the method does
    /// not say so.
    pub is_idempotent: bool,
}

const fn tool(name: &'static str, method: Method, path: &'static str) -> ToolInfo {
    ToolInfo {
        name,
        method,
        path,
        about: None,
        untold: &[],
        explained: &[],
        without: &[],
        named: &[],
        clears: &[],
        whole_in: None,
        is_exact: false,
        is_idempotent: false,
    }
}

impl ToolInfo {
    const fn about(self, about: &'static str) -> Self {
        ToolInfo { about: Some(about), ..self }
    }

    const fn untold(self, untold: &'static [&'static str]) -> Self {
        ToolInfo { untold, ..self }
    }

    const fn explained(self, explained: &'static [&'static str]) -> Self {
        ToolInfo { explained, ..self }
    }

    const fn without(self, without: &'static [&'static str]) -> Self {
        ToolInfo { without, ..self }
    }

    const fn named(self, named: &'static [&'static str]) -> Self {
        ToolInfo { named, ..self }
    }

    const fn clears(self, clears: &'static [&'static str]) -> Self {
        ToolInfo { clears, ..self }
    }

    const fn whole_in(self, tool: &'static str) -> Self {
        ToolInfo { whole_in: Some(tool), ..self }
    }

    const fn exact(self) -> Self {
        ToolInfo { is_exact: true, ..self }
    }

    const fn idempotent(self) -> Self {
        ToolInfo { is_idempotent: true, ..self }
    }
}

/// All tools, in the order of the list: what one does first comes first.
pub const fn tools() -> &'static [ToolInfo] {
    ALL
}

/// What the answers of the tools of tasks are told to have: a task has 20 fields.
const OF_TASKS: &[&str] = &["id", "status"];

const ALL: &[ToolInfo] = &[
    tool("who_am_i", Get, "/whoami").named(&["userId", "memberships"]),
    tool("team_list", Get, "/teams").untold(&["slug"]),
    tool("team_agent_list", Get, "/teams/{teamId}/agents"),
    tool("wake_wait", Get, "/teams/{teamId}/agents/{agentId}/wakes")
        .about(
            "Wait for an agent's wakes, `wait` seconds at most: there is work; each is leased for 60 \
             seconds",
        )
        .untold(&["cursor", "peek"]),
    tool("wake_acknowledge", Post, "/teams/{teamId}/agents/{agentId}/wakes/ack")
        .untold(&["worker"])
        .idempotent(),
    tool("task_list", Get, "/teams/{teamId}/tasks")
        .untold(&["assigneeUserId"])
        .whole_in("task_get"),
    tool("task_get", Get, "/teams/{teamId}/tasks/{taskId}").named(OF_TASKS),
    tool("task_create", Post, "/teams/{teamId}/tasks")
        .untold(&["projectId", "assigneeUserId", "worker"])
        .named(OF_TASKS)
        .explained(&["assigneeAgentId"])
        .whole_in("task_get"),
    tool("task_claim", Post, "/teams/{teamId}/tasks/{taskId}/claim")
        .named(OF_TASKS)
        .untold(&["worker", "leaseSecs"])
        .whole_in("task_get")
        .idempotent(),
    tool("task_update", Patch, "/teams/{teamId}/tasks/{taskId}")
        .named(OF_TASKS)
        .untold(&["projectId", "assigneeUserId", "worker"])
        .clears(&[
            "description",
            "assigneeAgentId",
            "assigneeUserId",
            "projectId",
            "parentTaskId",
            "dueAt",
        ])
        .whole_in("task_get"),
    tool("message_list", Get, "/teams/{teamId}/messages"),
    tool("message_send", Post, "/teams/{teamId}/messages")
        .about("Send a message to an agent (toAgentId) or a note on a task (taskId)")
        .untold(&["worker"])
        .named(&["id"])
        .whole_in("message_list"),
    tool("message_consume", Post, "/teams/{teamId}/messages/{messageId}/consume")
        .named(&["id", "readAt"])
        .whole_in("message_list")
        .idempotent(),
    tool("inbox_send", Post, "/teams/{teamId}/inbox")
        .untold(&["worker"])
        .named(&["id"])
        .whole_in("message_list"),
    tool("memory_recall", Get, "/teams/{teamId}/agents/{agentId}/memories").explained(&["q"]),
    tool("memory_remember", Post, "/teams/{teamId}/agents/{agentId}/memories")
        .explained(&["supersedes"])
        .named(&["id"])
        .whole_in("memory_recall"),
    tool("memory_forget", Delete, "/teams/{teamId}/agents/{agentId}/memories/{memoryId}"),
    tool("prompt_list", Get, "/registries/artifacts")
        .about("List the prompts and promptlets of a registry")
        .untold(&["promptName", "tag"]),
    tool("prompt_get", Get, "/registries/artifact-versions/content")
        .about("Get the text of a prompt")
        .untold(&["wait", "artifactType"])
        .explained(&["version"])
        .without(&["source"])
        .named(&["version", "compiled"]),
    tool("prompt_render", Post, "/prompts/{promptName}/render").untold(&["artifactType", "model"]).named(&["text", "missing"]),
    tool("prompt_try", Post, "/prompts/{promptName}/try")
        .untold(&[
            "artifactType",
            "draftId",
            "environment",
            "llmProviderId",
            "maxTokens",
            "model",
            "temperature",
        ])
        .named(&["text"]),
    tool("prompt_compare", Post, "/prompts/{promptName}/compare")
        .untold(&[
            "environment",
            "inputs",
            "judges",
            "left.draftId",
            "left.source",
            "llmProviderId",
            "maxCostUsd",
            "maxSeconds",
            "model",
            "right.draftId",
        ])
        .named(&["worse"]),
    tool("draft_publish", Post, "/prompts/{promptName}/drafts/{draftId}/publish")
        .untold(&["artifactType", "model", "metadata"])
        .without(&["source", "compiled"])
        .named(&["version", "warnings"])
        .whole_in("prompt_get"),
    tool("deployed_get", Get, "/agents/{stableKey}/deployed")
        .about("Get an agent's live deployment: prompt, configuration and tools")
        .untold(&["wait"])
        .named(&["hash", "model", "compiled", "config", "tools"])
        .exact(),
    tool("heartbeat_send", Post, "/agents/{stableKey}/heartbeat")
        .about("Report the hash of the deployment that an agent runs")
        .idempotent(),
    tool("approval_request", Post, "/teams/{teamId}/approvals")
        .about("Ask people for an approval; a wake says when it is decided, and approval_list how")
        .named(&["id"])
        .whole_in("approval_list"),
    tool("approval_list", Get, "/teams/{teamId}/approvals"),
];
