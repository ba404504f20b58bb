//! The stream that tells pages of changes ends with the rights of whoever has opened it.

use std::sync::mpsc;

use serde_json::json;

use crate::client::{Connection, eventually};
use crate::server::Running;
use crate::visitor::Visitor;

/// Opens the stream of an organization; the connection once it has begun, or the status.
fn listen(visitor: &Visitor) -> Result<Connection, u16> {
    let mut connection = visitor.connect("/o/acme/live");
    let (status, _) = connection.head().unwrap();
    if status != 200 {
        return Err(status);
    }
    assert_eq!(connection.chunk().unwrap(), "retry: 2000\n\n");
    Ok(connection)
}

const CHANGED: &str = "event: changed\ndata: {}\n\n";

/// Reads to the end of a stream, which comes before its next sign of life.
#[track_caller]
fn ends(connection: &mut Connection) {
    loop {
        match connection.chunk().unwrap() {
            end if end.is_empty() => return,
            event => assert_eq!(event, CHANGED, "the stream goes on"),
        }
    }
}

#[test]
fn a_stream_ends_with_the_membership_and_with_the_session() {
    let server = Running::new();
    for name in ["ben", "cid"] {
        server.add(name, "member");
    }
    let ada = server.ada();
    let [mut ben, mut cid] = ["ben", "cid"].map(|name| {
        let visitor = server.signed_in(&format!("{name}@acme.test"));
        (listen(&visitor).unwrap(), visitor)
    });
    ada.post("/teams", json!({"slug": "one", "name": "One"})).ok();
    assert_eq!(ben.0.chunk().unwrap(), CHANGED);
    assert_eq!(cid.0.chunk().unwrap(), CHANGED);

    let members = ada.get("/organizations/members").items();
    let id = members.iter().find(|one| one["email"] == "ben@acme.test").unwrap();
    let path = format!("/organizations/members/{}", id["userId"].as_str().unwrap());
    ada.delete(&path).ok();
    ends(&mut ben.0);
    let page = cid.1.open("/");
    assert_eq!(cid.1.send(&page, "/sign-out", &[]).status, 303);
    ends(&mut cid.0);
}

#[test]
fn changes_are_told_while_rights_change_all_the_time() {
    let server = Running::new();
    let ada = server.ada();
    let mut stream = listen(&server.signed_in("ada@acme.test")).unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(stream.chunk().unwrap()));
    ada.post("/teams", json!({"slug": "one", "name": "One"})).ok();
    let first = eventually("the change is told", || {
        let key = ada.post("/api-keys", json!({"name": "CI"})).id();
        ada.delete(&format!("/api-keys/{key}")).ok();
        told.try_recv().ok()
    });
    assert_eq!(first, CHANGED);
}

#[test]
fn one_session_has_as_many_streams_as_one_user_of_the_api() {
    let server = Running::new();
    let ada = server.signed_in("ada@acme.test");
    let mut open: Vec<_> = (0..128).map(|_| listen(&ada).unwrap()).collect();
    assert_eq!(listen(&ada).err(), Some(503));
    drop(open.pop());
    open.extend(Some(eventually("a place is free", || listen(&ada).ok())));
}
