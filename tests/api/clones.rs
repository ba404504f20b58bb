//! Cloning versions that are too large for one transaction (reference: registries-and-templates,
//! "Publishing").

use serde_json::{Value, json};

use crate::client::Reply;
use crate::fixture::Fixture;

/// Publishes a version of the prompt `p` for a model, with a MiB of metadata.
fn publish(acme: &Fixture, model: &str) {
    let mut new = json!({
        "registryRef": format!("{}/main", acme.slug), "artifactType": "prompt", "name": "p",
        "version": "1.0.0", "model": model, "source": format!("for {model}"),
        "message": format!("About {model}."),
    });
    new["metadata"] = json!({"pad": model.repeat(1_000_000 / model.len())});
    acme.key.post("/registries/artifacts", new).ok();
}

fn clone(acme: &Fixture, to: Value) -> Reply {
    let body = json!({
        "registryRef": format!("{}/main", acme.slug), "promptName": "p", "version": "1.0.0",
        "to": to,
    });
    acme.key.post("/registries/artifact-versions/clone", body)
}

fn content(acme: &Fixture, name: &str, model: &str) -> Value {
    let path = format!(
        "/registries/artifact-versions/content?registryRef={}/main&promptName={name}&model={model}",
        acme.slug
    );
    acme.key.get(&path).ok()
}

#[test]
fn a_version_with_more_texts_than_a_transaction_holds_is_cloned_whole_or_not_at_all() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let models: Vec<String> = (0..11).map(|n| format!("model-{n}")).collect();
    let all = || models.iter().map(String::as_str).chain(["generic"]);
    all().for_each(|model| publish(&acme, model));

    let made = clone(&acme, json!({"promptName": "q"})).ok();
    assert_eq!(
        (&made["name"], &made["model"], &made["source"]),
        (&json!("q"), &json!("generic"), &json!("for generic"),)
    );
    for model in all() {
        let (old, new) = (content(&acme, "p", model), content(&acme, "q", model));
        assert_eq!((&new["source"], &new["metadata"]), (&old["source"], &old["metadata"]));
        assert_eq!(new["message"], format!("About {model}."), "it has that of the original");
        assert_ne!(new["hash"], old["hash"]);
    }
    assert_eq!(clone(&acme, json!({"promptName": "q"})).ok()["id"], made["id"], "it is there");
    let body = json!({"registryRef": format!("{}/main", acme.slug), "promptName": "p",
        "version": "1.0.0", "to": {"promptName": "s"}, "message": "For another model."});
    let own = acme.key.post("/registries/artifact-versions/clone", body).ok();
    assert_eq!(own["message"], "For another model.");
    assert_eq!(content(&acme, "s", "model-3")["message"], "For another model.");

    // A policy that refuses the last text refuses all.
    let policy = json!({
        "name": "No models", "severity": "error",
        "rules": [{"type": "forbidModel", "value": "model-9"}],
    });
    let policy = acme.owner.post("/governance/policies", policy).id();
    let assignment = json!({"registryRef": format!("{}/main", acme.slug)});
    acme.owner.post(&format!("/governance/policies/{policy}/assignments"), assignment).ok();
    clone(&acme, json!({"promptName": "r"})).invalid(&["source"]);
    let artifacts = format!("/registries/artifacts?registryRef={}/main", acme.slug);
    let names: Vec<Value> =
        acme.key.get(&artifacts).items().iter().map(|item| item["name"].clone()).collect();
    assert_eq!(names, ["s", "q", "p"]);
}

#[test]
fn a_field_that_names_a_foreign_registry_or_an_unknown_prompt_is_named_by_the_404() {
    let acme = Fixture::new();
    acme.owner.post("/registries", json!({"slug": "main", "name": "Main"})).ok();
    let agent = json!({"stableKey": "ann", "name": "Ann"});
    acme.member.post("/agents", agent).ok();
    acme.admin.post("/environments", json!({"slug": "dev", "name": "Dev"})).ok();
    let deploy = |registry: &str| {
        let body = json!({
            "agentIds": ["ann"], "registryRef": registry, "promptName": "never",
            "version": "*", "environment": "dev", "provider": "q",
        });
        acme.member.post("/agents/deployments", body)
    };
    let foreign = "elsewhere/main";
    let check = json!({"text": "Hi", "registryRef": foreign});
    for (reply, code, path) in [
        (deploy(foreign), "organization_not_found", "registryRef"),
        (deploy("main"), "not_found", "promptName"),
        (acme.member.post("/governance/check", check), "organization_not_found", "registryRef"),
        (clone(&acme, json!({"registryRef": foreign})), "organization_not_found", "to.registryRef"),
    ] {
        assert_eq!(reply.refused(404, code)["path"], path);
    }
}
