//! The fixture of the resources' tests: a real store in memory that runs attempts twice at random,
//! a clock that only the test advances, and an organization with two users.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::api::{Args, Origin, Principal, Req, ServerInfo, Uploaded};
use crate::auth::{
    AddressProof, Caller, Credential, Identity, Membership, Organization, Role, User,
};
use crate::base::{Email, Id, Keys, Name, Result, Slug, Time};
use crate::store::engine::{Counting, GroupCommit, Memory};
use crate::store::{Clock, Org, PageRequest, Signals, Store, Tx, View, build_indexes};

/// A store with an organization and its users.
#[derive(Clone)]
pub struct Fixture {
    pub store: Store,
    /// The organization `acme`.
    pub org: Id<Org>,
    /// Its owner, in a session.
    pub owner: Principal,
    /// An ordinary member, in a session.
    pub member: Principal,
}

/// The user of a caller of an organization.
pub fn user(who: &Principal) -> Id<User> {
    match who {
        Principal::Caller(caller) => caller.user(),
        _ => unreachable!("a caller of an organization"),
    }
}

/// 2026-01-15T12:00:00Z.
pub const NOON: Time = Time::from_millis(1_768_478_400_000);

impl Fixture {
    /// Creates a store with the organization `acme`, its owner Ada and its member Ben.
    pub fn new() -> Self {
        Self::over(Store::in_memory(Clock::at(NOON), &crate::resources::tables()))
    }

    /// The same with a store that adds what is read of a table to a count.
    pub fn counting(table: &'static str, count: Arc<AtomicUsize>) -> Self {
        let (mut storage, signals) = (Memory::default(), Arc::<Signals>::default());
        let tables = crate::resources::tables();
        build_indexes(&mut storage, &tables, &|_| {}).unwrap();
        let engine = GroupCommit::start(storage, signals.clone()).unwrap();
        let engine = Counting::over(Arc::new(engine), table, count);
        let (clock, keys) = (Clock::at(NOON), Keys::new([7; 32]));
        Self::over(Store::start_over(engine, signals, clock, keys, &tables).unwrap())
    }

    fn over(store: Store) -> Self {
        let org = store.write_blocking(Id::NIL, |tx| organization(tx, "acme")).unwrap();
        let owner = person(&store, org, "ada", Role::Owner);
        let member = person(&store, org, "ben", Role::Member);
        Fixture { store, org, owner, member }
    }

    /// Creates another organization in the same store; returns it with its owner.
    pub fn other_org(&self, slug: &'static str) -> (Id<Org>, Principal) {
        let org = self.store.write_blocking(Id::NIL, move |tx| organization(tx, slug)).unwrap();
        (org, person(&self.store, org, "eve", Role::Owner))
    }

    /// Adds another member of `acme` with this role.
    pub fn person(&self, name: &'static str, role: Role) -> Principal {
        person(&self.store, self.org, name, role)
    }

    /// Removes a member of `acme`.
    pub fn leave(&self, who: &Principal) -> Result<()> {
        let key = (user(who), self.org);
        self.store.write_blocking(self.org, move |tx| {
            let membership: Membership = tx.fetch(&key)?;
            tx.remove(&membership)
        })
    }

    /// Runs a writing operation of `acme` as its member: `fixture.write(task::create, team, input)`.
    pub fn write<P, I, O>(
        &self,
        operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
        params: P,
        input: I,
    ) -> Result<O>
    where
        P: Send + 'static,
        I: Send + 'static,
        O: Send + 'static,
    {
        self.write_as(&self.member, operation, params, input)
    }

    /// The same as another caller.
    pub fn write_as<P, I, O>(
        &self,
        who: &Principal,
        operation: fn(&mut Tx, &Req<P, I>) -> Result<O>,
        params: P,
        input: I,
    ) -> Result<O>
    where
        P: Send + 'static,
        I: Send + 'static,
        O: Send + 'static,
    {
        let who = who.clone();
        let args = args(params, input);
        let org = org_of(&who);
        self.store.write_blocking(org, move |tx| operation(tx, &Req::new(&args, &who)))
    }

