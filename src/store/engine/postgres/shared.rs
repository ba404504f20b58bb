//! What the threads of an engine share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::super::metrics::StoreMeters;
use super::super::work_lease::LEASE_LOST;
use super::super::{Attempt, Budget, SeenNode, Terms, WorkLease};
use super::access::AccessVersions;
use super::connection::{Commit, Connection, Connector, STATEMENT_TIME};
use super::failure::{Failure, too_many_wait};
use super::hanging::CommitsHang;
use super::membership::Member;
use super::missed_notifications::MissedNotifications;
use super::notifications::Notifications;
use super::pool::Pool;
use super::queue::{Queue, Waiting};
use super::settings::Control;
use super::slot::{Resolved, SeenSlot, Slots, Token, fresh};
use super::sql;
use super::tables::Tables;
use super::unknown_outcomes::UnknownOutcomes;
use crate::base::{Error, Result};
use crate::store::signals::Signals;

/// How long opening a store waits for a server.
pub const OPEN_TIME: Duration = Duration::from_secs(20);

/// How often a transaction of the engine's own runs, and for how long it is begun again. A row that stays
/// locked takes four seconds each time, and a server that stops waits for it.
const OWN_RUNS: usize = 20;
const OWN_TIME: Duration = Duration::from_secs(10);
const OWN_PAUSE: Duration = Duration::from_millis(5);

/// What the threads of an engine share.
pub struct Shared {
    pub pool: Pool,
    pub tables: Tables,
    pub queue: Queue,
    pub signals: Arc<Signals>,
    pub meters: Arc<StoreMeters>,
    /// The member of the store that it is, if it is one.
    pub member: Option<Member>,
    /// What its slots begin with.
    pub token: Token,
    pub control: Option<Control>,
    /// Whether it takes the lease for the background work.
    pub may_lead: bool,
    /// Whether others have removed this process.
    pub is_removed: watch::Sender<bool>,
    /// The lease while this node has it, and what others get then.
    pub lease: Mutex<Option<Member>>,
    pub leases: watch::Sender<Option<WorkLease>>,
    /// The nodes of the store, as this one sees them.
    pub nodes: watch::Sender<Vec<SeenNode>>,
    /// What other nodes are to be notified of.
    pub notifications: Notifications,
    /// Whether there may be other nodes to notify.
    pub notifies_nodes: bool,
    pub missed_notifications: MissedNotifications,
    pub access_versions: AccessVersions,
    pub unanswered: Unanswered,
    pub unknown_outcomes: UnknownOutcomes,
    pub commits_hang: CommitsHang,
}

/// How commits ended that were not answered.
#[derive(Debug, Default)]
pub struct Unanswered {
    /// They are stored.
    pub committed: AtomicU64,
    /// They are not stored, and never will be.
    pub not_committed: AtomicU64,
    /// It could not be found out.
    pub unknown: AtomicU64,
    /// It is being found out.
    open: AtomicU64,
}

