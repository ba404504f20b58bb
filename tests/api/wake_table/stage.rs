//! Where a case is run: a new team, and what is woken in it. New wakes are looked for as soon as
//! the request is answered: one that a job or a sweep makes later is not seen.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use roadstead::base::{Keys, Time};
use roadstead::resources;
use roadstead::store::engine::LoggedRedb;
use roadstead::store::{Clock, Store, build_indexes, table_names};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Case, Variant, alternatives};
use crate::client::{Caller, Connection, Reply, eventually};
use crate::exchange::Outside;
use crate::fixture::{Fixture, Running, config};
use crate::https::Site;

/// The Scrum Master, as the table calls it.
const SCRUM_MASTER: &str = "Scrum Master";

/// So long a test listens for what is handed out: longer than a long poll that misses its signal.
const LISTEN_SECS: u32 = 30;

// ── The world ────────────────────────────────────────────────────────────────

/// Two organizations, of which one has a clock of its own.
pub struct World {
    usual: Fixture,
    clocked: OnceCell<Clocked>,
}

struct Clocked {
    acme: Fixture,
    _running: Running,
    _place: TempDir,
}

impl World {
    pub fn new() -> Self {
        World { usual: furnished(Fixture::new()), clocked: OnceCell::new() }
    }

    fn clocked(&self) -> &Fixture {
        &self.clocked.get_or_init(Clocked::new).acme
    }
}

impl Clocked {
    /// In Tokyo it is April.
    fn new() -> Self {
        let march = Time::parse("2026-03-31T20:00:00Z").unwrap();
        let (place, tables) = (tempfile::tempdir().unwrap(), resources::tables());
        let file = place.path().join("test.redb");
        let mut storage = LoggedRedb::create(&file, table_names(&tables)).unwrap();
        build_indexes(&mut storage, &tables, &|_| {}).unwrap();
        let store = Store::start(storage, Clock::at(march), Keys::new([7; 32]), &tables).unwrap();
        let running = Running::serve(store, "127.0.0.1:0", config());
        Clocked { acme: furnished(running.fixture()), _running: running, _place: place }
    }
}

/// Makes the agents, and has an organization told of what was due before 2020-02-02: what comes to be due
/// before that wakes at once, and not with the next look at the clock.
fn furnished(acme: Fixture) -> Fixture {
    for name in ["ann", "bob", "sam", "eve"] {
        acme.owner.post("/agents", json!({"stableKey": name, "name": name})).ok();
    }
    let team = json!({"slug": "late", "name": "Late"});
    let team = format!("/teams/{}", acme.owner.post("/teams", team).id());
    let sam = json!({"stableKey": "sam", "role": "scrum_master"});
    let sam = acme.owner.post(&format!("{team}/agents"), sam).id();
    let task = json!({"title": "t", "dueAt": "2020-02-02T00:00:00Z"});
    acme.owner.post(&format!("{team}/tasks"), task).ok();
    let wakes = format!("{team}/agents/{sam}/wakes?peek=true");
    eventually("what was due is told", || acme.owner.get(&wakes).items().pop());
    acme
}

// ── A stage ──────────────────────────────────────────────────────────────────

/// A wake that is shown: agent, id and reason.
type Shown = (String, String, String);

/// A new team with two agents and a Scrum Master, in which one case is run.
pub struct Stage<'a> {
    pub acme: &'a Fixture,
    pub team: String,
    pub slug: String,
    pub ann: String,
    pub bob: String,
    pub sam: String,
    case: &'a Case,
    variant: Variant,
    /// Agents by the words of the table.
    roles: Vec<(&'static str, String)>,
    listening: Vec<(String, Connection)>,
    /// The ids of wakes that have failed.
    failed: Vec<String>,
    outside: Option<Outside>,
    acting: Option<String>,
    woken: Option<BTreeSet<(String, String)>>,
}

