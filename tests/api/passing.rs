//! What the answers to the inputs of a prompt may cost before it is published.

use serde_json::json;

use crate::inputs::{acme, body, create, echo, govern};
use crate::llm_providers::connected;

#[test]
fn a_publication_asks_about_no_further_input_once_the_answers_cost_a_dollar() {
    let acme = acme();
    let model = echo();
    let provider = connected(&acme, &model);
    let rules = json!([{"type": "passesInputs", "value": 100, "llmProviderId": provider}]);
    govern(&acme, rules);
    for n in 0..12 {
        let expect = json!({"contains": ["Hello"]});
        create(
            &acme,
            json!({"name": format!("n{n}"), "message": format!("{n}"), "expect": expect}),
        )
        .ok();
    }
    let publish = |version: &str| {
        let version = json!({"artifactType": "prompt", "name": "p", "version": version,
            "source": "Hello."});
        acme.member.post("/registries/artifacts", body(&acme, version))
    };
    // Each answer takes 15 tokens: ten inputs cost 1.00005 dollars.
    acme.admin.put("/model-prices/small", json!({"inputUsd": 6667, "outputUsd": 6667})).ok();
    let refused = publish("1.0.0").refused(502, "llm_provider_failed");
    let why = refused["message"].as_str().unwrap();
    assert!(why.contains("the inputs of the policy \"P\" cannot be run"), "{why}");
    assert!(why.contains("cost or are more than a publication may; have fewer inputs"), "{why}");
    assert_eq!(model.arrived().len(), 10);
    let prompts = format!("/registries/artifacts?registryRef={}/main", acme.slug);
    assert!(acme.member.get(&prompts).items().is_empty());

    // The first ten cost 0.9999 dollars, and so the two others are asked about, which costs more than that.
    acme.admin.put("/model-prices/small", json!({"inputUsd": 6666, "outputUsd": 6666})).ok();
    publish("1.0.0").ok();
    assert_eq!(model.arrived().len(), 12);
}
