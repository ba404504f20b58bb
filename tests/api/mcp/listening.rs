//! Subscriptions: a stream that tells of wakes and of promotions as they happen.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Client;
use super::content::label;
use crate::client::{Caller, Connection};
use crate::fixture::{Fixture, Running, config, key_of};
use crate::registries::{publish, registry};
use crate::teams::Crew;

/// 50 ms are usual, and 5 s where a notification is lost; a test on a busy machine must not fail.
const SOON: Duration = Duration::from_secs(4);

/// An open subscription.
struct Stream(Connection);

impl Stream {
    /// Opens one for these resources; its first message is the acknowledgment.
    #[track_caller]
    fn open(acme: &Fixture, client: &Client, uris: Value) -> Self {
        let filter = json!({"resourceSubscriptions": uris, "toolsListChanged": true});
        let request = client.request("subscriptions/listen", &json!({"notifications": filter}));
        let mut connection = Connection::open(acme.address).unwrap();
        connection.write(&request).unwrap();
        let (status, headers) = connection.head().unwrap();
        assert_eq!(status, 200, "{headers:?}");
        let has = |name: &str, value: &str| headers.contains(&(name.into(), value.into()));
        assert!(has("content-type", "text/event-stream") && has("x-accel-buffering", "no"));
        let mut stream = Stream(connection);
        let first = stream.message();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        // What is not offered is left out.
        assert_eq!(first["params"]["notifications"], json!({"resourceSubscriptions": uris}));
        stream
    }

    /// The next message.
    #[track_caller]
    fn message(&mut self) -> Value {
        loop {
            let chunk = self.0.chunk().unwrap();
            assert!(!chunk.is_empty(), "the stream has ended");
            let data = chunk.lines().find_map(|line| line.strip_prefix("data: "));
            if let Some(data) = data {
                let message: Value = serde_json::from_str(data).unwrap();
                let meta = |part: &str| {
                    message[part]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
                };
                let is_tagged = message.get("error").is_some()
                    || meta("params") == json!(7)
                    || meta("result") == json!(7);
                assert!(is_tagged, "{message}");
                return message;
            }
        }
    }

    /// The address of the next change.
    #[track_caller]
    fn changed(&mut self) -> String {
        let message = self.message();
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
        message["params"]["uri"].as_str().unwrap().into()
    }

    #[track_caller]
    fn has_ended(mut self) {
        assert_eq!(self.0.chunk().unwrap(), "");
    }
}

fn inbox(crew: &Crew, agent: &str) -> String {
    format!("roadstead://{}/teams/{}/agents/{agent}/inbox", crew.acme.slug, crew.team)
}

#[test]
fn a_wake_is_told_at_once_and_not_leased() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let uri = inbox(&crew, &ann);
    let client = Client::modern(&crew.acme.key);
    let mut stream = Stream::open(&crew.acme, &client, json!([uri]));
    let begun = Instant::now();
    crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    assert_eq!(stream.changed(), uri);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    crew.task(json!({"title": "t", "assigneeAgentId": ann}));
    assert_eq!(stream.changed(), uri);
    assert_eq!(crew.get(&format!("/agents/{ann}/wakes")).items().len(), 2);
    // One that waits already is told of at the beginning.
    let bob = crew.hire("bob");
    crew.post("/messages", json!({"body": "b", "toAgentId": bob})).ok();
    let both = json!([inbox(&crew, &ann), inbox(&crew, &bob)]);
    let mut uris: Vec<_> =
        both.as_array().unwrap().iter().map(|uri| uri.as_str().unwrap()).collect();
    uris.sort();
    let mut stream = Stream::open(&crew.acme, &client, json!(uris));
    assert_eq!(stream.changed(), inbox(&crew, &bob));
}

#[test]
fn a_promotion_is_told_the_moment_it_happens() {
    let acme = Fixture::new();
    registry(&acme, "main", json!({}));
    for version in ["1.0.0", "1.1.0"] {
        publish(&acme, ["main", "prompt", "scribe", version], version);
    }
    label(&acme, "production", "1.0.0");
    let at = |version: &str| format!("roadstead://{}/main/prompts/scribe@{version}", acme.slug);
    let client = Client::modern(&acme.key);
    let mut stream = Stream::open(&acme, &client, json!([at("1.0.0"), at("production")]));
    let begun = Instant::now();
    label(&acme, "staging", "1.1.0");
    label(&acme, "production", "1.1.0");
    assert_eq!(stream.changed(), at("production"));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let read = client.result("resources/read", json!({"uri": at("production")}));
    assert_eq!(read["contents"][0]["text"], "1.1.0");
    label(&acme, "production", "1.0.0");
    assert_eq!(stream.changed(), at("production"));
}

