//! Random sequences of transactions give the same results on every engine as on a model of two
//! sorted maps, and leave every index consistent.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

mod histories;
#[cfg(feature = "postgres")]
mod postgres_server;
mod random;
mod records;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use proptest::prelude::*;
use records::*;
use roadstead::base::Result;
use roadstead::store::engine::{LogBeside, LogSettings, LoggedRedb, Memory, Redb};
use roadstead::store::{ListSource, Order, PageRequest, Record, Store, Tx, View};

/// One thing to do in a transaction. Keys and values come from small ranges, so that they meet.
#[derive(Clone, Debug)]
enum Do {
    InsertTask(Task),
    PutTask(Task),
    ChangeTask(Task),
    RemoveTask(u32),
    GiveSlugTo { from: u32, to: u32 },
    PutAccount(Account),
    RemoveAccount(String),
    Find { slug: String, email: String },
    ListTasks { list: List, order: Order, limit: usize, odd_only: bool },
    ListAdmins { order: Order, limit: usize },
    Count { list: List, at_most: usize },
}

#[derive(Clone, Copy, Debug)]
enum List {
    Table,
    BySlug,
    ByWork,
    InState(u8),
    Of(u8, Option<u8>),
}

#[derive(Clone, Debug)]
struct Transaction {
    org: u8,
    steps: Vec<Do>,
    /// Whether it goes on after a refused step instead of giving up as a whole.
    goes_on: bool,
}

/// What a step answered.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Done,
    Nothing,
    Refused(&'static str),
    Found(Option<Task>, Option<Account>),
    Tasks(Vec<Task>),
    Accounts(Vec<Account>),
    Count(usize),
}

// ── On an engine ─────────────────────────────────────────────────────────────

fn on_store(store: &Store, transaction: &Transaction) -> Vec<Answer> {
    let Transaction { org: owner, steps, goes_on } = transaction.clone();
    let (sender, reports) = std::sync::mpsc::channel();
    let ended = store.write_blocking(org(owner), move |tx| {
        let mut answers = Vec::new();
        for step in &steps {
            match on_tx(tx, step) {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    answers.push(Answer::Refused(error.code()));
                    if !goes_on {
                        sender.send(answers).unwrap();
                        return Err(error);
                    }
                }
            }
        }
        sender.send(answers).unwrap();
        Ok(())
    });
    // The last run counts, where an engine rehearses.
    let answers = reports.iter().last().unwrap();
    let gave_up = !goes_on && matches!(answers.last(), Some(Answer::Refused(_)));
    assert_eq!(ended.is_err(), gave_up);
    answers
}

fn on_tx(tx: &mut Tx, step: &Do) -> Result<Answer> {
    Ok(match step {
        Do::InsertTask(task) => tx.insert(task).map(|()| Answer::Done)?,
        Do::PutTask(task) => tx.put(task).map(|()| Answer::Done)?,
        Do::ChangeTask(task) => match tx.get::<Task>(&task.id)? {
            Some(old) => tx.replace(&old, task).map(|()| Answer::Done)?,
            None => Answer::Nothing,
        },
        Do::RemoveTask(id) => match tx.get::<Task>(id)? {
            Some(old) => tx.remove(&old).map(|()| Answer::Done)?,
            None => Answer::Nothing,
        },
        Do::GiveSlugTo { from, to } => {
            let (Some(giver), Some(taker)) = (tx.get::<Task>(from)?, tx.get::<Task>(to)?) else {
                return Ok(Answer::Nothing);
            };
            if from == to {
                return Ok(Answer::Nothing);
            }
            tx.replace(&giver, &Task { slug: None, ..giver.clone() })?;
            tx.replace(&taker, &Task { slug: giver.slug, ..taker.clone() })?;
            Answer::Done
        }
        Do::PutAccount(account) => tx.put(account).map(|()| Answer::Done)?,
        Do::RemoveAccount(name) => match tx.get::<Account>(name)? {
            Some(old) => tx.remove(&old).map(|()| Answer::Done)?,
            None => Answer::Nothing,
        },
        Do::Find { slug, email } => {
            Answer::Found(tx.find(&TASKS_BY_SLUG, slug)?, tx.find(&ACCOUNTS_BY_EMAIL, email)?)
        }
        Do::ListTasks { list, order, limit, odd_only } => {
            Answer::Tasks(tasks(&tx.view(), *list, *order, *limit, *odd_only)?)
        }
        Do::ListAdmins { order, limit } => {
            let page =
                |part: &PageRequest| tx.page(&ACCOUNTS_BY_ADMIN, &true, *order, part, |_| true);
            Answer::Accounts(in_parts(*limit, page)?)
        }
        Do::Count { list, at_most } => Answer::Count(match *list {
            List::Table => tx.count::<Task>(ListSource::TABLE, &(), *at_most)?,
            List::BySlug => tx.count(&TASKS_BY_SLUG, &(), *at_most)?,
            List::ByWork => tx.count(&TASKS_BY_WORK, &(), *at_most)?,
            List::InState(state) => tx.count(&TASKS_BY_WORK, &state, *at_most)?,
            List::Of(state, of) => tx.count(&TASKS_BY_WORK, &(state, of), *at_most)?,
        }),
    })
}