impl<'a> Stage<'a> {
    pub fn new(world: &'a World, case: &'a Case, variant: Variant) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let acme = if case.has_clock { world.clocked() } else { &world.usual };
        let slug = format!("crew-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let team = acme.owner.post("/teams", json!({"slug": slug, "name": "Crew"})).id();
        let hire = |name: &str, role: &str| {
            let agent = json!({"stableKey": name, "role": role});
            acme.owner.post(&format!("/teams/{team}/agents"), agent).id()
        };
        let (ann, bob, sam) =
            (hire("ann", "member"), hire("bob", "member"), hire("sam", "scrum_master"));
        let roles = vec![(SCRUM_MASTER, sam.clone())];
        let (listening, failed, outside) = (Vec::new(), Vec::new(), None);
        let (acting, woken) = (None, None);
        Stage {
            acme,
            team,
            slug,
            ann,
            bob,
            sam,
            case,
            variant,
            roles,
            listening,
            failed,
            outside,
            acting,
            woken,
        }
    }

    // ── What cases prepare ───────────────────────────────────────────────────

    /// Says that an agent is what the table calls so.
    pub fn role(&mut self, role: &'static str, agent: &str) {
        self.roles.push((role, agent.into()));
    }

    pub fn owner(&self) -> &Caller {
        &self.acme.owner
    }

    /// A path below the team's.
    pub fn path(&self, below: &str) -> String {
        format!("/teams/{}{below}", self.team)
    }

    pub fn get(&self, below: &str) -> Reply {
        self.owner().get(&self.path(below))
    }

    #[track_caller]
    pub fn post(&self, below: &str, body: Value) -> Value {
        self.owner().post(&self.path(below), body).ok()
    }

    #[track_caller]
    pub fn patch(&self, below: &str, body: Value) {
        self.owner().patch(&self.path(below), body).ok();
    }

    /// Makes something below the team's path; its id.
    #[track_caller]
    pub fn make(&self, below: &str, body: Value) -> String {
        self.owner().post(&self.path(below), body).id()
    }

    /// Makes a task; its id.
    #[track_caller]
    pub fn task(&self, mut body: Value) -> String {
        body["title"] = json!("t");
        self.make("/tasks", body)
    }

    /// Sends mail to an agent.
    #[track_caller]
    pub fn mail(&self, agent: &str) -> String {
        self.make("/messages", json!({"toAgentId": agent, "body": "b"}))
    }

    /// A new outside agent, which makes the requests to `/exchange` from now on; its handle.
    pub fn outsider(&mut self) -> String {
        let (site, outside) = (Site::new(), Outside::new(&self.acme.anonymous));
        let handle = site.name("scout", &outside.key.pubkey());
        self.outside = Some(outside);
        handle
    }

    /// A new outside agent that has asked to write to the team; its id.
    #[track_caller]
    pub fn peer(&mut self) -> String {
        let body = json!({"handle": self.outsider(), "message": "May I?"});
        let path = format!("/exchange/{}/{}/requests", self.acme.slug, self.slug);
        self.outside.as_ref().unwrap().post(&path, body).id()
    }

    /// The same, accepted.
    #[track_caller]
    pub fn accepted_peer(&mut self) -> String {
        let peer = self.peer();
        self.post(&format!("/exchange/peers/{peer}/accept"), json!({}));
        peer
    }

    /// Has time pass.
    pub fn pass_secs(&self, secs: i64) {
        self.acme.store.clock().advance_secs(secs);
    }

    /// Notes the failed wakes of an agent, of which there is one at least.
    pub fn note_failed(&mut self, agent: &str) {
        let path = self.path(&format!("/agents/{agent}/wakes/failed"));
        let failed = eventually("failing", || {
            Some(self.acme.owner.get(&path).items()).filter(|items| !items.is_empty())
        });
        self.failed = failed.iter().map(|item| text(&item["wake"], "id")).collect();
    }

    /// Listens for what is handed to an agent; nothing is as yet.
    #[track_caller]
    pub fn listen(&mut self, agent: &str) {
        let path = self.path(&format!("/agents/{agent}/wakes"));
        assert_eq!(self.owner().get(&path).items(), Vec::<Value>::new());
        let mut connection = Connection::open(self.acme.address).unwrap();
        let path = self.owner().in_org(&format!("{path}?wait={LISTEN_SECS}"));
        connection.write(&self.owner().ask("GET", &path).to_bytes()).unwrap();
        self.listening.push((agent.into(), connection));
    }

    // ── The request ──────────────────────────────────────────────────────────

