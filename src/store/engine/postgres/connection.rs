//! A connection to the database server, used by one thread at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row, Statement};

use super::failure::Failure;
use super::membership::{Member, TABLE};
use super::slot::{Slot, SlotValue, Slots};
use super::sql::{OPTIONAL, SAFETY, Statements};
use super::url::{PostgresUrl, Preferred, Target};
use super::waiting::{begin, wait};

/// How long a statement may take, of which none reads more than a thousand rows. Locks are waited
/// for half of that.
pub const STATEMENT_TIME: Duration = Duration::from_secs(8);

/// How long opening a connection may take, over all hosts.
const OPEN_TIME: Duration = Duration::from_secs(10);

/// How long one address of a host may take, and how short that becomes if there are many.
const HOST_TIME: Duration = Duration::from_secs(3);
const MIN_HOST_TIME: Duration = Duration::from_secs(1);

/// Rows to write: the numbers of their tables, keys and values.
pub type Rows<'a> = (Vec<i16>, Vec<&'a [u8]>, Vec<&'a [u8]>);

/// What is done with the text of each notification.
pub type OnNotification = Arc<dyn Fn(&str) + Send + Sync>;

/// A parameter of a statement.
pub type Param<'a> = &'a (dyn ToSql + Sync);

/// A connection. It is closed when it is dropped.
pub struct Connection {
    pub client: Client,
    pub statements: Statements,
    /// The slot that its commits move; none before the first, and while the outcome of one is open.
    pub slot: Option<Slot>,
    slots: Arc<Slots>,
    /// When it was last put back into the pool.
    pub used_at: Instant,
    /// Since which choice of a server it was opened (see [`PostgresUrl::choice`]).
    pub choice: u64,
    warned: Arc<AtomicBool>,
    driver: AbortHandle,
}

impl Drop for Connection {
    /// Does not wait for what is under way, which cannot be committed any more.
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.slots.give_back(slot);
        }
        self.driver.abort();
    }
}

/// Opens connections to a store.
#[derive(Clone)]
pub struct Connector {
    pub url: PostgresUrl,
    /// The schema of the tables; `None` is the default of the user.
    pub schema: Option<String>,
    /// Where the connections are driven: their users block.
    pub runtime: Handle,
    /// The slots of this process.
    pub slots: Arc<Slots>,
}

impl Connector {
    /// Creates what opens connections, without slots.
    pub fn new(url: PostgresUrl, schema: Option<String>, runtime: Handle) -> Self {
        Connector { url, schema, runtime, slots: Arc::default() }
    }

    /// Opens a connection and prepares its statements. Blocks.
    pub fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        self.prepare(self.connect_raw(deadline)?, STATEMENT_TIME)
    }

    /// Each of its steps may take so long.
    fn prepare(&self, raw: RawConnection, time: Duration) -> Result<Connection, Failure> {
        raw.run(raw.client.batch_execute(SAFETY), time)?;
        // Another database may not know them.
        match raw.run(raw.client.batch_execute(OPTIONAL), time) {
            Err(Failure::Refused(_)) | Ok(()) => {}
            Err(failure) => return Err(failure),
        }
        let statements = raw.run(Statements::prepare(&raw.client), time)?;
        let RawConnection { client, choice, warned, driver } = raw;
        let slots = self.slots.clone();
        Ok(Connection {
            client,
            statements,
            slot: None,
            slots,
            used_at: Instant::now(),
            choice,
            warned,
            driver,
        })
    }

    /// The channel on which the nodes of the store notify each other.
    pub fn channel(&self) -> String {
        self.schema.as_ref().map_or("roadstead".into(), |schema| format!("roadstead_{schema}"))
    }

    /// Opens a connection without settings and statements. Blocks.
    pub fn connect_raw(&self, deadline: Instant) -> Result<RawConnection, Failure> {
        self.connect_listening(deadline, None)
    }

    /// Does the same as [`Connector::connect_raw`], with what is done with notifications.
    pub fn connect_listening(
        &self,
        deadline: Instant,
        on_notification: Option<OnNotification>,
    ) -> Result<RawConnection, Failure> {
        let url = self.url.clone();
        let opening = self.runtime.spawn(async move {
            tokio::time::timeout(OPEN_TIME, open(&url, on_notification)).await
        });
        let opened = match wait(opening, deadline) {
            Some(Ok(Ok(opened))) => opened?,
            Some(Err(error)) => return Err(Failure::Unavailable(error.to_string())),
            Some(Ok(Err(_))) | None => return Err(in_time()),
        };
        self.set_schema(&opened, STATEMENT_TIME)?;
        Ok(opened)
    }

    fn set_schema(&self, raw: &RawConnection, time: Duration) -> Result<(), Failure> {
        let Some(schema) = &self.schema else { return Ok(()) };
        let set = format!("SET search_path TO \"{schema}\"");
        raw.run(raw.client.batch_execute(&set), time)
    }

    /// Opens a connection to this one alone. Each of the five steps hangs for no longer than one address may
    /// take: opening it, the schema, two sets of settings and the statements. Blocks.
    pub fn connect_to(&self, config: Config) -> Result<Connection, Failure> {
        let url = self.url.clone();
        let opening = self.runtime.spawn(async move {
            tokio::time::timeout(HOST_TIME, open_at(&url, &config, None)).await
        });
        let raw = match wait(opening, Instant::now() + HOST_TIME) {
            Some(Ok(Ok(opened))) => opened.map_err(|error| Failure::of(&error))?,
            _ => return Err(in_time()),
        };
        self.set_schema(&raw, HOST_TIME)?;
        self.prepare(raw, HOST_TIME)
    }
}

