//! Reading back: what the server answers beside what it acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Caller, Reply, within};
use crate::model::{List, Model, Order, Who};
use crate::server::Server;

/// Two cores have work enough with them.
const READERS: usize = 4;

/// How long a database that was ended takes to be back, on a busy machine.
const DATABASE_BACK: Duration = Duration::from_secs(60);

/// More than a page, so that lists continue; and so few that they do it often.
const PAGE: usize = 150;

/// What was just added is among so many, also where several writers add to a list.
const FIRST: usize = 30;

/// A client that asks as different people on one connection.
pub struct Asker(Caller);

impl Asker {
    pub fn new(server: &Server) -> Self {
        Asker(Caller::anonymous(server.address(), ""))
    }

    /// Asks from now on as this one.
    pub fn be(&mut self, who: &Who) -> &Caller {
        self.0.org.clone_from(&who.org);
        let is_somebody = !who.bearer.is_empty();
        let bearer = || ("Authorization".to_string(), format!("Bearer {}", who.bearer));
        self.0.fields = is_somebody.then(bearer).into_iter().collect();
        &self.0
    }

    pub fn get(&mut self, who: &Who, path: &str) -> io::Result<Reply> {
        let caller = self.be(who);
        send(|| caller.ask("GET", &caller.in_org(path)).try_send())
    }
}

/// Sends a request, again while the answer is that the database is away: nothing of it is stored then.
pub fn send(mut ask: impl FnMut() -> io::Result<Reply>) -> io::Result<Reply> {
    within(DATABASE_BACK, "the database", || match ask() {
        Ok(reply) if reply.status == 503 && reply.json()["code"] == "store_unavailable" => None,
        end => Some(end),
    })
}

/// A comparison: the fault found, or that the server is gone.
type Compared = io::Result<Option<String>>;

fn refusal(list: &List, path: &str, reply: &Reply) -> String {
    let text: String = reply.text().chars().take(200).collect();
    format!("GET {path} of {}: {} {text}", list.who.org, reply.status)
}

/// Compares an item, read alone.
pub fn one(asker: &mut Asker, list: &List, expected: &Value) -> Compared {
    let Some(path) = list.path_of_one(expected) else { return Ok(None) };
    let reply = asker.get(&list.who, &path)?;
    if reply.status != 200 {
        return Ok(Some(refusal(list, &path, &reply)));
    }
    let difference = list.difference(expected, &reply.json());
    Ok(difference.map(|difference| format!("GET {path} of {}: {difference}", list.who.org)))
}

/// Compares the item of this key, or that there is none, at the beginning of its list; in all of it where
/// a change that changes nothing leaves an item in its place.
pub fn first_page(asker: &mut Asker, list: &List, key: &str, expected: Option<&Value>) -> Compared {
    let sign = if list.path.contains('?') { '&' } else { '?' };
    let path = format!("{}{sign}limit={FIRST}", list.path);
    let reply = asker.get(&list.who, &path)?;
    if reply.status != 200 {
        return Ok(Some(refusal(list, &path, &reply)));
    }
    let mut items = reply.items();
    if list.kind.order() == Order::LastChanged
        && !items.iter().any(|item| list.kind.key(item) == key)
    {
        items = match walk(asker, list)? {
            Ok(all) => all,
            Err(fault) => return Ok(Some(fault)),
        };
    }
    let found = items.iter().find(|item| list.kind.key(item) == key);
    let fault = match (found, expected) {
        (None, None) => None,
        (Some(found), None) => Some(format!("still has {found}")),
        (None, Some(expected)) => Some(format!("has not {expected}")),
        (Some(found), Some(expected)) => list.difference(expected, found),
    };
    Ok(fault.map(|fault| format!("the list {}: {fault}", list.name())))
}

/// Looks for something that was removed.
pub fn nothing(asker: &mut Asker, who: &Who, path: &str) -> Compared {
    let reply = asker.get(who, path)?;
    let is_gone = reply.status == 404;
    Ok((!is_gone).then(|| format!("GET {path} of {}: it was removed: {}", who.org, reply.text())))
}

/// Uses an API key.
pub fn key(asker: &mut Asker, org: &str, text: &str, name: &str, is_valid: bool) -> Compared {
    let who = Who { org: org.into(), bearer: text.into() };
    let reply = send(|| asker.be(&who).ask("GET", "/whoami").try_send())?;
    let fits = match reply.status {
        200 => is_valid && reply.json()["apiKey"]["name"] == name,
        status => !is_valid && status == 401,
    };
    let kind = if is_valid { "a valid" } else { "a revoked" };
    Ok((!fits).then(|| format!("{kind} key of {org}, {name}: {} {}", reply.status, reply.text())))
}

