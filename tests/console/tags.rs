//! Tags of prompts, agents and tools, and lists that are filtered by them.

use serde_json::json;

use crate::server::Running;

#[test]
fn a_prompt_is_tagged_and_found_by_its_tags() {
    let server = Running::new();
    server.registry();
    server.publish("prompt", "notes", "1.0.0", "Text.");
    server.publish("prompt", "zebra", "1.0.0", "Text.");
    let ada = server.signed_in("ada@acme.test");
    let (artifact, form) = ("/o/acme/prompts/main/notes", "/o/acme/prompts/main/notes/tags");
    assert!(ada.get(artifact).links().contains(&form.to_string()));
    let opened = ada.get(form);
    let refused = ada.send(&opened, form, &[("tags", "Docs, DOCS")]);
    assert_eq!(refused.status, 400);
    assert_eq!(refused.field(form, "tags"), "Docs, DOCS", "kept");
    ada.submit(&refused, form, &[("tags", "Docs, wee kly")]).shows("The tags were saved.");
    let list = "/registries/artifacts?registryRef=main&promptName=notes";
    assert_eq!(server.ada().get(list).items()[0]["tags"], json!(["Docs", "wee kly"]));
    // What was opened before does not undo it.
    let late = ada.send(&opened, form, &[("tags", "mine")]);
    assert_eq!(late.status, 409);
    late.shows("tags were changed meanwhile");

    let registry = "/o/acme/prompts/main";
    ada.get(registry).shows("notes").shows("zebra").shows("wee kly");
    for query in ["?tag=docs", "?tag=DOCS,wee+kly", "?tag=docs&type=prompt"] {
        ada.get(&format!("{registry}{query}")).shows("notes").hides("zebra");
    }
    let none = ada.get(&format!("{registry}?tag=docs,none"));
    none.shows("Nothing here has these tags.").shows("Show all");
    let long = format!("{registry}?tag={}", "x".repeat(51));
    ada.get(&long).shows("Nothing here has these tags.");
    let page = ada.get(artifact);
    let link = "/o/acme/prompts/main?tag=wee%20kly";
    assert!(page.links().iter().any(|one| one.starts_with(link)), "{:?}", page.links());
}

#[test]
fn agents_and_tools_are_tagged_in_their_forms_and_found_by_their_tags() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let new = "/o/acme/new/agent";
    let fields = [("name", "Scribe"), ("stableKey", "scribe"), ("tags", "Docs, weekly")];
    let draft = ada.submit(&ada.get(new), new, &fields);
    let edit = "/o/acme/agents/scribe/edit";
    assert_eq!(draft.field(edit, "tags"), "Docs, weekly");
    ada.submit(&draft, edit, &[("tags", "Docs")]).shows("The draft was saved.").shows("Docs");
    server.ada().post("/agents", json!({"stableKey": "herald", "name": "Herald"})).ok();
    ada.get("/o/acme/agents?tag=docs").shows("Scribe").hides("Herald");
    ada.get("/o/acme/agents?tag=docs&only=deployed").shows("There are none of these.");

    let new = "/o/acme/tools/new";
    let fields = [("name", "Web search"), ("type", "http"), ("tags", "Docs")];
    ada.submit(&ada.get(new), new, &fields).shows("The tool was created.").shows("Docs");
    server.ada().post("/tools", json!({"name": "Zebra", "type": "http"})).ok();
    ada.get("/o/acme/tools?tag=DOCS").shows("Web search").hides("Zebra");
    ada.get("/o/acme/tools?tag=none").shows("No tool has these tags.");
    let id = server.ada().get("/tools?tag=docs").items()[0]["id"].as_str().unwrap().to_string();
    let edit = format!("/o/acme/tools/{id}/edit");
    let page = ada.get(&edit);
    assert_eq!(page.field(&edit, "tags"), "Docs");
    ada.submit(&page, &edit, &[("tags", ""), ("bumpVersion", "")]).shows("The tool was saved.");
    ada.get("/o/acme/tools?tag=docs").shows("No tool has these tags.");
}
