//! Two records for the tests of the store: one that organizations own and one of the installation,
//! each with a unique index and one that is not.

use bincode::{Decode, Encode};
use roadstead::base::{Id, Keys, Time};
use roadstead::store::engine::LocalStorage;
use roadstead::store::{
    AnyIndex, Clock, Index, Org, Record, Store, TableInfo, build_indexes, table_names,
};

/// An organization's.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Task {
    pub id: u32,
    pub slug: Option<String>,
    pub state: u8,
    /// Done tasks are assigned to nobody and in no list.
    pub assignee: Option<Option<u8>>,
    pub text: String,
}

pub static TASKS_BY_SLUG: Index<Task, String> =
    Index::unique("tasks.by_slug", "slug_taken", "the slug is taken", |task| task.slug.clone());
pub static TASKS_BY_WORK: Index<Task, (u8, Option<u8>)> =
    Index::non_unique("tasks.by_work", |task| task.assignee.map(|assignee| (task.state, assignee)));

impl Record for Task {
    const TABLE: &'static str = "tasks";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&TASKS_BY_SLUG, &TASKS_BY_WORK];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

/// The installation's.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Account {
    pub name: String,
    pub email: String,
    pub admin: bool,
}

pub static ACCOUNTS_BY_EMAIL: Index<Account, String> =
    Index::unique("accounts.by_email", "email_taken", "the address is taken", |account| {
        Some(account.email.clone())
    });
pub static ACCOUNTS_BY_ADMIN: Index<Account, bool> =
    Index::non_unique("accounts.by_admin", |account| account.admin.then_some(true));

impl Record for Account {
    const TABLE: &'static str = "accounts";
    const ORG_SCOPED: bool = false;
    const AFFECTS_ACCESS: bool = true;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&ACCOUNTS_BY_EMAIL, &ACCOUNTS_BY_ADMIN];
    type Key = String;
    fn key(&self) -> String {
        self.name.clone()
    }
}

pub const TABLES: &[TableInfo] = &[TableInfo::of::<Task>(), TableInfo::of::<Account>()];

pub fn tables() -> Vec<&'static str> {
    table_names(TABLES)
}

pub fn org(number: u8) -> Id<Org> {
    Id::new(uuid::Uuid::from_u128(u128::from(number) + 1))
}

pub fn clock() -> Clock {
    Clock::at(Time::from_millis(1_800_000_000_000))
}

pub fn start(mut storage: impl LocalStorage) -> Store {
    build_indexes(&mut storage, TABLES, &|_| {}).expect("the disk can be written");
    Store::start(storage, clock(), Keys::new([7; 32]), TABLES).expect("the disk can be read")
}
