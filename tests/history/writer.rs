//! A client that writes, and compares what it has written at once.

mod organizations;

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::change::{Change, Effect};
use crate::client::Reply;
use crate::desk::Desk;
use crate::dice::Dice;
use crate::model::{Kind, List, Model, Who};
use crate::reading::{self, Asker};
use crate::server::{Faults, Server};
use organizations::Account;

/// How many of a hundred changes are new organizations. Each has some hundred rows.
const FOUNDED: u64 = 50;

/// Wakes of an agent are fetched when there are so many.
const MANY_WAKES: usize = 12;

/// Why a writer stops.
pub enum Stop {
    /// The server is gone.
    Lost,
    /// A fault was noted.
    Fault,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Stop::Lost
    }
}

type Done<T> = Result<T, Stop>;

/// A client that writes.
pub struct Writer {
    pub model: Model,
    pub desks: Vec<Desk>,
    /// How many changes were acknowledged.
    pub acknowledged: usize,
    /// Whether lost answers are to be expected, so that requests are such that they can be repeated.
    pub is_careful: bool,
    faults: Arc<Faults>,
    asker: Asker,
    dice: Dice,
    /// Its number, with which its names end.
    number: usize,
    count: usize,
    account: Option<Account>,
    /// The owners of the organizations.
    owners: Vec<Arc<Who>>,
    unanswered: Option<Change>,
}

impl Writer {
    pub fn new(server: &Server, number: usize, dice: Dice) -> Self {
        Writer {
            model: Model::default(),
            desks: Vec::new(),
            acknowledged: 0,
            is_careful: false,
            faults: server.faults.clone(),
            asker: Asker::new(server),
            dice,
            number,
            count: 0,
            account: None,
            owners: vec![server.owner.clone()],
            unanswered: None,
        }
    }

    /// Asks the server at its new address.
    pub fn connect(&mut self, server: &Server) {
        self.asker = Asker::new(server);
    }

    /// A random change: of an organization, of a desk, or at one.
    pub fn step(&mut self) -> Done<()> {
        if self.desks.is_empty() || self.dice.below(100) == 0 {
            let owner = self.dice.below(self.owners.len() as u64) as usize;
            return self.open_desk(self.owners[owner].clone());
        }
        if self.dice.below(100) < FOUNDED {
            return self.found().map(drop);
        }
        // New ones as often as all others.
        let all = self.desks.len() as u64;
        let is_new = self.dice.below(2) == 0;
        let from = if is_new { all.saturating_sub(4) } else { 0 };
        let at = from + self.dice.below(all - from);
        self.work_at(at as usize)
    }

    fn work_at(&mut self, at: usize) -> Done<()> {
        let wakes = &self.desks[at].wakes;
        if self.model.len(wakes) >= MANY_WAKES && self.model.is_certain(wakes) {
            let count = 1 + self.dice.below(MANY_WAKES as u64) as usize;
            let leased = self.lease_wakes(at, count)?;
            return self.acknowledge(at, &leased);
        }
        self.change_at(at, Desk::next)
    }

    /// A change of a desk's own choice, if it has one.
    pub fn change_at(
        &mut self,
        at: usize,
        choose: impl FnOnce(&Desk, &Model, &mut Dice) -> Option<Change>,
    ) -> Done<()> {
        let desk = &mut self.desks[at];
        desk.count += 1;
        match choose(desk, &self.model, &mut self.dice) {
            Some(change) => self.carry_out(change).map(drop),
            None => Ok(()),
        }
    }

    fn unique(&mut self, word: &str) -> String {
        self.count += 1;
        format!("{word}-{}-{}", self.count, self.number)
    }

    // ── Wakes ────────────────────────────────────────────────────────────────

    /// Leases the oldest wakes of a desk's agent; returns their ids.
    pub fn lease_wakes(&mut self, at: usize, count: usize) -> Done<Vec<Value>> {
        let (list, worker) = (self.desks[at].wakes.clone(), self.desks[at].worker.clone());
        let path = wakes_of(&list);
        let fetched = match self.asker.get(&worker, &format!("{path}?limit={count}")) {
            Ok(reply) if reply.status == 200 => reply.items(),
            Ok(reply) => return self.fault(format!("GET {path}: {}", shown(&reply))),
            Err(_) => {
                self.model.forget(&list);
                return Err(Stop::Lost);
            }
        };
        let mut expected = self.model.items(&list);
        expected.truncate(count);
        let key = |wake: &Value| list.kind.key(wake);
        let is_same = fetched.iter().map(key).eq(expected.iter().map(|(key, _)| key.to_string()));
        if !is_same || fetched.iter().any(|wake| wake["attempts"] != 1) {
            let fault = format!("wakes of {path}: {fetched:?}, expected {expected:?}");
            return self.fault(fault);
        }
        fetched.iter().for_each(|wake| self.model.remove(&list, &key(wake)));
        Ok(fetched.iter().map(|wake| wake["id"].clone()).collect())
    }

    /// Acknowledges leased wakes of a desk's agent.
    pub fn acknowledge(&mut self, at: usize, ids: &[Value]) -> Done<()> {
        let desk = &self.desks[at];
        let path = format!("{}/ack", wakes_of(&desk.wakes));
        let ack = Change::post(&desk.worker, path, json!({"wakeIds": ids}));
        let ack = ack.answered(json!({"acknowledged": ids.len()}));
        self.carry_out(ack).map(drop)
    }

