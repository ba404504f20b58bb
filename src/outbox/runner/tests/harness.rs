//! Channels with an effect of each kind, and their receivers: a local server, a mail sender that
//! stores mails, and a table for rows.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bincode::{Decode, Encode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::base::Email;
use crate::outbox::{
    Channel, Delivery, DeliveryAttempt, HiddenGuards, JOBS, LogEntry, LogQuery, Subscription,
    read_log, walk_log,
};
use crate::outside::mail::{Mail, MailFailure, Sending};
use crate::outside::{Outside, webhook};
use crate::store::Record;

// ── Workflows ────────────────────────────────────────────────────────────────

pub const SECRET: &str = "whsec_c2VjcmV0";

/// Posts events, signed, to the `url` of the channel.
pub const WEBHOOK: Workflow = Workflow {
    key: "webhook",
    effect: |tx, DeliveryAttempt { channel, notice }| {
        let view = &tx.view();
        let secret = channel.valid_secrets(view)?.remove(0);
        let key = webhook::secret_key(&secret).unwrap();
        let url = channel.config.0["url"].as_str().unwrap();
        let message = webhook::Message {
            id: notice.id.to_string(),
            kind: notice.kind(),
            at: notice.at,
            data: notice.payload.0.clone(),
        };
        Ok(Effect::Call(Box::new(webhook::post(url, &key, &message, view.now()))))
    },
};

/// Mails events.
pub const EMAIL: Workflow = Workflow {
    key: "email",
    effect: |_, attempt| {
        let to = vec![Email::parse("ada@acme.test").unwrap()];
        let text = attempt.notice.payload.0.to_string();
        let (id, subject) = (attempt.notice.id.to_string(), attempt.channel.name.clone());
        Ok(Effect::Mail(Mail { id, to, subject, text, html: None, unsubscribe: None }))
    },
};

/// Writes a row for an event, and then fails if the payload asks for it.
pub const ROW: Workflow = Workflow {
    key: "row",
    effect: |_, attempt| {
        let row = Row { delivery: attempt.notice.id };
        let refuse = attempt.notice.payload.0["refuse"] == true;
        Ok(Effect::Rows(Box::new(move |tx| {
            tx.put(&row)?;
            if refuse { Err(Error::conflict("refused", "the row was refused")) } else { Ok(()) }
        })))
    },
};

/// Always fails.
pub const UNABLE: Workflow =
    Workflow { key: "unable", effect: |_, _| Err(Error::no_such("thing")) };

/// The row that [`ROW`] writes.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Row {
    pub delivery: Id<LogEntry>,
}

impl Record for Row {
    const TABLE: &'static str = "test_rows";
    type Key = Id<LogEntry>;
    fn key(&self) -> Self::Key {
        self.delivery
    }
}

/// A sender that stores mails, or refuses them.
#[derive(Default)]
pub struct Mailbox {
    pub refuses: AtomicBool,
    pub mails: Mutex<Vec<Mail>>,
}

impl MailSender for Mailbox {
    fn send<'a>(&'a self, mail: &'a Mail) -> Sending<'a> {
        Box::pin(async {
            if self.refuses.load(Ordering::SeqCst) {
                return Err(MailFailure("mail.test refused the mail".into()));
            }
            self.mails.lock().unwrap().push(mail.clone());
            Ok(())
        })
    }
}

// ── A receiver of calls ──────────────────────────────────────────────────────

/// A local server.
pub struct Receiver {
    pub url: String,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Receiver {
    /// A server that responds with these statuses in turn, and then always with the last one. With
    /// status 0 it does not respond.
    pub async fn answering(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (note, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut left = statuses.iter();
            let mut unanswered = vec![];
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read(&mut stream).await else { continue };
                let status = left.next().or(statuses.last()).unwrap();
                if *status == 0 {
                    unanswered.push(stream);
                } else {
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
                let _ = note.send(request);
            }
        });
        Receiver { url, requests }
    }

    /// The next request, head and body.
    pub async fn next(&mut self) -> String {
        timeout(Duration::from_secs(30), self.requests.recv()).await.expect("in time").unwrap()
    }

    /// The number of received requests that `next` has not returned.
    pub fn count(&mut self) -> usize {
        std::iter::from_fn(|| self.requests.try_recv().ok()).count()
    }
}

