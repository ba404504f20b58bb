//! What becomes of a comparison whose caller, registry or LLM provider is changed while it is under way
//! (reference: registries-and-templates, "Inputs of a prompt").

use std::sync::mpsc::{Receiver as Channel, Sender, channel};
use std::thread;

use serde_json::{Value, json};

use crate::client::{Caller, Connection, pick};
use crate::fixture::Fixture;
use crate::inputs::{acme, body, compare, create};
use crate::llm_providers::connected;
use crate::receiver::{Receiver, json_response};
use crate::registries::publish;

/// A comparison that has begun: its model answers once `go` is dropped.
struct Begun {
    acme: Fixture,
    model: Receiver,
    provider: String,
    begun: Channel<()>,
    go: Sender<()>,
}

impl Begun {
    /// Twenty inputs, to be compared by equal texts: one call for each.
    fn with_inputs() -> Self {
        Self::with(20)
    }

    fn with(inputs: usize) -> Self {
        let acme = acme();
        let (begin, begun) = channel();
        let (go, may_go) = channel::<()>();
        let model = Receiver::responding(move |_| {
            let _ = begin.send(());
            // Until the other end is dropped.
            let _ = may_go.recv();
            json_response(200, &json!({"choices": [{"message": {"content": "Hello."}}]}))
        });
        let provider = connected(&acme, &model);
        publish(&acme, ["main", "prompt", "p", "1.0.0"], "Hello.");
        for n in 0..inputs {
            create(&acme, json!({"name": format!("n{n:02}"), "message": format!("{n}")})).ok();
        }
        Begun { acme, model, provider, begun, go }
    }

    /// Has `who` compare, and changes something once the first input is asked about; the events.
    fn changed(&self, who: &Caller, change: impl FnOnce()) -> Connection {
        self.changed_with(who, json!({"left": {}, "right": {}}), change)
    }

    fn changed_with(&self, who: &Caller, mut fields: Value, change: impl FnOnce()) -> Connection {
        fields["llmProviderId"] = json!(self.provider);
        let ask = who.ask("POST", "/prompts/p/compare").with("Accept", "text/event-stream");
        let mut stream = Connection::open(self.acme.address).unwrap();
        stream.write(&ask.org_json(body(&self.acme, fields)).to_bytes()).unwrap();
        self.begun.recv().unwrap();
        // What fails before is no stream.
        assert_eq!(stream.head().unwrap().0, 200);
        change();
        stream
    }
}

fn rest(mut stream: Connection) -> String {
    let mut text = String::new();
    loop {
        match stream.chunk().unwrap() {
            end if end.is_empty() => return text,
            more => text += &more,
        }
    }
}

#[test]
fn a_comparison_ends_with_the_error_when_its_key_is_revoked() {
    let all = Begun::with_inputs();
    let made = all.acme.member.post("/api-keys", json!({"name": "a key"})).ok();
    let key = all.acme.member.with_key(made["key"].as_str().unwrap());
    let one = format!("/api-keys/{}", made["id"].as_str().unwrap());
    let stream = all.changed(&key, || {
        all.acme.owner.delete(&one).ok();
    });
    let Begun { model, go, .. } = all;
    drop(go);
    let text = rest(stream);
    assert!(text.contains("event: error\n") && text.contains("\"unauthenticated\""), "{text}");
    assert!(!text.contains("event: input\n") && !text.contains("event: done\n"), "{text}");
    assert!(model.arrived().len() <= 4, "no further input is asked about");
}

#[test]
fn a_comparison_ends_with_the_error_when_the_registry_is_restricted() {
    let all = Begun::with_inputs();
    let stream = all.changed(&all.acme.member, || {
        all.acme.owner.patch("/registries/main", json!({"access": "restricted"})).ok();
    });
    let Begun { model, go, .. } = all;
    drop(go);
    let text = rest(stream);
    assert!(text.contains("event: error\n") && !text.contains("event: done\n"), "{text}");
    assert!(model.arrived().len() <= 4, "no further input is asked about");
}

#[test]
fn a_comparison_ends_with_the_error_when_the_environment_of_its_values_is_restricted() {
    let all = Begun::with_inputs();
    let environment = json!({"slug": "prod", "name": "Prod"});
    let environment = all.acme.owner.post("/environments", environment).id();
    let fields = json!({"left": {}, "right": {}, "environment": "prod"});
    let stream = all.changed_with(&all.acme.member, fields, || {
        let restricted = json!({"access": "restricted"});
        all.acme.owner.patch(&format!("/environments/{environment}"), restricted).ok();
    });
    let Begun { model, go, .. } = all;
    drop(go);
    let text = rest(stream);
    assert!(text.contains("event: error\n") && !text.contains("event: done\n"), "{text}");
    assert!(model.arrived().len() <= 4, "no further input is asked about");
}

/// What a comparison on so many inputs answers whose provider is changed meanwhile, and how many were asked
/// about.
fn with_provider_changed(inputs: usize, change: impl FnOnce(&Caller, &str)) -> (Value, usize) {
    let Begun { acme, model, provider, begun, go } = Begun::with(inputs);
    let compared = thread::scope(|scope| {
        let compared =
            scope.spawn(|| compare(&acme, &provider, json!({"left": {}, "right": {}})).ok());
        begun.recv().unwrap();
        change(&acme.admin, &format!("/llm-providers/{provider}"));
        drop(go);
        compared.join().unwrap()
    });
    (compared, model.arrived().len())
}

fn assert_stopped((compared, asked): &(Value, usize)) {
    let same = usize::try_from(compared["same"].as_u64().unwrap()).unwrap();
    // What was asked before is answered, and kept.
    assert!((1..=4).contains(&same), "{compared}");
    assert_eq!(pick(compared, "stopped unknown"), json!(["providerChanged", 20 - same]));
    assert_eq!(*asked, same);
}

#[test]
fn nothing_further_is_sent_with_a_key_that_was_replaced() {
    assert_stopped(&with_provider_changed(20, |admin, provider| {
        admin.patch(provider, json!({"apiKey": "sk-another"})).ok();
    }));
}

#[test]
fn a_comparison_is_whole_if_its_provider_is_changed_once_all_was_asked() {
    let (compared, _) = with_provider_changed(1, |admin, provider| {
        admin.patch(provider, json!({"apiKey": "sk-another"})).ok();
    });
    assert_eq!(pick(&compared, "stopped same"), json!([null, 1]));
}

#[test]
fn nothing_further_is_sent_to_a_provider_that_was_deleted() {
    assert_stopped(&with_provider_changed(20, |admin, provider| {
        admin.delete(provider).ok();
    }));
}

#[test]
fn a_provider_that_is_renamed_goes_on_being_asked() {
    let all = Begun::with_inputs();
    let provider = format!("/llm-providers/{}", all.provider);
    let stream = all.changed(&all.acme.member, || {
        all.acme.admin.patch(&provider, json!({"name": "Theirs"})).ok();
    });
    let Begun { model, go, .. } = all;
    drop(go);
    let text = rest(stream);
    assert!(text.contains("event: done\n") && text.contains("\"stopped\":null"), "{text}");
    assert_eq!(model.arrived().len(), 20);
}