    // ── Requests ─────────────────────────────────────────────────────────────

    /// Sends a request, and compares what it has changed.
    pub fn carry_out(&mut self, mut change: Change) -> Done<Value> {
        if self.is_careful && change.method == "POST" && change.loses.is_empty() {
            change.key = self.unique("k");
        }
        match self.send(&change) {
            Ok(reply) => self.learn(&change, &reply),
            Err(_) => {
                self.unanswered = Some(change);
                Err(Stop::Lost)
            }
        }
    }

    /// Repeats the request whose answer was lost: it is done now, or was before.
    pub fn repeat(&mut self) -> Done<()> {
        let Some(change) = self.unanswered.take() else { return Ok(()) };
        if !change.loses.is_empty() {
            change.loses.iter().for_each(|list| self.model.forget(list));
            return Ok(());
        }
        let mut reply = self.send(&change)?;
        if change.method == "DELETE" && reply.status == 404 {
            reply.status = 200;
        }
        self.learn(&change, &reply).map(drop)
    }

    fn send(&mut self, change: &Change) -> io::Result<Reply> {
        let caller = self.asker.be(&change.who);
        if change.method == "DELETE" {
            return reading::send(|| caller.ask("DELETE", &caller.in_org(&change.path)).try_send());
        }
        let mut ask = caller.ask(change.method, &change.path).org_json(change.body.clone());
        if !change.key.is_empty() {
            ask = ask.with("Idempotency-Key", &change.key);
        }
        reading::send(|| ask.try_send())
    }

    fn learn(&mut self, change: &Change, reply: &Reply) -> Done<Value> {
        let answer = reply.json();
        let fits = match change.refusal {
            Some((status, code)) => reply.status == status && answer["code"] == code,
            None => {
                reply.status == 200 && change.answer.as_ref().is_none_or(|wanted| *wanted == answer)
            }
        };
        if !fits {
            let (method, path, org) = (change.method, &change.path, &change.who.org);
            return self.fault(format!("{method} {path} of {org}: {}", shown(reply)));
        }
        self.acknowledged += 1;
        let mut removed = Vec::new();
        for effect in &change.effects {
            match effect {
                Effect::Answer(list) => self.model.set(list, &list.kind.key(&answer), &answer),
                Effect::Fields(list, key, fields) => self.model.set(list, key, fields),
                Effect::Removal(list, key) => {
                    removed.extend(self.model.get(list, key).map(|item| (list, item)));
                    self.model.remove(list, key);
                }
                Effect::Wake(list) => {
                    let id = answer["id"].as_str().unwrap_or_default();
                    let wake = json!({"reason": "direct_message", "messageId": id, "attempts": 0});
                    self.model.set(list, id, &wake);
                }
            }
        }
        for (list, item) in removed {
            self.miss(list, &item)?;
        }
        for effect in &change.effects {
            match effect {
                Effect::Answer(list) => self.find(list, &list.kind.key(&answer))?,
                Effect::Fields(list, key, _) => self.find(list, key)?,
                Effect::Removal(..) | Effect::Wake(_) => {}
            }
        }
        Ok(answer)
    }

    fn expect(&mut self, list: &List, key: &str, item: Value) -> Done<()> {
        self.model.set(list, key, &item);
        self.find(list, key)
    }

    // ── Reading back ─────────────────────────────────────────────────────────

    /// Looks for an item by its name or in its list, now and then in both.
    fn find(&mut self, list: &List, key: &str) -> Done<()> {
        let Some(item) = self.model.get(list, key) else { return Ok(()) };
        let mut fault = reading::one(&mut self.asker, list, &item)?;
        let has_name = list.path_of_one(&item).is_some();
        // Where it has a name it may be far from the beginning of its list.
        if fault.is_none() && !has_name {
            fault = reading::first_page(&mut self.asker, list, key, Some(&item))?;
        }
        if fault.is_none()
            && list.kind == Kind::ApiKeys
            && let Some((text, name)) = self.model.key(key)
        {
            fault = reading::key(&mut self.asker, &list.who.org, &text, &name, true)?;
        }
        fault.map_or(Ok(()), |fault| self.fault(fault))
    }

    /// Looks for an item that was removed.
    fn miss(&mut self, list: &List, item: &Value) -> Done<()> {
        let key = list.kind.key(item);
        let mut fault = match list.path_of_one(item) {
            Some(path) => reading::nothing(&mut self.asker, &list.who, &path)?,
            None => reading::first_page(&mut self.asker, list, &key, None)?,
        };
        if fault.is_none()
            && list.kind == Kind::ApiKeys
            && let Some((text, name)) = self.model.key(&key)
        {
            fault = reading::key(&mut self.asker, &list.who.org, &text, &name, false)?;
        }
        fault.map_or(Ok(()), |fault| self.fault(fault))
    }

    fn fault<T>(&self, fault: String) -> Done<T> {
        self.faults.note(fault);
        Err(Stop::Fault)
    }
}

/// The path at which the wakes of a list are leased.
fn wakes_of(list: &List) -> &str {
    list.path.trim_end_matches("?peek=true")
}

fn shown(reply: &Reply) -> String {
    let text: String = reply.text().chars().take(200).collect();
    format!("{} {text}", reply.status)
}
