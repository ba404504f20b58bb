//! Rules between fields: the document states each that JSON Schema can state, and why it does not
//! state the others is said here.

use std::collections::BTreeSet;
use std::path::Path;

use roadstead::resources;
use serde_json::{Value, json};

use super::{bind, document, json_body};

/// Why the schema of an input does not state its rule.
enum Why {
    /// It is a query, whose parameters are described one by one.
    Query,
    /// JSON Schema cannot say it.
    Other(&'static str),
}

/// Why `uniqueItems` is not said.
const SET: &str = "of a list whose items are distinct generators make a set, which is no JSON";

/// Clients are made of schemas with all fields, of which some are absent.
const ONE_OF_TWO: &str = "one of two fields is there, which the description says";

/// Why it is not said that no tag is there twice.
const TAGS: &str = "two tags are one if they are folded to the same text";

/// The inputs whose rules the document does not state.
const UNSTATED: &[(&str, Why)] = &[
    ("AccessQuestion", Why::Query),
    ("ActivityFilter", Why::Query),
    ("AgentPatch", Why::Other(TAGS)),
    ("ArtifactPatch", Why::Other(TAGS)),
    ("AuditFilter", Why::Query),
    ("CompareRequest", Why::Other(ONE_OF_TWO)),
    ("DeploymentFilter", Why::Query),
    ("DocumentSearch", Why::Query),
    ("EnvironmentPatch", Why::Other(SET)),
    ("HeatmapQuery", Why::Query),
    ("LabelChangeFilter", Why::Query),
    ("ListingSearch", Why::Query),
    ("LogFilter", Why::Query),
    ("MessageFilter", Why::Query),
    ("NewAgent", Why::Other(TAGS)),
    ("NewArtifactVersion", Why::Other(TAGS)),
    ("NewDocument", Why::Other("it refuses nothing: it finds the words of the text")),
    ("NewEnvironment", Why::Other(SET)),
    ("NewPromptInput", Why::Other("names in a map, and lines of texts of a list")),
    ("NewPromptProvider", Why::Other("the names of keys are in two schemas, which say the kind")),
    ("NewProtectedLabel", Why::Other(SET)),
    ("NewProviderCredential", Why::Other("a limit in bytes of an object as JSON")),
    ("NewRedelivery", Why::Other("one time is compared with another")),
    ("NewRun", Why::Other("models and tokens of a list are compared")),
    ("NewSchedule", Why::Other(ONE_OF_TWO)),
    ("NewSignIn", Why::Other("a path that no browser takes for a URL of another server")),
    ("NewSignInSettings", Why::Other("domains of a list are compared")),
    ("NewTool", Why::Other("names in texts are counted")),
    ("PromptInputPatch", Why::Other("names in a map, and lines of texts of a list")),
    ("Recall", Why::Query),
    ("SchedulePatch", Why::Other(ONE_OF_TWO)),
    (
        "SetLabel",
        Why::Other("a field that must be there may be null: generators make an optional one"),
    ),
    ("TryRequest", Why::Other("at most one of three fields")),
    ("VersionFilter", Why::Query),
];

/// The others: the input, a route that takes it, and what makes the route's example break the rule.
fn stated() -> Vec<(&'static str, &'static str, Value)> {
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let other = "01890a5d-ac96-774b-bcce-b302099a8058";
    let rules = json!([{"type": "maxLength", "value": "long"}]);
    vec![
        ("ClaimTask", "task.claim", json!({"worker": null})),
        ("GovernanceCheck", "governance.check", json!({"registryRef": null, "policyIds": null})),
        ("LlmProviderPatch", "llm_provider.update", json!({"config": {"model": ""}})),
        ("NewApiKey", "api_key.create", json!({"allowApproveAs": true})),
        ("NewApiKey", "api_key.create", json!({"allowApproveAs": true, "access": "read"})),
        ("NewDeployment", "deployment.create", json!({"version": null})),
        ("NewDeployment", "deployment.create", json!({"agentVersion": 1})),
        ("NewLlmProvider", "llm_provider.create", json!({"config": {"model": "x".repeat(201)}})),
        ("NewLlmProvider", "llm_provider.create", json!({"provider": "custom", "baseUrl": null})),
        ("NewLlmProvider", "llm_provider.create", json!({"provider": "ollama", "baseUrl": null})),
        ("NewMessage", "message.create", json!({"toAgentId": null, "taskId": null})),
        ("NewPolicy", "policy.create", json!({"rules": rules})),
        ("NewPolicyAssignment", "policy_assignment.create", json!({"registryRef": null})),
        ("NewRegistry", "registry.create", json!({"slug": "artifacts"})),
        ("NewServiceAccount", "service_account.create", json!({"role": "owner"})),
        ("NewToolDeployment", "deployment.create_tools", json!({"toolIds": [id, other]})),
        ("PolicyPatch", "policy.update", json!({"rules": rules})),
        ("ServiceAccountPatch", "service_account.update", json!({"role": "owner"})),
        ("NewTask", "task.create", json!({"worker": "w"})),
        ("TaskPatch", "task.update", json!({"worker": "w"})),
        ("ToolPatch", "tool.update", json!({"version": "2.0.0"})),
        ("UserPatch", "user.update", json!({"image": "http://a.example/b.png"})),
    ]
}

/// Lists of distinct items: a route, the field, and what makes its example name an item twice.
const DISTINCT: [(&str, &str, &str); 2] = [
    ("environment.create", "CreateApprovalPolicy", "approverIds"),
    ("environment.update", "CreateApprovalPolicy", "approverIds"),
];

#[test]
fn an_item_that_comes_twice_is_refused_and_the_schema_says_so_in_words() {
    let document = document();
    let routes = resources::routes();
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (name, schema, field) in DISTINCT {
        let about = &document["components"]["schemas"][schema]["properties"][field]["description"];
        assert!(about.as_str().unwrap().ends_with("Each item once."), "{name}: {about}");
        let route = routes.iter().find(|route| route.name == name).unwrap();
        let path = route.path.replace("{*", "{");
        let method = route.method.as_str().to_ascii_lowercase();
        let mut sample = json_body(&document["paths"][path][method])["example"].clone();
        let mut refuses = |ids: Value| {
            sample["approvals"] = json!({field: ids});
            bind(route, &sample).is_err()
        };
        assert!(refuses(json!([id, id])) && !refuses(json!([id])), "{name}");
    }
}

/// The inputs of the product that check rules between their fields.
fn inputs_with_rules() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/resources")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for block in text.split("impl Input for ").skip(1) {
            let (name, rest) = block.split_once(" {").unwrap();
            let body = rest.split("\n}").next().unwrap();
            if body.contains("fn check(") && !rest.starts_with('}') {
                found.insert(name.to_string());
            }
        }
    }
    found
}

