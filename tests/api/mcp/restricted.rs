//! What a member without an access grant learns of restricted resources by the protocol: nothing.

use roadstead::mcp::tools;
use serde_json::{Value, json};

use super::Client;
use super::tools::{listed, route_of};
use crate::fixture::Fixture;
use crate::restricted::Vault;

/// Arguments of a tool that name what is restricted wherever they can.
fn arguments(vault: &Vault, name: &str, tool: &Value) -> Value {
    let info = tools().iter().find(|info| info.name == name).unwrap();
    let route = route_of(info);
    let fields = vault.fields(&route);
    let mut arguments = json!({});
    for argument in tool["inputSchema"]["properties"].as_object().unwrap().keys() {
        let in_path = route.path.contains(&format!("{{{argument}}}"));
        let value = match in_path {
            true => json!(vault.ids[argument.as_str()]),
            false => fields[argument].clone(),
        };
        if !value.is_null() {
            arguments[argument] = value;
        }
    }
    arguments
}

#[test]
fn no_tool_shows_or_changes_what_is_restricted_to_a_member_without_the_grant() {
    let acme = Fixture::new();
    let vault = Vault::whole(&acme);
    let state = vault.state(&acme);
    let member = Client::of(&acme.member);
    let mut refused = 0;
    for (name, tool) in listed(&member) {
        let arguments = arguments(&vault, &name, &tool);
        let call = json!({"name": name, "arguments": arguments});
        let result = member.result("tools/call", call);
        let context = format!("{name} {arguments}: {result}");
        assert!(!vault.is_in(&result.to_string()), "{context}");
        let info = tools().iter().find(|info| info.name == name).unwrap();
        if vault.named_by(&route_of(info), &arguments).is_empty() {
            continue;
        }
        let said = result["content"][0]["text"].as_str().unwrap();
        let is_refused = ["grant_required", "not_found"].iter().any(|code| said.contains(code));
        let is_empty = result["structuredContent"]["items"] == json!([]);
        assert!(is_empty || result["isError"] == true && is_refused, "{context}");
        refused += 1;
    }
    assert!(refused > 15, "{refused}");
    for list in ["prompts/list", "resources/list"] {
        let result = member.result(list, json!({}));
        assert!(!vault.is_in(&result.to_string()), "{list}: {result}");
    }
    assert_eq!(vault.state(&acme), state);
}
