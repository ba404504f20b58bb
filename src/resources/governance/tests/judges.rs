//! Policies with a judge.

use super::*;

fn with_judge(fixture: &Fixture, severity: &str) -> Value {
    let provider = judge_at(fixture, "http://a.test");
    let rules = json!([
        {"type": "forbidPattern", "value": "SECRET"},
        {"type": "judge", "value": "Is it kind?", "llmProviderId": provider},
    ]);
    json!([policy(fixture, severity, rules).unwrap().id])
}

#[test]
fn a_judge_passes_or_gives_its_reason() {
    let fixture = Fixture::new();
    let body = json!({"text": "Hello", "policyIds": with_judge(&fixture, "error")});
    let (verdict, asked) =
        judged(&fixture, body.clone(), answered(200, r#"{"pass": true, "reason": "It is."}"#));
    assert_eq!(json!(verdict.unwrap()), json!({"passed": true, "issues": []}));
    assert_eq!(asked.len(), 1);
    let sent = String::from_utf8(asked[0].body.clone()).unwrap();
    assert!(sent.contains("Is it kind?") && sent.contains("Hello"), "{sent}");
    let (verdict, _) =
        judged(&fixture, body, answered(200, r#"{"pass": false, "reason": "Rude."}"#));
    let verdict = json!(verdict.unwrap());
    let message = "must satisfy \"Is it kind?\"; the judge says: Rude. (policy \"House rules\")";
    assert_eq!(verdict["issues"][0]["message"], message);
    assert_eq!(verdict["issues"][0]["rule"], "judge");
}

#[test]
fn a_key_that_is_a_common_word_does_not_break_verdicts() {
    let fixture = Fixture::new();
    let body = json!({"name": "Ours", "provider": "custom", "baseUrl": "http://a.test",
        "apiKey": "pass"});
    let provider = llm_provider::make(&fixture, body).unwrap().id;
    let rules = json!([{"type": "judge", "value": "Is it kind?", "llmProviderId": provider}]);
    let policy = policy(&fixture, "error", rules).unwrap().id;
    let body = json!({"text": "Hello", "policyIds": [policy]});
    let said = answered(200, r#"{"pass": false, "reason": "It may not pass."}"#);
    let verdict = json!(judged(&fixture, body, said).0.unwrap());
    let message = verdict["issues"][0]["message"].as_str().unwrap();
    assert!(message.contains("the judge says: It may not …."), "{message}");
}

#[test]
fn an_unavailable_judge_is_reported_with_its_provider() {
    let fixture = Fixture::new();
    let body = json!({"text": "Hello", "policyIds": with_judge(&fixture, "warning")});
    let refused = Failure::Connect { host: "a.test".into(), reason: "refused".into() };
    for (answer, word) in [
        (
            CallResult { answer: Err(refused), took: Duration::ZERO },
            "a.test cannot be connected to",
        ),
        (answered(500, "{}"), "status 500"),
        (answered(401, "{}"), "status 401"),
        (answered(307, "{}"), "redirects"),
        (answered(200, "I would rather not say"), "no verdict"),
        (answered(200, ""), "no verdict"),
    ] {
        let error: Error = judged(&fixture, body.clone(), answer).0.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Upstream, "llm_provider_failed"));
        let message = error.message();
        let begin =
            "the judge of the policy \"House rules\" cannot be queried: LLM provider \"Ours\": ";
        assert!(message.starts_with(begin) && message.contains(word), "{message}");
    }
}

#[test]
fn a_text_refused_by_another_rule_is_sent_to_no_provider() {
    let fixture = Fixture::new();
    let (strict, mild) = (with_judge(&fixture, "error"), with_judge(&fixture, "warning"));
    let asked = |policies: &Value| {
        let body = json!({"text": "SECRET", "policyIds": policies});
        judged(&fixture, body, answered(200, "yes")).1.len()
    };
    assert_eq!((asked(&strict), asked(&mild)), (0, 1));
}

#[test]
fn a_judge_without_a_provider_uses_the_default_one() {
    let fixture = Fixture::new();
    // Made before there is a provider that it could ask.
    let rules = json!([{"type": "judge", "value": "Is it kind?"}]);
    let policy = policy(&fixture, "error", rules).unwrap();
    let body = json!({"text": "Hello", "policyIds": [policy.id]});
    let default = json!({"name": "D", "provider": "custom", "baseUrl": "http://d.test",
        "isDefault": true});
    let provider = llm_provider::make(&fixture, default).unwrap().id;
    let (verdict, asked) = judged(&fixture, body.clone(), answered(200, "yes"));
    assert!(verdict.is_ok());
    assert_eq!(asked[0].url, "http://d.test/chat/completions");
    assert_eq!(llm_provider::delete(&fixture, provider).unwrap_err().code(), "llm_provider_in_use");
    llm_provider::patch(&fixture, provider, json!({"isDefault": false})).unwrap();
    let error = judged(&fixture, body, answered(200, "yes")).0.unwrap_err();
    assert_eq!(error.kind(), Kind::Upstream);
    assert!(error.message().contains("no default LLM provider"), "{}", error.message());
}
