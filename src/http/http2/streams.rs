//! The requests of a connection: how many there may be, and the task of each.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use hyper::body::{Body as _, Incoming};
use hyper::rt::Executor;
use hyper::{Request, Response};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::head::{cut_body, translate};
use super::sending::{Outgoing, Sending};
use crate::base::{Error, LogLimit};
use crate::http::answering::{Answered, Arrival, answered, refused};
use crate::http::asker::Asker;
use crate::http::connections::Place;
use crate::http::context::ServerContext;
use crate::http::response_body::ResponseBody;

/// Limit of the requests in progress on a connection. RFC 9113 advises no fewer than 100, and clients
/// assume as many before they have read another number.
pub const MAX_STREAMS: u32 = 100;

/// What a connection counts as in the limit of connections, and so how many requests it may have in
/// progress before each further one counts as another. Idle, it takes 27 KB, and 35 once its client has
/// filled the tables of fields; one of HTTP/1.1 with TLS takes 13.
const PLACES: usize = 3;

/// Limit of the requests of a connection that are worked on, with those that were taken back. It is more than
/// hyper lets in at once, since it lets in the next when the last frame of an answer is written, a moment
/// before its task has ended.
const MAX_RUNNING: usize = 2 * MAX_STREAMS as usize;

/// How many more requests a client may take back than it lets be answered: each costs the server more than
/// the client. Those that only wait, such as long polls, do not count.
const MAX_TAKEN_BACK: usize = 100;

/// The requests of a connection.
pub struct Streams {
    /// The address of the client.
    pub peer: SocketAddr,
    state: Mutex<State>,
    failed: Notify,
}

struct State {
    /// Those in progress: until the response is accepted and the work for it is done, also of one that
    /// was taken back.
    running: usize,
    /// Since when there is none.
    idle_since: Instant,
    has_begun: bool,
    /// How many more were taken back than answered.
    taken_back: usize,
    place: Option<Place>,
}

impl Streams {
    /// Those of a connection that begins now with this place; `None` if its client may have no more.
    pub fn new(mut place: Option<Place>, peer: SocketAddr) -> Option<Arc<Self>> {
        if !place.as_mut().is_none_or(|place| place.resize(PLACES)) {
            log_refusal(peer);
            return None;
        }
        let idle_since = Instant::now();
        let state = State { running: 0, idle_since, has_begun: false, taken_back: 0, place };
        Some(Arc::new(Streams { peer, state: Mutex::new(state), failed: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when there is no request in progress.
    pub fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.running == 0).then_some(state.idle_since)
    }

    /// Whether there ever was a request.
    pub fn has_begun(&self) -> bool {
        self.state().has_begun
    }

    /// Waits until the connection must be closed for what its client does.
    pub async fn failed(&self) {
        self.failed.notified().await;
    }

    /// A request begins, if there may be one more.
    fn begin(self: &Arc<Self>) -> Option<Running> {
        let mut state = self.state();
        state.has_begun = true;
        let running = state.running + 1;
        if running > MAX_RUNNING {
            return None;
        }
        if !state.place.as_mut().is_none_or(|place| place.resize(running.max(PLACES))) {
            drop(state);
            log_refusal(self.peer);
            return None;
        }
        state.running = running;
        Some(Running(self.clone()))
    }

    /// A request was answered.
    fn answered(&self) {
        let mut state = self.state();
        state.taken_back = state.taken_back.saturating_sub(1);
    }

    /// A request was taken back before it was answered, which took work all the same.
    fn taken_back(&self) {
        let mut state = self.state();
        state.taken_back += 1;
        if state.taken_back > MAX_TAKEN_BACK {
            tracing::debug!(peer = %self.peer, "a client takes back what it asks for, and is closed");
            self.failed.notify_one();
        }
    }
}

fn log_refusal(peer: SocketAddr) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(suppressed) = LIMIT.admit(Instant::now()) {
        tracing::warn!(%peer, suppressed, "a stream was refused: there are too many connections");
    }
}

fn too_many() -> Error {
    Error::busy(
        "too_many_streams",
        "too many requests are in progress at once; wait for the answers to some",
        5,
    )
}

/// A request in progress.
struct Running(Arc<Streams>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        state.idle_since = Instant::now();
        let held = state.running.max(PLACES);
        if let Some(place) = &mut state.place {
            place.resize(held);
        }
    }
}

/// What the requests of a connection are answered with.
pub struct Serving {
    pub context: Arc<ServerContext>,
    pub arrival: Arc<Arrival>,
    pub streams: Arc<Streams>,
}