    /// Makes the request of the case with these parameters of its path, and notes whom it wakes.
    #[track_caller]
    pub fn ask(&mut self, params: &[(&str, &str)], mut body: Value) -> Value {
        if self.variant == Variant::WithoutScrumMaster {
            self.owner().delete(&self.path(&format!("/agents/{}", self.sam))).ok();
            self.roles.retain(|(role, _)| *role != SCRUM_MASTER);
            self.listening.retain(|(agent, _)| *agent != self.sam);
        }
        self.act(&mut body);
        let before = self.shown();
        let reply = self.send(params, &body);
        assert_eq!(reply.status, 200, "{} {body}: {}", self.case.request, reply.text());
        let word = |id: &String, reason: &String| {
            if self.failed.contains(id) { "failed".into() } else { reason.clone() }
        };
        let mut woken = BTreeSet::new();
        for (agent, connection) in &mut self.listening {
            for wake in connection.reply(false).unwrap().items() {
                let shown = (agent.clone(), text(&wake, "id"), text(&wake, "reason"));
                let was_there = before.contains(&shown);
                let word = if was_there { "held back".into() } else { word(&shown.1, &shown.2) };
                woken.insert((agent.clone(), word));
            }
        }
        for (agent, id, reason) in self.shown().difference(&before) {
            woken.insert((agent.clone(), word(id, reason)));
        }
        let named = woken.into_iter().map(|(agent, word)| (self.name(&agent), word)).collect();
        self.woken = Some(named);
        reply.json()
    }

    /// Notes that a wake of an agent was posted.
    pub fn was_posted(&mut self, agent: &str) {
        let posted = (self.name(agent), "posted".to_string());
        self.woken.get_or_insert_default().insert(posted);
    }

    /// Names who acts, if the variant has somebody act.
    fn act(&mut self, body: &mut Value) {
        let Variant::ActingFor(line) = self.variant else { return };
        let (who, _) = self.case.lines[line];
        let agent = alternatives(who).find_map(|role| self.agents(role).first().copied());
        if let Some(agent) = agent {
            body["fromAgentId"] = json!(agent);
            self.acting = Some(agent.into());
        }
    }

    #[track_caller]
    fn send(&self, params: &[(&str, &str)], body: &Value) -> Reply {
        let (method, template) = self.case.request.split_once(' ').unwrap();
        let own = [
            ("teamId", self.team.as_str()),
            ("orgSlug", self.acme.slug.as_str()),
            ("teamSlug", self.slug.as_str()),
        ];
        let mut path = template.to_string();
        for (name, value) in params.iter().chain(&own) {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        assert!(!path.contains('{'), "{path}");
        if path.starts_with("/exchange/") {
            return self.outside.as_ref().unwrap().send(method, &path, Some(body));
        }
        match method {
            "DELETE" => self.owner().delete(&path),
            _ => self.owner().ask(method, &path).org_json(body.clone()).send(),
        }
    }

    /// The wakes of all agents of the team; none if it is gone.
    #[track_caller]
    fn shown(&self) -> BTreeSet<Shown> {
        let agents = self.get("/agents");
        let agents = if agents.status == 404 { Vec::new() } else { agents.items() };
        let mut shown = BTreeSet::new();
        for agent in agents.iter().map(|agent| text(agent, "id")) {
            let wakes = self.get(&format!("/agents/{agent}/wakes?peek=true")).items();
            let keys = wakes.iter().map(|wake| (text(wake, "id"), text(wake, "reason")));
            shown.extend(keys.map(|(id, reason)| (agent.clone(), id, reason)));
        }
        shown
    }

    // ── What came of it ──────────────────────────────────────────────────────

    /// The agents that the table calls so.
    pub fn agents(&self, role: &str) -> Vec<&str> {
        let of_role = self.roles.iter().filter(|(known, _)| *known == role);
        of_role.map(|(_, agent)| agent.as_str()).collect()
    }

    /// The agent that the request acted for.
    pub fn acting(&self) -> Option<&str> {
        self.acting.as_deref()
    }

    /// Whom the request woke, by name, and by which wake; nothing before there was one.
    pub fn woken(&self) -> Option<&BTreeSet<(String, String)>> {
        self.woken.as_ref()
    }

    /// The name of an agent, for messages.
    pub fn name(&self, agent: &str) -> String {
        let known = [(&self.ann, "ann"), (&self.bob, "bob"), (&self.sam, "sam")];
        let name = known.iter().find(|(id, _)| *id == agent).map(|(_, name)| *name);
        name.unwrap_or(agent).to_string()
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).into()
}