#[test]
fn a_subscription_ends_with_the_rights_of_its_key() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let made = crew.acme.owner.post("/api-keys", json!({"name": "a key"})).ok();
    let key = crew.acme.owner.with_key(made["key"].as_str().unwrap());
    let mut stream = Stream::open(&crew.acme, &Client::modern(&key), json!([inbox(&crew, &ann)]));
    crew.acme.owner.delete(&format!("/api-keys/{}", made["id"].as_str().unwrap())).ok();
    let last = stream.message();
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(7), &json!(401)), "{last}");
    stream.has_ended();
}

#[test]
fn a_subscription_to_what_one_may_not_see_is_refused() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let other = Fixture::new();
    let listen = |uris: Value| json!({"notifications": {"resourceSubscriptions": uris}});
    let foreign = Client::modern(&other.key);
    foreign.fails(400, -32602, "subscriptions/listen", listen(json!([inbox(&crew, &ann)])));
    let reads = Client::with_access(&crew.acme.owner, json!(["team:read"]));
    let error = reads.fails(200, 403, "subscriptions/listen", listen(json!([inbox(&crew, &ann)])));
    assert!(error["message"].as_str().unwrap().contains("team:work"), "{error}");
    let client = Client::modern(&crew.acme.key);
    let many: Vec<_> = (0..17).map(|nth| format!("roadstead://a/b/prompts/p{nth}")).collect();
    for params in [
        json!({}),
        listen(json!(["file:///etc/passwd"])),
        listen(json!(["roadstead://nowhere/main/prompts/p"])),
        listen(json!("roadstead://a")),
        listen(json!(many)),
    ] {
        client.fails(400, -32602, "subscriptions/listen", params);
    }
    let legacy = Client::legacy(&crew.acme.key);
    legacy.fails(200, -32601, "subscriptions/listen", listen(json!([])));
    legacy.fails(200, -32601, "resources/subscribe", json!({"uri": inbox(&crew, &ann)}));
    // The changes of a task are not known, so the acknowledgment leaves it out.
    let task = crew.task(json!({"title": "t"}));
    let uri = format!("roadstead://{}/teams/{}/tasks/{task}", crew.acme.slug, crew.team);
    let mut connection = Connection::open(crew.acme.address).unwrap();
    connection.write(&client.request("subscriptions/listen", &listen(json!([uri])))).unwrap();
    connection.head().unwrap();
    let first = connection.chunk().unwrap();
    assert!(first.contains("\"notifications\":{}"), "{first}");
}

/// Begins a call of `wake_wait`.
fn wait(crew: &Crew, key: &Caller, agent: &str) -> Connection {
    let arguments = json!({"teamId": crew.team, "agentId": agent, "wait": 55});
    let params = json!({"name": "wake_wait", "arguments": arguments});
    let mut connection = Connection::open(crew.acme.address).unwrap();
    connection.write(&Client::modern(key).request("tools/call", &params)).unwrap();
    connection
}

#[test]
fn a_tool_waits_as_its_route_does() {
    let crew = Crew::new();
    let ann = crew.hire("ann");
    let mut waiting = wait(&crew, &key_of(&crew.acme.owner), &ann);
    let begun = Instant::now();
    crew.post("/messages", json!({"body": "b", "toAgentId": ann})).ok();
    let answer = waiting.reply(false).unwrap().ok();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let wakes = &answer["result"]["structuredContent"]["items"];
    assert_eq!(wakes[0]["reason"], "direct_message");
}

#[test]
fn a_server_that_stops_ends_its_subscriptions_in_order() {
    let running = Running::start(config());
    let crew = Crew::of(running.fixture());
    let ann = crew.hire("ann");
    let client = Client::modern(&crew.acme.key);
    let mut stream = Stream::open(&crew.acme, &client, json!([inbox(&crew, &ann)]));
    let mut waiting = wait(&crew, &crew.acme.key, &ann);
    // Its answer comes when the server stops, if it has begun to wait by then.
    let stopping = std::thread::spawn(move || running.stop());
    let last = stream.message();
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    assert_eq!(last["id"], 7);
    stream.has_ended();
    let answer = waiting.reply(false).unwrap().ok();
    assert_eq!(answer["result"]["structuredContent"]["items"], json!([]));
    stopping.join().unwrap();
}