fn tasks(view: &View, list: List, order: Order, limit: usize, odd_only: bool) -> Result<Vec<Task>> {
    let keep = |task: &Task| !odd_only || task.id % 2 == 1;
    in_parts(limit, |part| match list {
        List::Table => view.page(ListSource::TABLE, &(), order, part, keep),
        List::BySlug => view.page(&TASKS_BY_SLUG, &(), order, part, keep),
        List::ByWork => view.page(&TASKS_BY_WORK, &(), order, part, keep),
        List::InState(state) => view.page(&TASKS_BY_WORK, &state, order, part, keep),
        List::Of(state, of) => view.page(&TASKS_BY_WORK, &(state, of), order, part, keep),
    })
}

/// Reads a list part by part; every part but the last is full.
fn in_parts<R: Record>(
    limit: usize,
    page: impl Fn(&PageRequest) -> Result<roadstead::store::Page<R>>,
) -> Result<Vec<R>> {
    let mut all = Vec::new();
    let mut part = PageRequest { limit, after: None };
    loop {
        let got = page(&part)?;
        assert!(got.items.len() == limit || got.next.is_none());
        assert!(!got.items.is_empty() || part.after.is_none(), "something follows");
        all.extend(got.items);
        match got.next {
            Some(next) => part.after = Some(next),
            None => return Ok(all),
        }
    }
}

// ── On the model ─────────────────────────────────────────────────────────────

#[derive(Clone, Default)]
struct Model {
    tasks: BTreeMap<(u8, u32), Task>,
    accounts: BTreeMap<String, Account>,
}

impl Model {
    fn apply(&mut self, Transaction { org, steps, goes_on }: &Transaction) -> Vec<Answer> {
        let before = self.clone();
        let mut answers = Vec::new();
        for step in steps {
            let answer = self.step(*org, step);
            answers.push(answer.clone());
            if matches!(answer, Answer::Refused(_)) && !goes_on {
                *self = before;
                break;
            }
        }
        answers
    }

    fn step(&mut self, org: u8, step: &Do) -> Answer {
        let there = |id: &u32| self.tasks.get(&(org, *id)).cloned();
        match step {
            Do::InsertTask(task) if there(&task.id).is_some() => Answer::Refused("internal"),
            Do::InsertTask(task) | Do::PutTask(task) => self.keep_task(org, task.clone()),
            Do::ChangeTask(task) if there(&task.id).is_none() => Answer::Nothing,
            Do::ChangeTask(task) => self.keep_task(org, task.clone()),
            Do::RemoveTask(id) => {
                self.tasks.remove(&(org, *id)).map_or(Answer::Nothing, |_| Answer::Done)
            }
            Do::GiveSlugTo { from, to } => match (there(from), there(to)) {
                (Some(giver), Some(taker)) if from != to => {
                    self.keep_task(org, Task { slug: None, ..giver.clone() });
                    self.keep_task(org, Task { slug: giver.slug, ..taker })
                }
                _ => Answer::Nothing,
            },
            Do::PutAccount(account) => {
                let taken = |other: &Account| other.email == account.email;
                let mut others = self.accounts.values().filter(|other| other.name != account.name);
                if others.any(taken) {
                    return Answer::Refused("email_taken");
                }
                self.accounts.insert(account.name.clone(), account.clone());
                Answer::Done
            }
            Do::RemoveAccount(name) => {
                self.accounts.remove(name).map_or(Answer::Nothing, |_| Answer::Done)
            }
            Do::Find { slug, email } => Answer::Found(
                self.of(org).find(|task| task.slug.as_ref() == Some(slug)).cloned(),
                self.accounts.values().find(|account| account.email == *email).cloned(),
            ),
            Do::ListTasks { list, order, odd_only, .. } => {
                Answer::Tasks(self.list(org, *list, *order, *odd_only))
            }
            Do::ListAdmins { order, .. } => {
                let admins = self.accounts.values().filter(|account| account.admin);
                Answer::Accounts(ordered(admins.cloned().collect(), *order))
            }
            Do::Count { list, at_most } => {
                Answer::Count(self.list(org, *list, Order::Ascending, false).len().min(*at_most))
            }
        }
    }

