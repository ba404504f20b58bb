//! Importing prompts of a provider.

use serde_json::json;

use crate::receiver::{Receiver, json_response};
use crate::server::Running;
use crate::visitor::press;

#[test]
fn a_prompt_of_a_provider_is_imported_into_a_registry() {
    let server = Running::new();
    server.registry();
    let items = json!([{"name": "greeting", "version": "2", "template": "Good day."}]);
    let provider = Receiver::responding(move |_| json_response(200, &json!({"items": items})));
    let made = json!({"name": "There", "kind": "http", "baseUrl": provider.url});
    let made = server.ada().post("/prompt-providers", made).id();
    let ada = server.signed_in("ada@acme.test");
    let page = ada.get(&format!("/o/acme/settings/prompt-providers/{made}"));
    let imported = press(&ada, &page, ("all", "1"), &[("registryRef", "main")]);
    imported.shows("greeting").shows("2.0.0");
    let version = "/registries/artifact-versions?registryRef=main&promptName=greeting";
    let versions = server.ada().get(version).items();
    assert_eq!(versions[0]["version"], "2.0.0");
    assert!(server.calls().contains("POST /prompt-providers/{id}/import"));
}