#[test]
fn every_rule_between_fields_is_stated_or_has_a_reason_why_not() {
    let stated = stated();
    let mut known: BTreeSet<_> = stated.iter().map(|(input, ..)| input.to_string()).collect();
    for (input, why) in UNSTATED {
        let is_reason =
            matches!(why, Why::Query) || matches!(why, Why::Other(why) if !why.is_empty());
        assert!(known.insert(input.to_string()) && is_reason, "{input}");
    }
    assert_eq!(inputs_with_rules(), known, "an input is missing here, or has no rules anymore");

    let document = document();
    let routes = resources::routes();
    for (input, name, changes) in stated {
        let Some(route) = routes.iter().find(|route| route.name == name) else {
            panic!("there is no route {name}");
        };
        let path = route.path.replace("{*", "{");
        let method = route.method.as_str().to_ascii_lowercase();
        let body = json_body(&document["paths"][path][method]);
        let reference = body["schema"]["$ref"].as_str().unwrap_or_else(|| panic!("{name}: {body}"));
        let told = input.strip_prefix("New").map_or(input.into(), |noun| format!("Create{noun}"));
        assert!(reference.contains(&told), "{name} takes {reference}, not {told}");
        let schema = json!({"allOf": [body["schema"]], "components": document["components"]});
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let mut sample = body["example"].clone();
        for (field, value) in changes.as_object().unwrap() {
            sample[field] = value.clone();
        }
        assert!(bind(route, &sample).is_err(), "{name} accepts {sample}");
        assert!(!validator.is_valid(&sample), "{input}: its schema accepts {sample}");
    }
}