/// Opens a connection to the first host that accepts writes, at the first of its addresses that does: the
/// one that was the right one last is tried before any other name is looked up, unless its own does not have
/// that address any more. One that was chosen is the only one that is tried: the one before it may accept
/// connections as well, with what is old.
async fn open(
    url: &PostgresUrl,
    on_notification: Option<OnNotification>,
) -> Result<RawConnection, Failure> {
    let begun = Instant::now();
    let Preferred { target: preferred, choice } = url.preferred_now().await;
    let preferred = preferred.filter(|one| url.is_one_place(*one));
    let mut opening = Opening { url, choice, on_notification, last: in_time() };
    if let Some((target, config)) = preferred.and_then(|one| Some((one, url.config_of(one)?)))
        && let Some(opened) = opening.attempt(target, config, HOST_TIME).await
    {
        return Ok(opened);
    }
    if choice > 0 {
        return Err(opening.last);
    }
    let mut lookups = url.lookups().into_iter();
    while let Some(lookup) = lookups.next() {
        let targets = lookup.targets().await;
        for (number, (target, config)) in targets.iter().enumerate() {
            if url.choice() != choice {
                return Err(opening.last);
            }
            if Some(*target) == preferred {
                continue;
            }
            let left = targets.len() - number + lookups.len();
            let time = OPEN_TIME.saturating_sub(begun.elapsed());
            let time = time / u32::try_from(left).unwrap_or(u32::MAX).max(1);
            let time = time.clamp(MIN_HOST_TIME, HOST_TIME);
            if let Some(opened) = opening.attempt(*target, config.clone(), time).await {
                return Ok(opened);
            }
        }
    }
    Err(opening.last)
}

/// What is opened, and why the last target that was tried could not be.
struct Opening<'a> {
    url: &'a PostgresUrl,
    choice: u64,
    on_notification: Option<OnNotification>,
    last: Failure,
}

impl Opening<'_> {
    /// Opens a connection to this target, unless that fails or another was chosen meanwhile.
    async fn attempt(
        &mut self,
        target: Target,
        config: Config,
        time: Duration,
    ) -> Option<RawConnection> {
        let opening = open_at(self.url, &config, self.on_notification.clone());
        let failure = match tokio::time::timeout(time, opening).await {
            Ok(Ok(opened)) if self.url.prefer(target, self.choice) => {
                return Some(RawConnection { choice: self.choice, ..opened });
            }
            Ok(Ok(_)) => Failure::Unavailable("another server was chosen meanwhile".into()),
            Ok(Err(error)) => match Failure::of(&error) {
                failure @ (Failure::Refused(_) | Failure::Crowded(_)) => failure,
                _ => Failure::Unavailable(with_causes(&error)),
            },
            Err(_) => in_time(),
        };
        // A standby behind the primary that has no connection left says nothing of that.
        if !matches!((&self.last, &failure), (Failure::Crowded(_), Failure::Unavailable(_))) {
            self.last = failure;
        }
        None
    }
}

