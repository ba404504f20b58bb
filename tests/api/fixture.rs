//! Fixtures: a real server on its own port, and organizations with users.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use roadstead::api::audit::{AuditEntry, ChainedEntry};
use roadstead::app::{DataDir, ServerConfig};
use roadstead::auth::{AddressProof, Membership, Role, Session, Tokens, User};
use roadstead::base::{Email, Id, Name, Slug};
use roadstead::resources::organizations::{self, NewFoundation};
use roadstead::store::{ListSource, Org, Store, View};
use serde_json::json;

use crate::client::Caller;
use crate::client::in_process::InProcess;
use crate::client::server_log::Watch;
use crate::https;
use crate::schema;

/// A running server.
pub struct Running {
    pub address: std::net::SocketAddr,
    pub store: Store,
    _server: InProcess,
}

/// No rate limit; loopback is a trusted proxy (sign-ins are counted by address), and may be called.
pub fn config() -> ServerConfig {
    let here = "127.0.0.0/8".parse().unwrap();
    let config = ServerConfig {
        rate_limit: 0,
        trusted_proxies: vec![here],
        program: Some(env!("CARGO_BIN_EXE_roadstead").into()),
        ..ServerConfig::default()
    };
    https::SITES.configure(config)
}

/// A new store in PostgreSQL.
#[cfg(feature = "postgres")]
fn in_postgres() -> Store {
    use std::sync::Arc;

    use roadstead::base::Keys;
    use roadstead::resources;
    use roadstead::store::engine::postgres::{Postgres, PostgresSettings};
    use roadstead::store::{Clock, build_indexes, table_names};

    use crate::postgres_server;
    let server = postgres_server::shared().expect("PostgreSQL is installed");
    let tables = resources::tables();
    let settings = PostgresSettings {
        schema: Some(postgres_server::new_schema()),
        ..PostgresSettings::new(server.parsed_url(), table_names(&tables))
    };
    let signals = Arc::default();
    let engine = Postgres::open(settings, Arc::clone(&signals), &|_| {}).unwrap();
    build_indexes(&mut engine.building(), &tables, &|_| {}).unwrap();
    let clock = Clock::system();
    let keys = Keys::new(clock.random());
    Store::start_over(Arc::new(engine), signals, clock, keys, &tables).unwrap()
}

/// The server shared by all tests that can; each uses its own organizations.
static SHARED: LazyLock<Running> = LazyLock::new(|| Running::start(config()));

impl Running {
    /// A server for one test.
    pub fn start(config: ServerConfig) -> Self {
        Self::listen("127.0.0.1:0", config)
    }

    /// Like `start`, on another address.
    pub fn listen(at: &str, config: ServerConfig) -> Self {
        #[cfg(feature = "postgres")]
        if std::env::var("ROADSTEAD_TEST_STORE").is_ok_and(|store| store == "postgres") {
            return Self::serve(in_postgres(), at, config);
        }
        let place = tempfile::tempdir().unwrap();
        let store = DataDir::at(place.path()).create().unwrap();
        // The open files stay usable, and nothing is left behind however the test ends.
        drop(place);
        Self::serve(store, at, config)
    }

    /// Like `start`, with an existing store.
    pub fn serve(store: Store, at: &str, config: ServerConfig) -> Self {
        let server = InProcess::serve(store.clone(), at, config);
        let port = server.address.port();
        Running { address: ([127, 0, 0, 1], port).into(), store, _server: server }
    }

    /// Stops it as SIGTERM does.
    pub fn stop(self) {}

    /// A client without a credential.
    pub fn anonymous(&self) -> Caller {
        Caller::anonymous(self.address, "nowhere")
    }

    /// A new organization with users.
    pub fn fixture(&self) -> Fixture {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let slug = format!("org-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let founding = NewFoundation {
            slug: Slug::parse(&*slug).unwrap(),
            name: Name::parse("An organization").unwrap(),
            email: Email::parse(format!("ada@{slug}.test")).unwrap(),
            user_name: Name::parse("Ada").unwrap(),
            password_hash: None,
            api_key: Some(Name::parse("first").unwrap()),
        };
        let founding =
            self.store.write_blocking(Id::NIL, move |tx| organizations::bootstrap(tx, &founding));
        let founded = founding.unwrap();
        let mut anonymous = Caller::anonymous(self.address, &slug);
        anonymous.check = schema::check;
        let owner = anonymous.with_bearer(&self.session(founded.user.id));
        let key = anonymous.with_key(&founded.key.unwrap().1);
        let org = founded.organization.id;
        let mut fixture = Fixture {
            address: self.address,
            store: self.store.clone(),
            slug,
            org,
            owner_id: founded.user.id.to_string(),
            admin: anonymous.clone(),
            member: anonymous.clone(),
            member_id: String::new(),
            anonymous,
            owner,
            key,
            _watch: Watch::new(),
        };
        fixture.admin = self.person(&fixture, "grace", Role::Admin).0;
        (fixture.member, fixture.member_id) = self.person(&fixture, "ben", Role::Member);
        fixture
    }

