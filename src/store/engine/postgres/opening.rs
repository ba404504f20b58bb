//! Opening a connection: to the server that is in force, or the first of the URL that accepts writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use super::failure::Failure;
use super::in_force::{Epoch, Preferred, Target};
use super::url::PostgresUrl;
use super::waiting::wait;

/// How long opening a connection may take, over all hosts.
pub const OPEN_TIME: Duration = Duration::from_secs(10);

/// A server in force that is full serves those that are connected if it has answered them within this time: a
/// statement may take as long.
pub const ANSWERS_TIME: Duration = Duration::from_secs(8);

/// How long one address of a host may take, and how short that becomes if there are many.
pub const HOST_TIME: Duration = Duration::from_secs(3);
const MIN_HOST_TIME: Duration = Duration::from_secs(1);

/// What is done with the text of each notification.
pub type OnNotification = Arc<dyn Fn(&str) + Send + Sync>;

/// Opens a connection to the first host that accepts writes, at the first of its addresses that does: the
/// one that is in force is tried before any other name is looked up, unless its own does not have that
/// address at the moment. One that was chosen is the only one that is tried: the one before it may accept
/// connections as well, with what is old. So is one that is full, and answers over the connections that it
/// has: at another of its addresses it may have one left a moment later, and all others would be closed.
pub async fn open(
    url: &PostgresUrl,
    on_notification: Option<OnNotification>,
) -> Result<RawConnection, Failure> {
    let begun = Instant::now();
    let Preferred { target: preferred, epoch, is_chosen } = url.preferred_now().await;
    let is_unnamed = preferred.is_none() && is_chosen;
    let last = if is_unnamed { unnamed() } else { in_time() };
    let mut opening = Opening { url, epoch, on_notification, last };
    if let Some((target, config)) = preferred.and_then(|one| Some((one, url.config_of(one)?)))
        && let Some(opened) = opening.attempt(target, config, HOST_TIME).await
    {
        return Ok(opened);
    }
    let is_replaced = || url.in_force.now().epoch != epoch;
    if is_replaced() {
        return Err(Failure::Replaced);
    }
    let is_full = matches!(opening.last, Failure::Crowded(_));
    // One that was demoted, and is full again, says the same before it refuses writes. But it answers nobody.
    if is_chosen || is_full && url.in_force.answer_age() < ANSWERS_TIME {
        return Err(opening.last);
    }
    let mut lookups = url.lookups().into_iter();
    while let Some(lookup) = lookups.next() {
        let targets = match lookup.targets().await {
            Ok(targets) => targets,
            Err(why) => {
                opening.note(Failure::Unavailable(why));
                continue;
            }
        };
        for (number, (target, config)) in targets.iter().enumerate() {
            if is_replaced() {
                return Err(Failure::Replaced);
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
    epoch: u64,
    on_notification: Option<OnNotification>,
    last: Failure,
}

impl Opening<'_> {
    /// Opens a connection to this target, unless that fails or another came meanwhile.
    async fn attempt(
        &mut self,
        target: Target,
        config: Config,
        time: Duration,
    ) -> Option<RawConnection> {
        let opening = open_at(self.url, &config, self.on_notification.clone());
        let failure = match tokio::time::timeout(time, opening).await {
            Ok(Ok(opened)) => match self.url.in_force.prefer(target, self.epoch) {
                Some(epoch) => return Some(RawConnection { epoch: Some(epoch), ..opened }),
                None => Failure::Replaced,
            },
            Ok(Err(error)) => match Failure::of(&error) {
                failure @ (Failure::Refused(_) | Failure::Crowded(_)) => failure,
                _ => Failure::Unavailable(with_causes(&error)),
            },
            Err(_) => in_time(),
        };
        self.note(failure);
        None
    }

    /// Notes why a target could not be had.
    fn note(&mut self, failure: Failure) {
        // A standby behind the primary that has no connection left says nothing of that.
        if !matches!((&self.last, &failure), (Failure::Crowded(_), Failure::Unavailable(_))) {
            self.last = failure;
        }
    }
}

/// Opens a connection to this one alone, whatever is in force.
pub async fn open_at(
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

/// The failure of what took too long.
pub fn in_time() -> Failure {
    Failure::Unavailable("no connection could be opened in time".into())
}

fn unnamed() -> Failure {
    let why =
        "the name of the database server that was chosen does not have its address at the moment";
    Failure::Unavailable(why.into())
}

/// Fails unless the server of a connection of this epoch is in force.
pub fn require_in_force(epoch: Option<&Epoch>) -> Result<(), Failure> {
    if epoch.is_none_or(Epoch::is_in_force) { Ok(()) } else { Err(Failure::Replaced) }
}

/// Does `work` with the server of a connection of this epoch, if that is in force, and uses what it answers
/// if it still is then. All statements but a commit go this way: if an answer to that is not used, its
/// outcome is open.
pub fn in_force<T>(
    epoch: Option<&Epoch>,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    require_in_force(epoch)?;
    let done = work();
    // One that was looked at whatever is in force may be of another store.
    if let Some(epoch) = epoch
        && !matches!(done, Err(Failure::Unavailable(_)))
    {
        epoch.note_answer();
    }
    require_in_force(epoch).and(done)
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
    /// The epoch of its server; none if it was opened to one whatever is in force.
    pub epoch: Option<Epoch>,
    /// Whether a warning came.
    pub warned: Arc<AtomicBool>,
    pub driver: AbortHandle,
}

impl RawConnection {
    /// Waits for what the client does, if its server is in force.
    pub fn run<T>(
        &self,
        what: impl Future<Output = Result<T, tokio_postgres::Error>>,
        time: Duration,
    ) -> Result<T, Failure> {
        in_force(self.epoch.as_ref(), || run(what, time))
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
                    // Not every database says it so that it is not translated.
                    if notice.parsed_severity().is_none_or(|one| one == Severity::Warning) {
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
    RawConnection { client, epoch: None, warned, driver: driving.abort_handle() }
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::super::in_force::InForce;
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
        assert!(url.in_force.prefer(second, 0).is_some());
        assert_eq!(tried().await, ["two", "one"]);
        // The old one may accept connections, and writes.
        assert!(url.in_force.choose(second, url.in_force.now().epoch));
        assert_eq!(tried().await, ["two"]);
    }

    #[tokio::test]
    async fn an_address_that_its_name_does_not_have_is_left_out_once_and_stays_in_force() {
        let asked = Asked::default();
        let one = closing("one", &asked).await;
        let url = PostgresUrl::parse(&format!("postgres://a@localhost:{one}/c")).unwrap();
        let gone = Target { host: 0, address: Some([192, 0, 2, 7].into()) };
        let epoch = url.in_force.prefer(gone, 0).unwrap();
        assert!(open(&url, None).await.is_err());
        assert!(asked.lock().unwrap().contains(&"one"), "another address may be the right one");
        assert!(epoch.is_in_force() && url.in_force.now().target == Some(gone));
        asked.lock().unwrap().clear();
        assert!(url.in_force.choose(gone, 0));
        let failure = open(&url, None).await.err().unwrap();
        let is_said = |why: &str| why.contains("does not have its address");
        assert!(matches!(&failure, Failure::Unavailable(why) if is_said(why)), "{failure:?}");
        assert!(asked.lock().unwrap().is_empty());
        assert!(url.in_force.now().target == Some(gone));
    }

    /// A message of the protocol.
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(4 + body.len()).unwrap().to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    /// Answers each part of what is sent over a connection in turn; returns the port.
    async fn answering(answers: Vec<Vec<u8>>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut sent = [0; 1024];
                for answer in &answers {
                    let _ = connection.read(&mut sent).await;
                    let _ = connection.write_all(answer).await;
                }
                // Until it is closed.
                let _ = connection.read(&mut sent).await;
            }
        });
        port
    }

    #[tokio::test]
    async fn a_full_server_is_left_only_if_it_answers_over_no_connection() {
        let full = b"SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0";
        let full = answering(vec![message(b'E', full)]).await;
        let ready = message(b'Z', b"I");
        let column = [
            b"\0\x01transaction_read_only\0".as_slice(),
            // No table, text, of any length.
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0],
        ]
        .concat();
        let shown = [
            message(b'T', &column),
            message(b'D', b"\0\x01\0\0\0\x03off"),
            message(b'C', b"SHOW\0"),
            ready.clone(),
        ];
        let begun = [message(b'R', &[0; 4]), ready].concat();
        let free = answering(vec![begun, shown.concat()]).await;
        let url = format!("postgres://a@127.0.0.1:{full},127.0.0.1:{free}/c");
        let mut url = PostgresUrl::parse(&url).unwrap();
        let first = url.targets().await[0].0;
        let healthy = url.in_force.prefer(first, 0).unwrap();
        assert!(matches!(open(&url, None).await, Err(Failure::Crowded(_))));
        assert!(healthy.is_in_force());
        url.in_force = InForce::silent_for(ANSWERS_TIME);
        let silent = url.in_force.prefer(first, 0).unwrap();
        let opened = open(&url, None).await.ok().unwrap();
        assert!(opened.epoch.is_some_and(|epoch| epoch.is_in_force()));
        assert!(!silent.is_in_force());
    }
}