async fn open_at(
    url: &PostgresUrl,
    config: &Config,
    on_notification: Option<OnNotification>,
) -> Result<RawConnection, tokio_postgres::Error> {
    match url.tls.clone() {
        None => {
            let (client, own) = config.connect(NoTls).await?;
            Ok(drive(client, own, on_notification))
        }
        Some(tls) => {
            let (client, own) = config.connect(tls).await?;
            Ok(drive(client, own, on_notification))
        }
    }
}

fn in_time() -> Failure {
    Failure::Unavailable("no connection could be opened in time".into())
}

/// A driver's error names its cause only in its source.
fn with_causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A connection before its statements are prepared.
pub struct RawConnection {
    pub client: Client,
    choice: u64,
    warned: Arc<AtomicBool>,
    driver: AbortHandle,
}

impl RawConnection {
    /// Waits for what the client does.
    pub fn run<T>(
        &self,
        what: impl Future<Output = Result<T, tokio_postgres::Error>>,
        time: Duration,
    ) -> Result<T, Failure> {
        run(what, time)
    }
}

fn drive<S, T>(
    client: Client,
    mut connection: tokio_postgres::Connection<S, T>,
    on_notification: Option<OnNotification>,
) -> RawConnection
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let warned = Arc::<AtomicBool>::default();
    let warning = warned.clone();
    let driving = tokio::spawn(async move {
        loop {
            match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notice(notice))) => {
                    if notice.parsed_severity() == Some(Severity::Warning) {
                        warning.store(true, Ordering::SeqCst);
                    }
                }
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if let Some(on_notification) = &on_notification {
                        on_notification(notification.payload());
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            }
        }
    });
    RawConnection { client, choice: 0, warned, driver: driving.abort_handle() }
}

/// Waits for what a client does, at most so long.
pub fn run<T>(
    what: impl Future<Output = Result<T, tokio_postgres::Error>>,
    time: Duration,
) -> Result<T, Failure> {
    match wait(what, Instant::now() + time) {
        Some(done) => done.map_err(|error| Failure::of(&error)),
        None => Err(Failure::Unavailable("the server did not answer in time".into())),
    }
}

/// The outcome of a commit.
pub enum Commit {
    Done,
    /// Nothing is stored.
    Failed(Failure),
    /// It may be stored.
    Unanswered,
    /// It is stored, but a warning came with it: perhaps not on the standby.
    Doubtful,
}

impl Connection {
    /// Runs a prepared statement and returns its rows.
    pub fn query(&self, statement: &Statement, params: &[Param]) -> Result<Vec<Row>, Failure> {
        run(self.client.query(statement, params), STATEMENT_TIME)
    }

    /// Begins a transaction and runs its first statement, which reads, in one round trip.
    pub fn begin_and_query(
        &self,
        begin: &str,
        statement: &Statement,
        params: &[Param],
    ) -> Result<Vec<Row>, Failure> {
        let both = async {
            let begun = self.client.batch_execute(begin);
            let (begun, rows) = tokio::join!(biased; begun, self.client.query(statement, params));
            begun.and(rows)
        };
        run(both, STATEMENT_TIME)
    }

    /// Runs statements without parameters and results.
    pub fn execute(&self, sql: &str) -> Result<(), Failure> {
        run(self.client.batch_execute(sql), STATEMENT_TIME)
    }

    /// Runs a statement that is not prepared, and returns its rows.
    pub fn query_once(&self, sql: &str, params: &[Param]) -> Result<Vec<Row>, Failure> {
        run(self.client.query(sql, params), STATEMENT_TIME)
    }

    /// Runs a statement that is not prepared, and returns how many rows it changed.
    pub fn change_once(&self, sql: &str, params: &[Param]) -> Result<u64, Failure> {
        run(self.client.execute(sql, params), STATEMENT_TIME)
    }

