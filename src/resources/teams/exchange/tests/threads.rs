//! Messages in both directions.

use super::*;
use crate::resources::teams::exchange::threads::{AnswerToPeer, answer, list, send};
use crate::resources::teams::messages::consume;
use crate::resources::teams::testing::{add_agent, add_scrum_master, take};

impl Crew {
    fn send(&self, sender: &Sender, body: &str) -> Result<Value> {
        let input = Fixture::input(json!({"body": body, "subject": "S"})).unwrap();
        let args = args(("acme".to_string(), "crew".to_string()), input);
        let who = sender.who.clone();
        let sent = self
            .fixture
            .store
            .write_blocking(self.fixture.org, move |tx| send(tx, &Req::new(&args, &who)));
        sent.map(|message| json!(message))
    }

    fn thread(&self, sender: &Sender) -> Result<Vec<Value>> {
        let args = args(("acme".to_string(), "crew".to_string()), ());
        let read = |view: &crate::store::View| list(view, &Req::new(&args, &sender.who));
        let page = self.fixture.store.read_now(self.fixture.org, read)?;
        Ok(page.items.iter().map(|message| json!(message)).collect())
    }

    fn answer(&self, peer: &Value, body: Value) -> Result<Value> {
        let input: AnswerToPeer = Fixture::input(body)?;
        self.fixture.write(answer, (self.team, id(peer)), input).map(|message| json!(message))
    }
}

#[test]
fn an_accepted_peer_and_the_team_write_to_each_other() {
    let crew = Crew::new();
    let master = add_scrum_master(&crew.fixture, crew.team, "max");
    let ann = add_agent(&crew.fixture, crew.team, "ann");
    let (one, two) = (Sender::new(1, "a@a.test"), Sender::new(2, "b@b.test"));
    let peer = crew.ask(&one, json!({})).unwrap();
    let other = crew.ask(&two, json!({})).unwrap();
    crew.accept(&peer);
    crew.accept(&other);
    take(&crew.fixture, crew.team, master);

    let sent = crew.send(&one, "Hello").unwrap();
    assert_eq!((&sent["from"], &sent["subject"]), (&json!("you"), &json!("S")));
    crew.send(&two, "From another").unwrap();
    let wakes = take(&crew.fixture, crew.team, master);
    let reasons: Vec<_> = wakes.iter().map(|wake| json!(wake)["reason"].clone()).collect();
    assert_eq!(reasons, ["direct_message", "direct_message"]);
    assert_eq!(json!(wakes[0].message_id), sent["id"]);

    let answered = crew.answer(&peer, json!({"body": "Hi", "fromAgentId": ann})).unwrap();
    assert_eq!(answered["toPeerId"], peer["id"]);
    assert_eq!(
        (&answered["from"]["type"], &answered["toAgentId"]),
        (&json!("agent"), &Value::Null)
    );
    crew.answer(&peer, json!({"body": "And bye"})).unwrap();
    assert!(take(&crew.fixture, crew.team, ann).is_empty());

    let thread = crew.thread(&one).unwrap();
    let texts: Vec<_> = thread.iter().map(|m| (m["from"].clone(), m["body"].clone())).collect();
    let expected = [("us", "And bye"), ("us", "Hi"), ("you", "Hello")];
    assert_eq!(texts, expected.map(|(from, body)| (json!(from), json!(body))));
    assert_eq!(crew.thread(&two).unwrap().len(), 1);
    crew.fixture.assert_sound();
}

#[test]
fn who_is_not_accepted_neither_reads_nor_writes_nor_is_written_to() {
    let crew = Crew::new();
    let sender = Sender::new(1, "a@a.test");
    let refused = (Kind::Forbidden, "key_not_accepted");
    let check = |peer: Option<&Value>| {
        assert_eq!(refusal(crew.send(&sender, "x")), refused);
        assert_eq!(refusal(crew.thread(&sender)), refused);
        if let Some(peer) = peer {
            let answered = crew.answer(peer, json!({"body": "x"}));
            assert_eq!(refusal(answered), (Kind::Conflict, "peer_not_accepted"));
        }
    };
    check(None);
    let peer = crew.ask(&sender, json!({})).unwrap();
    check(Some(&peer));
    crew.refuse(&peer, "No.");
    check(Some(&peer));
    crew.fixture.write(block, (crew.team, id(&peer)), ()).unwrap();
    check(Some(&peer));
    crew.fixture.write(forget, (crew.team, id(&peer)), ()).unwrap();
    check(None);
    assert_eq!(refusal(crew.answer(&peer, json!({"body": "x"}))), (Kind::NotFound, "not_found"));
}

#[test]
fn a_block_of_the_domain_silences_accepted_peers() {
    let crew = Crew::new();
    let sender = Sender::new(1, "a@a.test");
    let peer = crew.ask(&sender, json!({})).unwrap();
    crew.accept(&peer);
    crew.send(&sender, "x").unwrap();
    crew.rule("a.test", "block", true);
    assert_eq!(refusal(crew.send(&sender, "x")), (Kind::Forbidden, "domain_blocked"));
    assert_eq!(refusal(crew.thread(&sender)), (Kind::Forbidden, "domain_blocked"));
}

#[test]
fn without_a_scrum_master_mail_is_kept_and_a_later_one_reads_it() {
    let crew = Crew::new();
    let ann = add_agent(&crew.fixture, crew.team, "ann");
    let sender = Sender::new(1, "a@a.test");
    let peer = crew.ask(&sender, json!({})).unwrap();
    crew.accept(&peer);
    let sent = crew.send(&sender, "Anybody?").unwrap();
    assert!(take(&crew.fixture, crew.team, ann).is_empty());
    let message = Id::parse(sent["id"].as_str().unwrap());
    let consume = |agent| {
        let input = Fixture::input(json!({"agentId": agent})).unwrap();
        crew.fixture.write(consume, (crew.team, message), input)
    };
    assert_eq!(refusal(consume(ann)), (Kind::NotFound, "not_found"));
    let master = add_scrum_master(&crew.fixture, crew.team, "max");
    let read = consume(master).unwrap();
    assert!(read.read_at.is_some() && read.to_agent_id.is_none());
}

#[test]
fn a_peer_whose_mail_nobody_reads_may_send_200_messages() {
    let crew = Crew::new();
    let master = add_scrum_master(&crew.fixture, crew.team, "max");
    let sender = Sender::new(1, "a@a.test");
    let peer = crew.ask(&sender, json!({})).unwrap();
    crew.accept(&peer);
    let first = crew.send(&sender, "x").unwrap();
    (1..200).for_each(|_| drop(crew.send(&sender, "x").unwrap()));
    assert_eq!(refusal(crew.send(&sender, "x")), (Kind::Limited, "messages_unread"));
    let input = Fixture::input(json!({"agentId": master})).unwrap();
    let message = Id::parse(first["id"].as_str().unwrap());
    crew.fixture.write(consume, (crew.team, message), input).unwrap();
    assert!(crew.send(&sender, "x").is_ok());
}
