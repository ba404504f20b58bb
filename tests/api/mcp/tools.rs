//! Tools: their list, every tool called as agents call it, and refusals in words.

use std::collections::BTreeMap;

use roadstead::api::Route;
use roadstead::api::op::Shape;
use roadstead::mcp::{ToolInfo, tools};
use roadstead::resources;
use serde_json::{Value, json};

use super::Client;
use crate::client::pick;
use crate::deployments::{deployed, fill};
use crate::fixture::{Fixture, unknown_id};
use crate::registries::{publish, registry};
use crate::teams::Crew;

/// The list is read into the context of a model in each conversation.
const MAX_LIST_BYTES: usize = 12 * 1024;

pub fn route_of(tool: &ToolInfo) -> Route {
    let mut routes = resources::routes();
    routes.retain(|route| route.method == tool.method && route.path == tool.path);
    routes.pop().unwrap_or_else(|| panic!("{} has no route", tool.name))
}

/// The listed tools by name.
pub fn listed(client: &Client) -> BTreeMap<String, Value> {
    let list = client.result("tools/list", json!({}));
    let list = list["tools"].as_array().unwrap().clone();
    list.into_iter().map(|tool| (tool["name"].as_str().unwrap().to_string(), tool)).collect()
}

#[test]
fn the_list_is_short_and_always_the_same() {
    let acme = Fixture::new();
    let reply = Client::modern(&acme.key).send("tools/list", json!({}));
    let (one, list) = (reply.body.len(), reply.ok());
    assert!(one <= MAX_LIST_BYTES, "{one} bytes");
    let names: Vec<_> =
        list["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, tools().iter().map(|tool| tool.name).collect::<Vec<_>>());
    let guide = include_str!("../../../docs/CONTRIBUTING.md");
    assert!(guide.contains(&format!("to {} tools and 12 KB", names.len())), "{}", names.len());
    // For every key, whatever it may do.
    let other = Fixture::new();
    let again =
        Client::with_access(&other.owner, json!(["tool:read"])).send("tools/list", json!({}));
    assert_eq!(again.ok()["result"], list["result"]);
    assert_eq!(list["result"]["cacheScope"], "public");
}

#[test]
fn a_viewer_is_offered_the_tools_that_only_read() {
    let acme = Fixture::new();
    let (vera, id) = acme.person("vera", roadstead::auth::Role::Member);
    let client = Client::of(&vera);
    let all = listed(&client);
    let member = format!("/organizations/members/{id}");
    acme.owner.patch(&member, json!({"role": "viewer"})).ok();
    let own = listed(&client);
    let reading = all.iter().filter(|(_, tool)| tool["annotations"]["readOnlyHint"] == true);
    assert!(own.keys().eq(reading.map(|(name, _)| name)), "{:?}", own.keys());
    assert!(!own.is_empty() && own.len() < all.len());
    let list = client.result("tools/list", json!({}));
    assert_eq!((&list["cacheScope"], &list["ttlMs"]), (&json!("private"), &json!(0)));
    let refused = client.refused("task_create", json!({"teamId": unknown_id(), "title": "T"}));
    assert!(refused.contains("a viewer reads and changes nothing"), "{refused}");
}

/// What a schema of arguments may say: what the functions of OpenAI (also in its strict mode), of
/// Gemini and of Anthropic take alike.
const KEYWORDS: [&str; 8] =
    ["type", "description", "properties", "required", "items", "enum", "minimum", "maximum"];

/// The keyword of maps.
const OF_MAPS: &str = "additionalProperties";

/// The arguments that are maps, since nobody knows their keys beforehand. OpenAI's strict mode takes
/// none, and is on only where a client asks for it.
const MAPS: [&str; 2] = ["prompt_render.variables", "prompt_try.variables"];

/// Whether a name has only these characters and at most 64 of them.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 64
        && name.chars().all(is_plain)
}