impl Unanswered {
    /// Finds out how one ended, and counts it.
    pub fn count(&self, resolve: impl FnOnce() -> Resolved) -> Resolved {
        self.open.fetch_add(1, Ordering::Relaxed);
        let resolved = resolve();
        self.open.fetch_sub(1, Ordering::Relaxed);
        let counter = match resolved {
            Resolved::Committed => &self.committed,
            Resolved::NotCommitted => &self.not_committed,
            Resolved::Unknown => &self.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        resolved
    }

    /// Whether the outcome of some is being sought.
    pub fn are_some_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

impl Shared {
    /// What an engine begins with, before it has done anything.
    pub fn new(connector: Connector, signals: Arc<Signals>, member: Option<Member>) -> Self {
        let meters = Arc::<StoreMeters>::default();
        Shared {
            pool: Pool::new(connector),
            tables: Tables::default(),
            queue: Queue::new(meters.clone()),
            signals,
            meters,
            token: member.as_ref().map_or_else(fresh, Member::token),
            member,
            control: None,
            may_lead: false,
            is_removed: watch::channel(false).0,
            lease: Mutex::default(),
            leases: watch::channel(None).0,
            nodes: watch::channel(Vec::new()).0,
            notifications: Notifications::default(),
            notifies_nodes: false,
            missed_notifications: MissedNotifications::default(),
            access_versions: AccessVersions::default(),
            unanswered: Unanswered::default(),
            unknown_outcomes: UnknownOutcomes::default(),
            commits_hang: CommitsHang::default(),
        }
    }

    /// The slots of this process.
    pub fn slots(&self) -> &Slots {
        &self.pool.connector.slots
    }

    /// Returns the statement that begins a transaction that writes.
    pub fn begin_write(&self) -> &'static str {
        match self.control {
            Some(Control::RepeatableRead) => sql::BEGIN_WRITE_UNVALIDATED,
            _ => sql::BEGIN_WRITE,
        }
    }

    /// Notes that others have removed this process from the store.
    pub fn removed(&self) {
        self.give_up_lease();
        if !self.is_removed.send_replace(true) {
            tracing::error!(
                "others have removed this server from the store; it cannot write any more"
            );
        }
    }

    /// Notes that commits are not finished. Only who has a heartbeat finds out when they are again.
    pub fn note_blocked(&self) {
        if self.member.is_some() && self.commits_hang.set(true, &self.meters.refuses_writes) {
            tracing::error!(
                "the database server does not finish commits: no writes until it does; is its \
                 synchronous standby away?"
            );
            // They wait for groups that do not end.
            let mut waiting = self.queue.remove(|_| true);
            waiting.iter_mut().for_each(Waiting::note_blocked);
            self.give_up(waiting);
        }
    }

    /// Notes that a heartbeat was committed: commits are finished.
    pub fn note_committed(&self) {
        if self.commits_hang.set(false, &self.meters.refuses_writes) {
            tracing::info!("commits are finished again");
        }
        self.unknown_outcomes.note_heartbeat(Instant::now());
    }

    /// Has all look again who wait here if the nodes and slots, as they were just read, show a commit that
    /// they were not told of, or may not have been.
    pub fn note_others(&self, nodes: HashSet<Token>, slots: Vec<SeenSlot>) {
        if self.control == Some(Control::Blind) {
            return;
        }
        let has_appeared = self.unknown_outcomes.check(&slots, Instant::now());
        if self.missed_notifications.check(nodes, slots, self.token) || has_appeared {
            self.signals.notify_all();
        }
    }

    /// Whether the database server has answered within this time, and finishes commits as far as is known.
    pub fn is_answering(&self, time: Duration) -> bool {
        self.pool.connector.url.in_force.answer_age() < time && !self.commits_hang.is_so()
    }

    /// Requires that this process is still a member of the store, if it is one, in the transaction that is
    /// under way. It changes its heartbeat: a transaction that only reads could be committed beside one that
    /// removes the member, and at an old primary, since it waits for no standby. One that writes conflicts
    /// with the first, and is not finished at the second.
    pub fn require_member(&self, connection: &Connection) -> Result<(), Failure> {
        match &self.member {
            Some(own) if !own.renew(connection)? => Err(Failure::Removed),
            _ => Ok(()),
        }
    }

    /// Returns the lease, if this node has it.
    pub fn held_lease(&self) -> Option<Member> {
        self.lease.lock().expect("no thread panics while holding it").clone()
    }

    /// Notes that this node has the lease.
    pub fn have_lease(&self, lease: Member, work: WorkLease) {
        *self.lease.lock().expect("no thread panics while holding it") = Some(lease);
        self.leases.send_replace(Some(work));
    }

    /// Notes that this lease has ended, if it is the one that this node has.
    pub fn lost_lease(&self, ended: &Member) {
        let mut lease = self.lease.lock().expect("no thread panics while holding it");
        if lease.as_ref() == Some(ended) {
            *lease = None;
            self.leases.send_replace(None);
            tracing::warn!("{LEASE_LOST}");
        }
    }

    /// Ends the use of the lease, and returns it.
    pub fn give_up_lease(&self) -> Option<Member> {
        let held = self.lease.lock().expect("no thread panics while holding it").take();
        self.leases.send_replace(None);
        held
    }

    /// Runs an attempt, or queues it if it is light.
    ///
    /// # Errors
    /// 503 if that is not possible now.
    pub fn submit(
        self: &Arc<Self>,
        attempt: Box<dyn Attempt>,
        terms: Terms,
        lease: Option<Arc<Member>>,
    ) -> Result<()> {
        if *self.is_removed.borrow() {
            return Err(Failure::Removed.error());
        }
        if self.commits_hang.is_so() {
            return Err(Failure::Blocked.error());
        }
        let waiting = Waiting::new(attempt, terms, lease);
        if terms.budget == Budget::LIGHT {
            // The queue is full of what waits for a server that is away, or it is long.
            let away = |full| self.pool.unavailable().unwrap_or(full);
            return self.queue.push(waiting).map_err(away);
        }
        if self.queue.is_closed() {
            return Err(too_many_wait());
        }
        let _permit = self.pool.blocking_permit()?;
        let Some(_until_told) = self.queue.enter_heavy() else { return Err(too_many_wait()) };
        self.process(waiting);
        Ok(())
    }

    /// Runs a transaction of the engine's own, which may run and be committed several times. The
    /// connection is in no transaction, before and after. If it succeeds and has written, that is on the
    /// standby, too.
    ///
    /// # Errors
    /// Those of `work`; [`Failure::Conflict`] if others are always in the way.
    pub fn own_transaction<T>(
        &self,
        connection: &mut Connection,
        begin: &str,
        work: impl Fn(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (begun, mut last) = (Instant::now(), Failure::Conflict);
        for run in 0..OWN_RUNS {
            if begun.elapsed() > OWN_TIME {
                break;
            }
            // At once it would meet the same others: a second in all.
            thread::sleep(OWN_PAUSE * run as u32);
            connection.execute(begin)?;
            let failure = match work(connection) {
                Ok(done) => match connection.commit(Instant::now() + STATEMENT_TIME) {
                    Commit::Done => return Ok(done),
                    Commit::Failed(failure) => failure,
                    Commit::Doubtful | Commit::Unanswered => {
                        return Err(connection.not_answered());
                    }
                },
                Err(failure) => failure,
            };
            connection.roll_back();
            match failure {
                Failure::Conflict | Failure::Blocked | Failure::Duplicate => last = failure,
                failure => return Err(failure),
            }
        }
        Err(last)
    }
}

/// Starts what drives connections.
///
/// # Errors
/// If the system has no threads left.
pub fn start_runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("postgres")
        .enable_all()
        .build()
        .map_err(|e| Error::internal(format!("a runtime cannot be started: {e}")))
}