/// All items of a list, or the answer that is none.
fn walk(asker: &mut Asker, list: &List) -> io::Result<Result<Vec<Value>, String>> {
    let sign = if list.path.contains('?') { '&' } else { '?' };
    let begin = format!("{}{sign}limit={PAGE}", list.path);
    let (mut path, mut all) = (begin.clone(), Vec::new());
    loop {
        let reply = asker.get(&list.who, &path)?;
        if reply.status != 200 {
            return Ok(Err(refusal(list, &path, &reply)));
        }
        all.extend(reply.items());
        match reply.json()["nextCursor"].as_str() {
            Some(cursor) => path = format!("{begin}&cursor={cursor}"),
            None => return Ok(Ok(all)),
        }
    }
}

/// Compares a list with what must be in it: complete, in order, without doubles.
fn difference(list: &List, expected: &[(&str, Value)], mut found: Vec<Value>) -> Option<String> {
    let key = |item: &Value| list.kind.key(item);
    let mut wanted: Vec<_> = expected.iter().map(|(key, value)| (*key, value)).collect();
    if list.kind.order() == Order::LastChanged {
        let changed = |item: &Value| item["updatedAt"].as_str().unwrap_or_default().to_string();
        if !found.is_sorted_by(|one, next| changed(one) >= changed(next)) {
            return Some("is not in order".into());
        }
        found.sort_by_key(key);
        wanted.sort_by_key(|(key, _)| *key);
    }
    let keys: Vec<_> = found.iter().map(key).collect();
    if keys.iter().map(String::as_str).eq(wanted.iter().map(|(key, _)| *key)) {
        let mut pairs = found.iter().zip(&wanted);
        return pairs.find_map(|(found, (_, expected))| list.difference(expected, found));
    }
    let mut counts = BTreeMap::<&str, usize>::new();
    keys.iter().for_each(|key| *counts.entry(key).or_default() += 1);
    let known: BTreeSet<_> = wanted.iter().map(|(key, _)| *key).collect();
    let missing: Vec<_> = known.iter().filter(|key| !counts.contains_key(**key)).collect();
    let unknown: Vec<_> = counts.keys().filter(|key| !known.contains(**key)).collect();
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    if missing.is_empty() && unknown.is_empty() && twice.is_empty() {
        return Some("is not in order".into());
    }
    Some(format!(
        "of {} items {} are missing {:?}, {} are unknown {:?}, {} are there twice {:?}",
        wanted.len(),
        missing.len(),
        missing.iter().take(3).collect::<Vec<_>>(),
        unknown.len(),
        unknown.iter().take(3).collect::<Vec<_>>(),
        twice.len(),
        twice.iter().take(3).collect::<Vec<_>>(),
    ))
}

/// Compares a list, and each `nth` of its items read alone.
fn list(
    asker: &mut Asker,
    model: &Model,
    list: &List,
    nth: usize,
    note: &dyn Fn(String),
) -> io::Result<()> {
    let expected = model.items(list);
    match walk(asker, list)? {
        Ok(found) => {
            if let Some(difference) = difference(list, &expected, found) {
                note(format!("the list {} {difference}", list.name()));
            }
        }
        Err(fault) => note(fault),
    }
    for (at, (_, item)) in expected.iter().enumerate() {
        if (at + expected.len()).is_multiple_of(nth)
            && let Some(fault) = one(asker, list, item)?
        {
            note(fault);
        }
    }
    Ok(())
}

/// Compares all that was acknowledged: every list, every API key, and each `nth` item read by name.
pub fn everything(server: &Server, model: &Model, nth: usize) {
    let (lists, gone, keys) = (model.lists(), model.gone(), model.keys());
    let next = AtomicUsize::new(0);
    let faults = &server.faults;
    let note = |fault: String| {
        if !faults.is_enough() {
            faults.note(fault);
        }
    };
    let look = |asker: &mut Asker, at: usize| -> io::Result<bool> {
        if let Some(known) = lists.get(at) {
            list(asker, model, known, nth, &note)?;
            return Ok(true);
        }
        let at = at - lists.len();
        let fault = if let Some((who, path)) = gone.get(at) {
            nothing(asker, who, path)?
        } else if let Some((text, org, made)) = keys.get(at - gone.len()) {
            key(asker, org, text, &made.name, made.is_valid)?
        } else {
            return Ok(false);
        };
        fault.into_iter().for_each(note);
        Ok(true)
    };
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut asker = Asker::new(server);
                while !faults.is_enough() {
                    match look(&mut asker, next.fetch_add(1, Ordering::Relaxed)) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(error) => return faults.note(format!("the server is gone: {error}")),
                    }
                }
            });
        }
    });
}