/// The problems that a client may have with a schema and what is in it.
fn problems(at: &str, schema: &Value, depth: usize, found: &mut Vec<String>) {
    let mut problem = |what: &str| found.push(format!("{at}: {what}: {schema}"));
    let Some(fields) = schema.as_object() else { return problem("is no object") };
    let is_map = MAPS.contains(&at) && fields.contains_key(OF_MAPS);
    let is_known = |key: &String| KEYWORDS.contains(&key.as_str()) || (is_map && key == OF_MAPS);
    if !fields.keys().all(is_known) {
        problem("has a keyword that some client refuses");
    }
    // OpenAI's strict mode takes five levels.
    if depth > 5 {
        problem("is too deep");
    }
    let types = ["object", "array", "string", "integer", "number", "boolean"];
    // Gemini and Cursor refuse lists of types, and Gemini a schema without a type.
    let Some(kind) = schema["type"].as_str().filter(|kind| types.contains(kind)) else {
        return problem("does not have one type");
    };
    if let Some(values) = fields.get("enum") {
        let values = values.as_array().unwrap();
        // Gemini takes texts alone.
        if kind != "string" || values.is_empty() || !values.iter().all(Value::is_string) {
            problem("has an enumeration of something else than texts");
        }
    }
    if kind == "array" && !fields.contains_key("items") {
        problem("does not say what is in the list");
    }
    if kind == "object" && !fields.contains_key("properties") && !is_map {
        problem("does not say what is in the object");
    }
    let names = schema["required"].as_array().into_iter().flatten();
    let is_missing = |name: &Value| schema["properties"].get(name.as_str().unwrap()).is_none();
    if names.clone().any(is_missing) {
        problem("requires what it does not have");
    }
    for inner in ["items", OF_MAPS] {
        if let Some(schema) = fields.get(inner) {
            problems(&format!("{at}.{inner}"), schema, depth + 1, found);
        }
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if !is_name(name) {
            found.push(format!("{at}: {name} is no name"));
        }
        problems(&format!("{at}.{name}"), schema, depth + 1, found);
    }
}

