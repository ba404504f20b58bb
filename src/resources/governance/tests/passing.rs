//! What a publication may take and cost that runs the inputs of a prompt.

use super::super::cases::InputCase;
use super::super::passing;
use super::*;
use crate::base::{Slug, StringMap};

/// So many inputs that an answer with the word passes.
fn inputs(count: usize) -> Vec<InputCase> {
    let input = |n: usize| InputCase {
        name: Slug::parse(format!("n{n}")).unwrap(),
        variables: StringMap::new(),
        message: Some(format!("Question {n}")),
        expect: Expectation { contains: vec!["Hello".into()], judge: None },
    };
    (0..count).map(input).collect()
}

/// The rule in a policy, whose provider is `Ours`.
fn passes_inputs(fixture: &Fixture) -> Policy {
    let provider = judge_at(fixture, "http://a.test");
    let rule = json!({"type": "passesInputs", "value": 100, "llmProviderId": provider});
    policy(fixture, "error", json!([rule])).unwrap()
}

/// Runs a text on twelve inputs, where the calls that were made have these results.
fn run(fixture: &Fixture, policy: &Policy, calls: &mut Calls) -> Result<Option<String>> {
    let inputs = Inputs { source: &|_| Ok(inputs(12)), texts: 1 };
    let text = (&inputs, "Hello.");
    fixture.store.read_now(fixture.org, |view| {
        passing::violation(view, policy, &policy.rules[0], text, calls)
    })
}

#[test]
fn a_model_that_does_not_answer_in_time_is_asked_no_further_and_refuses() {
    let fixture = Fixture::new();
    let policy = passes_inputs(&fixture);
    let mut calls = Calls::default();
    assert_eq!(run(&fixture, &policy, &mut calls).unwrap(), None, "it is pending");
    let asked: Vec<Call> = calls.asked().into_iter().cloned().collect();
    assert_eq!(asked.len(), 10);
    let mut calls = Calls::default();
    let after = Duration::from_secs(EVALUATION_SECS);
    let late = Failure::TimedOut { host: "a.test".into(), after };
    let late = CallResult { answer: Err(late), took: after };
    asked.iter().for_each(|call| calls.hear(call, late.clone()));
    let error = run(&fixture, &policy, &mut calls).unwrap_err();
    assert!(calls.asked().is_empty(), "the two others are not asked about");
    assert_eq!((error.kind(), error.code()), (Kind::Upstream, "llm_provider_failed"));
    let message = error.message();
    for part in [
        "the inputs of the policy \"House rules\" cannot be run: LLM provider \"Ours\": ",
        "a.test gave no complete answer within 60 s",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn with_inputs_a_publication_has_the_whole_time_and_with_judges_alone_less() {
    let fixture = Fixture::new();
    let registry = registry(&fixture, "main");
    let provider = judge_at(&fixture, "http://a.test");
    let judge = json!({"type": "judge", "value": "Is it kind?", "llmProviderId": provider});
    assigned(&fixture, "error", json!([judge]), &registry);
    let within = |has_inputs: bool| {
        let registry = registry.id;
        let asked = fixture.store.write_blocking(fixture.org, move |tx| {
            let (name, version) = (ArtifactName::parse("greeting"), Version::parse("1.0.0"));
            let inputs = Inputs { source: &|_| Ok(inputs(1)), texts: 1 };
            let submission = Submission {
                kind: ArtifactType::Prompt,
                name: &name.unwrap(),
                version: &version.unwrap(),
                text: "Hello.",
                variables: &[],
                metadata: &JsonMap::default(),
                model: "generic",
                inputs: has_inputs.then_some(inputs),
            };
            let mut calls = Calls::default();
            evaluate(tx, registry, &submission, &mut calls)?;
            let asked = calls.into_pending();
            Ok((asked.calls.len(), asked.within))
        });
        asked.unwrap()
    };
    let judges_alone = (1, Some(Duration::from_secs(30)));
    assert_eq!(within(true), judges_alone);
    let policy = passes_inputs(&fixture);
    assign(&fixture, policy.id, json!({"registryId": registry.id})).unwrap();
    assert_eq!(within(true), (2, None), "as long as its route says");
    assert_eq!(within(false), judges_alone, "promptlets have no inputs");
}
