//! What is said of a form that was refused begins with the words beside its fields.

use serde_json::json;

use crate::html;
use crate::server::{PASSWORD, Running};
use crate::visitor::Page;

/// Fails unless each line above the form begins with the label of the field that it leads to, and they are
/// these fields.
#[track_caller]
fn says_labels(page: &Page, fields: &[&str]) {
    let tags = html::tags(&page.text);
    let lines = tags.iter().filter(|tag| tag.name == "a");
    let lines = lines.filter_map(|tag| Some((tag.get("href")?.strip_prefix("#f-")?, &tag.text)));
    let mut said = Vec::new();
    for (field, line) in lines {
        let of = format!("f-{field}");
        let label = tags.iter().find(|tag| tag.name == "label" && tag.get("for") == Some(&of));
        let label = label.unwrap_or_else(|| panic!("no label of {field} on {}", page.path));
        assert!(line.starts_with(label.text.trim()), "{line:?} is about {:?}", label.text);
        said.push(field);
    }
    for field in fields {
        assert!(said.contains(field), "nothing is said of {field}: {}", page.words());
    }
}

#[test]
fn what_is_wrong_with_a_form_is_said_in_the_words_beside_its_fields() {
    let server = Running::bare();
    let visitor = server.visitor();
    let token = server.setup_token();
    let fields = [
        ("link", &*token),
        ("orgName", ""),
        ("slug", "No Slug"),
        ("name", "Ada"),
        ("email", "nobody"),
        ("password", PASSWORD),
    ];
    let refused = visitor.send(&visitor.get("/setup"), "/setup", &fields);
    says_labels(&refused, &["orgName", "slug", "email"]);

    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    server.publish("prompt", "notes", "2.0.0", "Hello {{WHO}}.");
    let ada = server.signed_in("ada@acme.test");
    let environment = server.ada().get("/environments").items()[0]["id"].clone();
    let path = format!("/o/acme/environments/{}", environment.as_str().unwrap());
    for (action, fields, wrong) in [
        ("variable", [("variable", "no name"), ("variableValue", "x")], "variable"),
        ("secret", [("secretName", "no name"), ("secretValue", "x")], "secretName"),
        ("secret", [("secretName", ""), ("secretValue", "x")], "secretName"),
        ("credential", [("credential", "p"), ("endpoint", "nowhere")], "endpoint"),
    ] {
        let fields = [&fields[..], &[("action", action)]].concat();
        says_labels(&ada.send(&ada.get(&path), &path, &fields), &[wrong]);
    }
    for (path, fields, wrong) in [
        ("/o/acme/registries/new", [("name", ""), ("slug", "No Slug")], ["name", "slug"]),
        ("/o/acme/new/agent", [("name", ""), ("stableKey", "No Key")], ["name", "stableKey"]),
        ("/o/acme/new/team", [("name", ""), ("slug", "No Slug")], ["name", "slug"]),
    ] {
        says_labels(&ada.send(&ada.get(path), path, &fields), &wrong);
    }
    let deploy = "/o/acme/deployments/new";
    let form = ada.get(&format!("{deploy}?agent=scribe"));
    says_labels(&ada.send(&form, deploy, &[("action", "preview")]), &["agentVariables.WHO"]);
    let provider = json!({"name": "Ours", "provider": "custom", "baseUrl": "https://models.test",
        "config": {"model": "small"}});
    server.ada().post("/llm-providers", provider).ok();
    for (page, field, wrong) in
        [("try", "source", "{{ import \"none\" }}"), ("compare-inputs", "maxCostUsd", "little")]
    {
        let path = format!("/o/acme/prompts/main/notes/{page}");
        says_labels(&ada.send(&ada.get(&path), &path, &[(field, wrong)]), &[field]);
    }
}

#[test]
fn no_environment_is_chosen_where_there_are_several_unless_it_was_asked_for() {
    let server = Running::new();
    server.deployable(&["scribe"], json!(null));
    let ada = server.signed_in("ada@acme.test");
    let deploy = "/o/acme/deployments/new";
    let chosen = |query: &str| {
        ada.get(&format!("{deploy}?agent=scribe{query}")).field(deploy, "environment")
    };
    assert_eq!(chosen(""), "production", "there is only one");
    server.ada().post("/environments", json!({"slug": "staging", "name": "Staging"})).ok();
    assert_eq!([chosen(""), chosen("&environment=nowhere")], ["", ""]);
    assert_eq!(chosen("&environment=production"), "production");
    let form = ada.get(&format!("{deploy}?agent=scribe"));
    let refused = ada.send(&form, deploy, &[("action", "preview")]);
    assert_eq!(refused.status, 400);
    assert!(refused.has_problem("environment"), "{}", refused.words());
    assert_eq!(server.ada().get("/agents/deployments").items().len(), 0);
}