    fn of(&self, org: u8) -> impl Iterator<Item = &Task> {
        self.tasks.range((org, 0)..=(org, u32::MAX)).map(|(_, task)| task)
    }

    fn keep_task(&mut self, org: u8, task: Task) -> Answer {
        let taken = |other: &Task| other.id != task.id && other.slug == task.slug;
        if task.slug.is_some() && self.of(org).any(taken) {
            return Answer::Refused("slug_taken");
        }
        self.tasks.insert((org, task.id), task);
        Answer::Done
    }

    fn list(&self, org: u8, list: List, order: Order, odd_only: bool) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.of(org).cloned().collect();
        tasks.retain(|task| match list {
            List::Table => true,
            List::BySlug => task.slug.is_some(),
            List::ByWork => task.assignee.is_some(),
            List::InState(state) => task.assignee.is_some() && task.state == state,
            List::Of(state, of) => task.assignee == Some(of) && task.state == state,
        });
        tasks.retain(|task| !odd_only || task.id % 2 == 1);
        match list {
            List::Table => {}
            List::BySlug => tasks.sort_by_key(|task| task.slug.clone()),
            _ => tasks.sort_by_key(|task| (task.state, task.assignee, task.id)),
        }
        ordered(tasks, order)
    }
}

fn ordered<T>(mut list: Vec<T>, order: Order) -> Vec<T> {
    if order == Order::Descending {
        list.reverse();
    }
    list
}

// ── What is tried ────────────────────────────────────────────────────────────

/// Texts that sort apart in odd ways, with the bytes that keys escape.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "a\0", "a\0\0", "aa", "a\u{1}", "\0", "b", "ÿ", "\u{ff}\0"])
        .prop_map(String::from)
}

fn task() -> impl Strategy<Value = Task> {
    (0..8u32, prop::option::of(word()), 0..3u8, any::<Option<Option<bool>>>(), "[a-z]{0,9}")
        .prop_map(|(id, slug, state, assignee, text)| Task {
            id,
            slug,
            state,
            assignee: assignee.map(|to| to.map(|to| if to { 255 } else { 0 })),
            text,
        })
}

fn account() -> impl Strategy<Value = Account> {
    (word(), word(), any::<bool>()).prop_map(|(name, email, admin)| Account { name, email, admin })
}

fn order() -> impl Strategy<Value = Order> {
    prop::sample::select(vec![Order::Ascending, Order::Descending])
}

fn list() -> impl Strategy<Value = List> {
    prop_oneof![
        Just(List::Table),
        Just(List::BySlug),
        Just(List::ByWork),
        (0..3u8).prop_map(List::InState),
        (0..3u8, any::<Option<bool>>())
            .prop_map(|(state, of)| List::Of(state, of.map(|of| if of { 255 } else { 0 }))),
    ]
}

fn step() -> impl Strategy<Value = Do> {
    prop_oneof![
        4 => task().prop_map(Do::InsertTask),
        2 => task().prop_map(Do::PutTask),
        3 => task().prop_map(Do::ChangeTask),
        2 => (0..8u32).prop_map(Do::RemoveTask),
        1 => (0..8u32, 0..8u32).prop_map(|(from, to)| Do::GiveSlugTo { from, to }),
        3 => account().prop_map(Do::PutAccount),
        1 => word().prop_map(Do::RemoveAccount),
        1 => (word(), word()).prop_map(|(slug, email)| Do::Find { slug, email }),
        2 => (list(), order(), 1..4usize, any::<bool>())
            .prop_map(|(list, order, limit, odd_only)| Do::ListTasks { list, order, limit, odd_only }),
        1 => (order(), 1..3usize).prop_map(|(order, limit)| Do::ListAdmins { order, limit }),
        1 => (list(), 0..5usize).prop_map(|(list, at_most)| Do::Count { list, at_most }),
    ]
}