    /// Adds a new user to an organization; returns their session and id.
    pub fn person(&self, fixture: &Fixture, name: &str, role: Role) -> (Caller, String) {
        let org = fixture.org;
        let email = Email::parse(format!("{name}@{}.test", fixture.slug)).unwrap();
        let name = Name::parse(name).unwrap();
        let user = self.store.write_blocking(Id::NIL, move |tx| {
            let user = User {
                id: tx.new_id(),
                email: email.clone(),
                name: name.clone(),
                image: None,
                password: None,
                session_generation: 0,
                service_of: None,
                created_at: tx.now(),
                proof: AddressProof::Proved,
                keys_from: None,
            };
            tx.insert(&user)?;
            let joined_at = tx.now();
            tx.insert(&Membership { user: user.id, org, role, email_verified: true, joined_at })?;
            Ok(user.id)
        });
        let user = user.unwrap();
        (fixture.anonymous.with_bearer(&self.session(user)), user.to_string())
    }

    /// The token of a new session.
    pub fn session(&self, user: Id<User>) -> String {
        self.session_for(user, 3600)
    }

    /// The token of a session that expires after `secs` seconds.
    pub fn session_for(&self, user: Id<User>, secs: i64) -> String {
        let session = self.store.write_blocking(Id::NIL, move |tx| {
            let (id, created_at) = (tx.new_id(), tx.now());
            let expires_at = created_at.plus_secs(secs);
            let generation = tx.fetch::<User>(&user)?.session_generation;
            let session = Session { id, user, generation, created_at, expires_at };
            tx.insert(&session)?;
            Ok(session)
        });
        Tokens::new(self.store.keys()).issue(&session.unwrap()).unwrap()
    }
}

/// An organization with an owner, an admin and a member.
pub struct Fixture {
    pub address: std::net::SocketAddr,
    pub store: Store,
    pub slug: String,
    pub org: Id<Org>,
    /// Without a credential.
    pub anonymous: Caller,
    /// Ada, in a session.
    pub owner: Caller,
    pub owner_id: String,
    /// Ada's API key.
    pub key: Caller,
    /// Grace, in a session.
    pub admin: Caller,
    /// Ben, in a session.
    pub member: Caller,
    pub member_id: String,
    _watch: Watch,
}

impl Fixture {
    /// A new organization on the server that all tests share.
    pub fn new() -> Self {
        SHARED.fixture()
    }

    /// All audit entries of the organization, whether they are in its chain yet or not.
    pub fn audited(&self) -> Vec<AuditEntry> {
        let read = |view: &View| {
            let chained = view.all::<ChainedEntry>(ListSource::TABLE, &())?;
            let mut entries: Vec<_> = chained.into_iter().map(|chained| chained.entry).collect();
            let pending = view.all::<AuditEntry>(ListSource::TABLE, &())?;
            entries.extend(pending.into_iter().filter(|entry| entry.org == self.org));
            Ok(entries)
        };
        self.store.read_now(self.org, read).unwrap()
    }

    /// Waits until all audit entries so far are in the chain.
    pub fn chained(&self) {
        let is_chained = || {
            let read = |view: &View| view.all::<AuditEntry>(ListSource::TABLE, &());
            let pending = self.store.read_now(self.org, read).unwrap();
            (!pending.iter().any(|entry| entry.org == self.org)).then_some(())
        };
        crate::client::eventually("the audit entries are in the chain", is_chained);
    }

    /// Adds a user to the organization as a member.
    pub fn admit(&self, user: Id<User>) {
        let org = self.org;
        let joined = self.store.write_blocking(Id::NIL, move |tx| {
            let joined_at = tx.now();
            let role = Role::Member;
            tx.insert(&Membership { user, org, role, email_verified: false, joined_at })
        });
        joined.unwrap();
    }

    /// Another user of the organization; returns their session and id.
    pub fn person(&self, name: &str, role: Role) -> (Caller, String) {
        SHARED.person(self, name, role)
    }
}

/// A new API key of a user in a session.
#[track_caller]
pub fn key_of(session: &Caller) -> Caller {
    let made = session.post("/api-keys", json!({"name": "a key"})).ok();
    session.with_key(made["key"].as_str().unwrap())
}

/// An id that does not exist.
pub fn unknown_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