    /// Runs a reading operation of `acme` as its member.
    pub fn read<P, I, O>(
        &self,
        operation: fn(&View, &Req<P, I>) -> Result<O>,
        params: P,
        input: I,
    ) -> Result<O> {
        self.read_as(&self.member, operation, params, input)
    }

    /// The same as another caller.
    pub fn read_as<P, I, O>(
        &self,
        who: &Principal,
        operation: fn(&View, &Req<P, I>) -> Result<O>,
        params: P,
        input: I,
    ) -> Result<O> {
        let args = args(params, input);
        self.store.read_now(org_of(who), |view| operation(view, &Req::new(&args, who)))
    }

    /// Reads an input as a client would send it.
    pub fn input<I: crate::api::Input>(json: serde_json::Value) -> Result<I> {
        use crate::api::read::{SourceFormat, UnknownFields, read_input};
        read_input(&json, SourceFormat::Body, UnknownFields::Refused(Default::default()))
    }

    /// Advances the clock.
    pub fn pass_secs(&self, secs: i64) {
        self.store.clock().advance_secs(secs);
    }

    /// Completes deferred removals; returns the number of steps.
    pub fn complete_removals(&self) -> usize {
        (0..1000)
            .position(|_| {
                !self.store.write_blocking(self.org, |tx| tx.continue_removals()).unwrap()
            })
            .expect("removals end after a bounded number of steps")
    }

    /// Asserts that tables, indexes, references and records are consistent.
    pub fn assert_sound(&self) {
        let mut findings = self.store.check(&crate::resources::tables()).unwrap();
        self.store.read_now(self.org, |view| crate::resources::check(view, &mut findings)).unwrap();
        assert_eq!(findings.messages, Vec::<String>::new());
    }
}

/// Returns the args of a request for the first page of 50.
pub fn args<P, I>(params: P, input: I) -> Args<P, I> {
    let page = PageRequest { limit: 50, after: None };
    let origin = Origin { link_base: "http://127.0.0.1:7420".into(), ..Origin::default() };
    let server = ServerInfo { sends_mail: true, ..ServerInfo::bare(Keys::new([7; 32])) };
    Args {
        params,
        input,
        page,
        upload: Uploaded::default(),
        is_conditional: false,
        origin: Arc::new(origin),
        server: Arc::new(server),
    }
}

fn org_of(who: &Principal) -> Id<Org> {
    match who {
        Principal::Caller(caller) => caller.org,
        _ => Id::NIL,
    }
}

fn organization(tx: &mut Tx, slug: &str) -> Result<Id<Org>> {
    let organization = Organization {
        id: tx.new_id(),
        slug: Slug::parse(slug).unwrap(),
        name: Name::parse(slug).unwrap(),
        created_at: tx.now(),
        updated_at: tx.now(),
        updated_by: None,
    };
    tx.insert(&organization)?;
    Ok(organization.id)
}

fn person(store: &Store, org: Id<Org>, name: &'static str, role: Role) -> Principal {
    let caller = store.write_blocking(Id::NIL, move |tx| {
        let organization: Organization = tx.fetch(&org)?;
        let user = User {
            id: tx.new_id(),
            email: Email::parse(format!("{name}@{}.test", organization.slug)).unwrap(),
            name: Name::parse(name).unwrap(),
            image: None,
            password: None,
            session_generation: 0,
            service_of: None,
            created_at: tx.now(),
            proof: AddressProof::Proved,
            keys_from: None,
        };
        tx.insert(&user)?;
        let membership =
            Membership { user: user.id, org, role, email_verified: true, joined_at: tx.now() };
        tx.insert(&membership)?;
        let credential = Credential::Session(tx.new_id());
        let (user, name, sponsor) = (user.id, name.into(), None);
        let (expires_at, proved_at) = (None, None);
        let identity = Identity { user, name, credential, sponsor, expires_at, proved_at };
        Ok(Caller { identity, org, org_slug: organization.slug, role, lacks_second_factor: false })
    });
    Principal::Caller(Arc::new(caller.unwrap()))
}