    /// Writes rows in one round trip, within a transaction: those to put, to insert and to delete;
    /// and changes a slot.
    ///
    /// # Errors
    /// [`Failure::Stale`] if the slot does not have the value that is known;
    /// [`Failure::Fenced`] if that may also be because the lease is another one.
    pub fn change(
        &self,
        puts: &Rows,
        inserts: &Rows,
        deletes: &Rows,
        (slot, to, lease): (&Slot, &SlotValue, Option<&Member>),
    ) -> Result<(), Failure> {
        let one = &self.statements;
        let write = async |statement: &Statement, (tables, keys, values): &Rows<'_>| {
            if keys.is_empty() {
                return Ok(0);
            }
            self.client.execute(statement, &[tables, keys, values]).await
        };
        let delete = async |(tables, keys, _): &Rows<'_>| {
            if keys.is_empty() {
                return Ok(0);
            }
            self.client.execute(&one.delete, &[tables, keys]).await
        };
        let (id, from, to): (&[u8], &[u8], &[u8]) = (&slot.id, &slot.value, to);
        let mut moving: Vec<Param> = vec![&id, &from, &to];
        let move_slot = match lease {
            None => &one.move_slot,
            Some(lease) => {
                moving.extend([&TABLE as Param, &lease.key, &lease.value]);
                &one.move_slot_under_lease
            }
        };
        let all = async {
            // Each is sent when it is first polled; after an error the server refuses the others.
            let (put, inserted, deleted, moved) = tokio::join!(
                biased;
                write(&one.put, puts),
                write(&one.insert, inserts),
                delete(deletes),
                self.client.execute(move_slot, &moving),
            );
            put.and(inserted).and(deleted).and(moved)
        };
        match run(all, STATEMENT_TIME)? {
            1 => Ok(()),
            _ if lease.is_some() => Err(Failure::Fenced),
            _ => Err(Failure::Stale),
        }
    }

    /// Commits.
    pub fn commit(&self, deadline: Instant) -> Commit {
        self.warned.store(false, Ordering::SeqCst);
        let deadline = deadline.min(Instant::now() + STATEMENT_TIME);
        match wait(self.client.batch_execute("COMMIT"), deadline) {
            Some(Ok(())) if self.warned.load(Ordering::SeqCst) => Commit::Doubtful,
            Some(Ok(())) => Commit::Done,
            Some(Err(error)) if Failure::is_answer(&error) => Commit::Failed(Failure::of(&error)),
            Some(Err(_)) | None => Commit::Unanswered,
        }
    }

    /// Ends the transaction without waiting for the answer.
    pub fn roll_back(&self) {
        begin(self.client.batch_execute("ROLLBACK"));
    }

    /// Returns whether it can still be used, as far as is known.
    pub fn is_open(&self) -> bool {
        !self.client.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::net::TcpListener;

    use super::*;

    type Asked = Arc<Mutex<Vec<&'static str>>>;

    /// Listens, and closes every connection; returns the port.
    async fn closing(name: &'static str, asked: &Asked) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), asked.clone());
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                asked.lock().unwrap().push(name);
                drop(connection);
            }
        });
        port
    }

    #[tokio::test]
    async fn the_last_right_one_is_tried_first_and_one_that_was_chosen_alone() {
        let asked = Asked::default();
        let (one, two) = (closing("one", &asked).await, closing("two", &asked).await);
        let url = format!("postgres://a@127.0.0.1:{one},127.0.0.1:{two}/c");
        let url = PostgresUrl::parse(&url).unwrap();
        let second = url.targets().await[1].0;
        let tried = async || {
            assert!(matches!(open(&url, None).await, Err(Failure::Unavailable(_))));
            std::mem::take(&mut *asked.lock().unwrap())
        };
        assert_eq!(tried().await, ["one", "two"]);
        assert!(url.prefer(second, 0));
        assert_eq!(tried().await, ["two", "one"]);
        // The old one may accept connections, and writes.
        url.choose(second);
        assert_eq!(tried().await, ["two"]);
    }
}