/// A request that has begun.
struct Begun {
    request: Request<Incoming>,
    answer: oneshot::Sender<Response<Outgoing>>,
}

/// Gives each request a task. hyper first asks for the answer ([`Spawner::begin`]), then gives the future
/// that sends it, with which nothing else happens in between.
#[derive(Clone)]
pub struct Spawner {
    serving: Arc<Serving>,
    begun: Arc<Mutex<Option<Begun>>>,
    /// Weak, since each task has a spawner: with the connection they end, too.
    tasks: Weak<Mutex<JoinSet<()>>>,
}

impl Spawner {
    /// One for these tasks.
    pub fn new(serving: Serving, tasks: &Arc<Mutex<JoinSet<()>>>) -> Self {
        Spawner { serving: Arc::new(serving), begun: Arc::default(), tasks: Arc::downgrade(tasks) }
    }

    /// The answer to a request, which its task will give.
    pub fn begin(&self, request: Request<Incoming>) -> oneshot::Receiver<Response<Outgoing>> {
        let (answer, awaited) = oneshot::channel();
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        *begun = Some(Begun { request, answer });
        awaited
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, sent: F) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(begun), Some(tasks)) = (begun, self.tasks.upgrade()) else { return };
        let running = self.serving.streams.begin();
        let task = run(self.serving.clone(), begun, running, sent);
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Answers a request, and sends the answer by `sent`: which ends early if the client takes it back or the
/// connection ends, and takes it back from the client when it is dropped.
async fn run<F: Future<Output = ()>>(
    serving: Arc<Serving>,
    Begun { request, answer }: Begun,
    running: Option<Running>,
    sent: F,
) {
    let Serving { context, arrival, streams } = &*serving;
    let mut sent = pin!(Some(sent));
    let sending = Arc::<Sending>::default();
    let method = request.method().clone();
    let response = match &running {
        Some(_) => {
            let waits = Arc::new(Notify::new());
            let handled = pin!(handle(context, request, arrival, waits.clone()));
            let taken_back = ended(sent.as_mut());
            match unless_taken_back(handled, taken_back, &waits, streams).await {
                Some(response) => response,
                None => return,
            }
        }
        None => refused(context, request.headers(), arrival, &too_many()),
    };
    let (mut head, mut body) = response.into_parts();
    if cut_body(&method, &mut head, body.size_hint().exact()) {
        body = ResponseBody::default();
    }
    let _ = answer.send(Response::from_parts(head, Outgoing::new(body, sending.clone())));
    if !before_stuck(ended(sent.as_mut()), &sending).await {
        return;
    }
    // It may hold a part that nobody waits for any more.
    sent.set(None);
    // Of a small body hyper has no hold any more: only with its connection it can be given up.
    if !before_stuck(std::future::poll_fn(|cx| sending.poll_sent(cx)), &sending).await {
        streams.failed.notify_one();
    }
}

async fn handle(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
    arrival: &Arrival,
    waits: Arc<Notify>,
) -> Response<ResponseBody> {
    let (mut head, body) = request.into_parts();
    let known = translate(&mut head);
    let request = Request::from_parts(head, body);
    // A body that was not read to its end ends its stream, not the connection.
    let Answered { response, .. } =
        answered(context, request, arrival, Asker::Stream(waits), known).await;
    response
}

/// The end of a future that is there.
async fn ended<F: Future<Output = ()>>(mut future: Pin<&mut Option<F>>) {
    if let Some(future) = future.as_mut().as_pin_mut() {
        future.await;
    }
}

/// The response, unless the client takes the request back. Then what was begun is completed all the same, as
/// with HTTP/1.1, unless it only waits for something to happen; the request counts until then.
async fn unless_taken_back<T>(
    mut handled: Pin<&mut impl Future<Output = T>>,
    taken_back: impl Future<Output = ()>,
    waits: &Notify,
    streams: &Streams,
) -> Option<T> {
    tokio::select! {
        biased;
        // First: a body that breaks off with its request would be answered, too.
        () = taken_back => {}
        response = &mut handled => {
            streams.answered();
            return Some(response);
        }
    }
    tokio::select! {
        biased;
        () = waits.notified() => {}
        _ = handled => streams.taken_back(),
    }
    None
}

/// Waits for `done`; returns false if the client does not read meanwhile.
async fn before_stuck(done: impl Future<Output = ()>, sending: &Sending) -> bool {
    let mut done = pin!(done);
    loop {
        tokio::select! {
            biased;
            () = &mut done => return true,
            () = sleep_until(sending.look_at().into()) => {}
        }
        if sending.is_stuck() {
            return false;
        }
    }
}