#[test]
fn every_known_client_takes_the_schemas_of_arguments() {
    let acme = Fixture::new();
    for client in [Client::modern(&acme.key), Client::legacy(&acme.key), Client::oldest(&acme.key)]
    {
        let mut found = Vec::new();
        for (name, tool) in listed(&client) {
            // Cursor takes 60 characters with the name of the server.
            assert!(is_name(&name) && "roadstead".len() + name.len() < 60, "{name}");
            let schema = &tool["inputSchema"];
            assert!(schema["type"] == "object" && schema["properties"].is_object(), "{name}");
            // OpenAI's strict mode takes a hundred properties.
            assert!(schema["properties"].as_object().unwrap().len() <= 100, "{name}");
            problems(&name, schema, 1, &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn hints_say_what_a_tool_does_to_the_data() {
    let acme = Fixture::new();
    for (name, tool) in listed(&Client::modern(&acme.key)) {
        let info = tools().iter().find(|info| info.name == name).unwrap();
        let (route, hints) = (route_of(info), &tool["annotations"]);
        let reads =
            matches!(route.operation.shape, Shape::One | Shape::List | Shape::Walk | Shape::Watch);
        assert_eq!(hints["readOnlyHint"] == true, reads, "{name}");
        let destroys = !reads && hints.get("destructiveHint").is_none_or(|hint| hint == true);
        assert_eq!(destroys, ["task_update", "memory_forget"].contains(&&*name), "{name}");
    }
}

/// Values for the arguments that a tool requires, of things that do not exist.
fn sample(tool: &Value) -> Value {
    let mut arguments = json!({});
    for name in tool["inputSchema"]["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        let schema = &tool["inputSchema"]["properties"][name];
        arguments[name] = match (schema["type"].as_str(), name) {
            (Some("array"), _) => json!([unknown_id()]),
            (_, "registryRef") => json!("main"),
            (_, "left" | "right") => json!({"version": "1.0.0"}),
            (_, name) if name.ends_with("Id") => json!(unknown_id()),
            _ => json!("a"),
        };
    }
    if tool["name"] == "message_send" {
        arguments["taskId"] = json!(unknown_id());
    }
    arguments
}

#[test]
fn a_key_without_the_scope_is_told_which_one_is_missing() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    // A scope that no tool needs.
    let client = Client::with_access(&acme.owner, json!(["channel:read"]));
    let mut cells = 0;
    for (name, tool) in listed(&client) {
        let info = tools().iter().find(|info| info.name == name).unwrap();
        let needed = route_of(info).required_scopes;
        if needed.is_empty() {
            client.call(&name, json!({}));
            continue;
        }
        let said = client.refused(&name, sample(&tool));
        let names_one = needed.iter().any(|scope| said.contains(scope.name.text()));
        assert!(names_one && said.contains("scope_missing"), "{name}: {said}");
        cells += 1;
    }
    assert_eq!(cells, tools().len() - 1);
    // A refusal leaves an audit entry, as over REST.
    let refusals = acme.audited().into_iter().filter(|entry| entry.action == "task.create");
    assert_eq!(refusals.count(), 1);
}

/// Calls tools and checks arguments and answers against their schemas.
struct Checked {
    client: Client,
    tools: BTreeMap<String, Value>,
    called: Vec<String>,
}

impl Checked {
    #[track_caller]
    fn call(&mut self, name: &str, arguments: Value) -> Value {
        let tool = &self.tools[name];
        let assert_valid = |schema: &Value, value: &Value| {
            let validator = jsonschema::draft202012::new(schema).unwrap();
            let problems: Vec<_> = validator.iter_errors(value).map(|e| e.to_string()).collect();
            assert!(problems.is_empty(), "{name}: {problems:?}: {value}");
        };
        assert_valid(&tool["inputSchema"], &arguments);
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        assert!(arguments.as_object().unwrap().keys().all(|name| properties.contains_key(name)));
        let answer = self.client.call(name, arguments);
        assert_valid(&tool["outputSchema"], &answer);
        self.called.push(name.into());
        answer
    }

    #[track_caller]
    fn id(&mut self, name: &str, arguments: Value) -> Value {
        self.call(name, arguments)["id"].clone()
    }
}

fn checked(acme: &Fixture) -> Checked {
    let client = Client::modern(&acme.key);
    Checked { tools: listed(&client), client, called: Vec::new() }
}

#[test]
fn an_agent_works_with_the_tools_alone() {
    let crew = Crew::new();
    let acme = &crew.acme;
    let (ann, bob) = (crew.hire("ann"), crew.hire("bob"));
    let mut tools = checked(acme);
    let me = tools.call("who_am_i", json!({}));
    assert_eq!(me["memberships"][0]["orgSlug"], acme.slug.as_str());
    let teams = tools.call("team_list", json!({}));
    let team = teams["items"][0]["id"].clone();
    let agents = tools.call("team_agent_list", json!({"teamId": team}));
    assert_eq!(agents["items"].as_array().unwrap().len(), 2);

    let new = json!({"teamId": team, "title": "Write", "description": "At length.",
        "assigneeAgentId": ann, "priority": 1});
    let task = tools.id("task_create", new);
    let at = json!({"teamId": team, "taskId": task});
    let wait = json!({"teamId": team, "agentId": ann, "wait": 5, "limit": 10});
    let wakes = tools.call("wake_wait", wait.clone());
    assert_eq!(pick(&wakes["items"][0], "reason taskId"), json!(["task_assigned", task]));
    let acknowledge = json!({"teamId": team, "agentId": ann, "wakeIds": [wakes["items"][0]["id"]]});
    assert_eq!(tools.call("wake_acknowledge", acknowledge), json!({"acknowledged": 1}));
    let claim = json!({"teamId": team, "taskId": task, "agentId": ann});
    assert_eq!(tools.call("task_claim", claim)["status"], "in_progress");
    let mine = json!({"teamId": team, "assigneeAgentId": ann, "status": "in_progress"});
    assert_eq!(tools.call("task_list", mine)["items"][0]["id"], task);

    let send = json!({"teamId": team, "toAgentId": bob, "fromAgentId": ann, "body": "Hi"});
    let mail = tools.id("message_send", send);
    let unread = json!({"teamId": team, "agentId": bob, "unread": true});
    assert_eq!(tools.call("message_list", unread.clone())["items"][0]["id"], mail);
    let consume = json!({"teamId": team, "messageId": mail, "agentId": bob});
    assert!(tools.call("message_consume", consume)["readAt"].is_string());
    assert_eq!(tools.call("message_list", unread)["items"], json!([]));
    let inbox = json!({"teamId": team, "fromAgentId": ann, "body": "Done", "taskId": task});
    assert_eq!(tools.call("inbox_send", inbox)["audience"], "human");

    let done = json!({"teamId": team, "taskId": task, "status": "done", "assigneeAgentId": "none",
        "description": "none"});
    let patched = tools.call("task_update", done);
    assert_eq!(pick(&patched, "status assigneeAgentId description"), json!(["done", null, null]));
    assert_eq!(tools.call("task_get", at)["status"], "done");

    let who = json!({"teamId": team, "agentId": ann});
    let with = |more: Value| {
        let mut all = who.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let remember = with(json!({"content": "Ada likes tea", "tags": ["ada"]}));
    let memory = tools.id("memory_remember", remember);
    let recalled = tools.call("memory_recall", with(json!({"q": "tea", "tag": "ada"})));
    assert_eq!(recalled["items"][0]["id"], memory);
    tools.call("memory_forget", with(json!({"memoryId": memory})));
    assert_eq!(tools.call("memory_recall", who.clone())["items"], json!([]));

    let asked = tools.id("approval_request", with(json!({"title": "May I?"})));
    let approvals = tools.call("approval_list", json!({"teamId": team, "decision": "pending"}));
    assert_eq!(approvals["items"][0]["id"], asked);

    fill(acme, &["scribe"]);
    prompts(acme, &mut tools);
    deployment(acme, &mut tools);
    tools.called.sort();
    tools.called.dedup();
    assert_eq!(tools.called, tools.tools.keys().cloned().collect::<Vec<_>>());
}

fn prompts(acme: &Fixture, tools: &mut Checked) {
    publish(acme, ["main", "prompt", "scribe", "1.0.0"], "Write to {{WHO}}.");
    let main = format!("{}/main", acme.slug);
    let list = tools.call("prompt_list", json!({"registryRef": main, "artifactType": "prompt"}));
    assert_eq!(pick(&list["items"][0], "name latestVersion"), json!(["scribe", "1.0.0"]));
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    // With a key the slug alone names a registry.
    let get = json!({"registryRef": "main", "promptName": "scribe", "version": "^1.0.0"});
    assert_eq!(tools.call("prompt_get", get)["compiled"], "Write to {{WHO}}.");
    let render = json!({"registryRef": main, "promptName": "scribe", "variables": {"WHO": "Ada"}});
    assert_eq!(tools.call("prompt_render", render)["text"], "Write to Ada.");
    let model = crate::llm_providers::saying("Dear Ada");
    let provider = crate::llm_providers::connected(acme, &model);
    let default = json!({"isDefault": true});
    acme.admin.patch(&format!("/llm-providers/{provider}"), default).ok();
    let tried =
        json!({"registryRef": main, "promptName": "scribe", "source": "Write.", "message": "Go"});
    assert_eq!(tools.call("prompt_try", tried)["text"], "Dear Ada");
    let input = json!({"registryRef": main, "name": "first", "variables": {"WHO": "Ada"}});
    acme.member.post("/prompts/scribe/inputs", input).ok();
    let sides = json!({"registryRef": main, "promptName": "scribe", "left": {"version": "1.0.0"},
        "right": {"source": "Write."}});
    let compared = tools.call("prompt_compare", sides);
    assert_eq!(pick(&compared, "worse same"), json!([0, 1]));
    let draft = json!({"registryRef": main, "artifactType": "prompt", "draftVersion": "1.1.0",
        "body": "Write."});
    let draft = acme.key.ask("POST", "/prompts/scribe/drafts").json(&draft).send().id();
    let publish = json!({"registryRef": main, "promptName": "scribe", "draftId": draft});
    assert_eq!(tools.call("draft_publish", publish)["version"], "1.1.0");
}

fn deployment(acme: &Fixture, tools: &mut Checked) {
    deployed(acme, &["scribe"], json!({}));
    let at = json!({"stableKey": "scribe", "environment": "dev"});
    let live = tools.call("deployed_get", at);
    assert_eq!(live["compiled"], "Hello you.");
    let beat = json!({"stableKey": "scribe", "environment": "dev", "hash": live["hash"]});
    tools.call("heartbeat_send", beat);
}

#[test]
fn a_refusal_says_everything_that_is_wrong_and_where() {
    let crew = Crew::new();
    let client = Client::modern(&crew.acme.key);
    let team = &crew.team;
    let wrong = json!({"title": "", "priority": 9, "extra": true});
    let said = client.refused("task_create", wrong);
    for part in ["invalid_request", "- teamId is required", "- title ", "- priority ", "- extra "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = client.refused("task_get", json!({"teamId": team, "taskId": unknown_id()}));
    assert!(said.contains("not_found") && said.contains("taskId"), "{said}");
    let said = client.refused("task_get", json!({"teamId": team, "taskId": 7, "orgSlug": "other"}));
    assert!(said.contains("organization_not_found"), "{said}");
    let said = client.refused("task_get", json!({"teamId": [team], "taskId": ""}));
    assert!(said.contains("teamId must be a text"), "{said}");
    let task = crew.task(json!({"title": "t"}));
    let (ann, bob) = (crew.hire("ann"), crew.hire("bob"));
    let claim = |agent: &str| json!({"teamId": team, "taskId": task, "agentId": agent});
    client.call("task_claim", claim(&ann));
    assert!(client.refused("task_claim", claim(&bob)).contains("task_claimed"));

    for (params, what) in [
        (json!({"name": "nothing"}), "tools/list"),
        (json!({"name": "team_list", "arguments": []}), "arguments"),
        (json!({"name": "team_list", "_meta": {"roadstead/idempotencyKey": ""}}), "idempotencyKey"),
    ] {
        let error = client.fails(400, -32602, "tools/call", params);
        assert!(error["message"].as_str().unwrap().contains(what), "{error}");
    }
    let legacy = Client::legacy(&crew.acme.key);
    legacy.fails(200, -32602, "tools/call", json!({"name": "nothing"}));
    legacy.fails(200, -32602, "tools/call", json!({}));
}

#[test]
fn a_call_that_is_repeated_with_its_key_happens_once() {
    let crew = Crew::new();
    let client = Client::modern(&crew.acme.key);
    let call = |title: &str| {
        let arguments = json!({"teamId": crew.team, "title": title});
        let meta = json!({"roadstead/idempotencyKey": "once"});
        let params = json!({"name": "task_create", "arguments": arguments, "_meta": meta});
        client.result("tools/call", params)
    };
    let first = call("one");
    assert_eq!(call("one")["structuredContent"], first["structuredContent"]);
    assert_eq!(crew.get("/tasks").items().len(), 1);
    let said = call("two");
    assert!(said["content"][0]["text"].as_str().unwrap().contains("idempotency_key_reused"));
}