async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut request = String::new();
    loop {
        let mut bytes = [0; 1024];
        let n = stream.read(&mut bytes).await.ok()?;
        request += std::str::from_utf8(&bytes[..n]).ok()?;
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or((&request, ""));
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: Option<usize> = length.and_then(|length| length.parse().ok());
        if n == 0 || length == Some(body.len()) {
            return (n > 0).then_some(request);
        }
    }
}

// ── The runner and its organization ──────────────────────────────────────────

/// A runner with all workflows above that may call loopback addresses.
pub fn runner_over(store: Store, mail: Arc<dyn MailSender>) -> Runner {
    let allow_private = vec!["127.0.0.0/8".parse().unwrap()];
    Runner {
        store,
        outside: Outside::new(outside::ClientConfig { allow_private, extra_roots_pem: None })
            .unwrap(),
        mail,
        jobs: JOBS.iter().collect(),
        workflows: vec![&WEBHOOK, &EMAIL, &ROW, &UNABLE],
        sweeps: vec![],
        settings: RetentionSettings::default(),
        organizations: |_| Ok(vec![org(1)]),
        meters: Arc::default(),
    }
}

pub fn in_memory() -> Runner {
    runner_over(Store::in_memory(Clock::at(NOON), TABLES), Arc::new(Mailbox::default()))
}

impl Runner {
    /// Runs a transaction of the organization.
    pub async fn write<T: Send + 'static>(
        &self,
        write: impl FnMut(&mut Tx) -> Result<T> + Send + 'static,
    ) -> T {
        self.store.write(org(1), write).await.unwrap()
    }

    /// Creates a channel of a workflow that is subscribed to agent errors.
    pub async fn channel(&self, workflow: &'static Workflow, config: Value) -> Id<Channel> {
        let channel = move |tx: &mut Tx| {
            let (key, config) = (workflow.key, config.clone());
            let channel = Channel::new(tx, key, key, config, Some(SECRET))?;
            let id = channel.id;
            tx.insert(&channel)?;
            tx.insert(&Subscription {
                id: tx.new_id(),
                channel: id,
                event_type: EventType::AgentError,
                enabled: true,
                created_at: tx.now(),
            })?;
            Ok(id)
        };
        self.write(channel).await
    }

    pub async fn webhook(&self, receiver: &Receiver) -> Id<Channel> {
        self.channel(&WEBHOOK, json!({"url": receiver.url})).await
    }

    /// Publishes an agent error.
    pub async fn publish(&self, payload: Value) {
        let publish = move |tx: &mut Tx| {
            let about = About::resource("agent", tx.org());
            publish(tx, EventType::AgentError, about, payload.clone())
        };
        self.write(publish).await;
    }

    /// Leases the job that has been due longest.
    pub async fn lease_one(&self) -> Option<Job> {
        self.lease(&InFlight::default(), &mut DueScan::default(), 1).await.pop()
    }

    /// Executes due jobs until there are none.
    pub async fn run_due(&self) {
        while let Some(job) = self.lease_one().await {
            self.execute(job).await;
        }
    }

    pub fn pass_secs(&self, secs: i64) {
        self.store.clock().advance_secs(secs);
    }

    /// The log, newest first.
    pub fn log(&self) -> Vec<LogEntry> {
        let (start, end) = (Time::from_millis(i64::MIN), Time::from_millis(i64::MAX));
        let all = LogQuery {
            event_type: None,
            channel: None,
            status: None,
            start,
            end,
            hidden: HiddenGuards::none(),
        };
        let read = |view: &View| {
            let mut positions = vec![];
            walk_log(view, &all, |position| {
                positions.push(position);
                ControlFlow::Continue(())
            })?;
            positions.into_iter().map(|position| read_log(view, position)).collect()
        };
        self.store.read_now(org(1), read).unwrap()
    }

    /// The deliveries, oldest first; checks the consistency of the store.
    pub fn deliveries(&self) -> Vec<Delivery> {
        let mut findings = self.store.check(TABLES).unwrap();
        let deliveries = self.store.read_now(org(1), |view| {
            crate::outbox::check_deliveries(view, &mut findings)?;
            view.all(ListSource::TABLE, &())
        });
        assert_eq!(findings.messages, Vec::<String>::new());
        deliveries.unwrap()
    }

    pub fn only_delivery(&self) -> Delivery {
        let deliveries: [Delivery; 1] = self.deliveries().try_into().unwrap();
        let [delivery] = deliveries;
        delivery
    }
}