fn transaction() -> impl Strategy<Value = Transaction> {
    (0..3u8, prop::collection::vec(step(), 1..10), any::<bool>())
        .prop_map(|(org, steps, goes_on)| Transaction { org, steps, goes_on })
}

/// Everything an organization sees, and what it does not, is as the model has it.
fn same(store: &Store, model: &Model) {
    for owner in 0..4 {
        store
            .read_now(org(owner), |view| {
                for list in [List::Table, List::BySlug, List::ByWork] {
                    for order in [Order::Ascending, Order::Descending] {
                        assert_eq!(
                            tasks(view, list, order, 3, false)?,
                            model.list(owner, list, order, false)
                        );
                    }
                }
                let mut seen = Vec::new();
                view.for_each::<Account>(ListSource::TABLE, &(), Order::Ascending, |account| {
                    seen.push(account);
                    Ok(ControlFlow::Continue(()))
                })?;
                assert_eq!(seen, model.accounts.values().cloned().collect::<Vec<_>>());
                Ok(())
            })
            .unwrap();
    }
    let findings = store.check(TABLES).unwrap();
    assert_eq!(findings.wrong, 0, "{:#?}", findings.messages);
}

/// Storage with a log so small that checkpoints happen all the time.
fn logged(path: &Path, redb: Redb) -> Store {
    let place = Box::new(LogBeside::database(path));
    start(LoggedRedb::over(redb, place, LogSettings::SMALL).unwrap())
}

/// A store in a new schema of the shared server; none if that is not installed.
#[cfg(feature = "postgres")]
fn in_postgres(schema: &str) -> Option<Store> {
    use std::sync::Arc;

    use roadstead::base::Keys;
    use roadstead::store::build_indexes;
    use roadstead::store::engine::postgres::{Postgres, PostgresSettings};
    let server = postgres_server::shared()?;
    let settings = PostgresSettings {
        schema: Some(schema.into()),
        ..PostgresSettings::new(server.parsed_url(), tables())
    };
    let signals = Arc::default();
    let engine = Postgres::open(settings, Arc::clone(&signals), &|_| {}).unwrap();
    build_indexes(&mut engine.building(), TABLES, &|_| {}).unwrap();
    let engine = Arc::new(engine);
    Some(Store::start_over(engine, signals, clock(), Keys::new([7; 32]), TABLES).unwrap())
}

#[cfg(feature = "postgres")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn postgresql_answers_as_the_model_does(transactions in prop::collection::vec(transaction(), 1..24)) {
        let schema = postgres_server::new_schema();
        if let Some(store) = in_postgres(&schema) {
            let mut model = Model::default();
            for transaction in &transactions {
                let want = model.apply(transaction);
                prop_assert_eq!(&on_store(&store, transaction), &want);
            }
            same(&store, &model);
            drop(store);
            same(&in_postgres(&schema).unwrap(), &model);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn engines_answer_as_the_model_does(transactions in prop::collection::vec(transaction(), 1..24)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let memory = start(Memory::default());
        let file = start(Redb::create(&path, tables()).unwrap());
        let logged_path = dir.path().join("logged.redb");
        let with_log = logged(&logged_path, Redb::create(&logged_path, tables()).unwrap());
        let mut model = Model::default();
        for transaction in &transactions {
            let want = model.apply(transaction);
            prop_assert_eq!(&on_store(&memory, transaction), &want);
            prop_assert_eq!(&on_store(&file, transaction), &want);
            prop_assert_eq!(&on_store(&with_log, transaction), &want);
        }
        same(&memory, &model);
        same(&file, &model);
        same(&with_log, &model);
        drop((file, with_log));
        same(&start(Redb::open(&path, tables()).unwrap()), &model);
        same(&logged(&logged_path, Redb::open(&logged_path, tables()).unwrap()), &model);
    }
}
