//! Mail by SMTP, through the one server that the operator configures
//! (reference: notifications, "Mail").
//!
//! Connections are encrypted, by TLS from the start (`smtps:`) or by STARTTLS (`smtp:`), and the
//! server's certificate is checked, unless the operator says `?tls=none`. The address of the server
//! is not restricted as those of other calls are: it is the operator's choice, and mail servers are
//! often private.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lettre::address::Address;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::mail::{Mail, MailFailure, MailSender, Sending};
use crate::base::{Email, Error, Result, visible};

/// Time for the server's answer to each command; all of them together have half a minute. Servers
/// that check a mail before they accept it take a few seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a mail: half of the lease of a job, so that a mail that is accepted late is not sent
/// again meanwhile.
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(30);

/// Mails under way at once; others wait for their turn. Mail servers refuse a sender that opens many
/// connections.
const MAX_AT_ONCE: usize = 8;

/// An answer is repeated to a person up to this many characters.
const MAX_REASON_CHARS: usize = 300;

/// How the connection to the mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encryption {
    /// TLS from the start.
    Tls,
    /// STARTTLS; a server that does not offer it is refused.
    StartTls,
    /// None.
    None,
}

/// A mail server: `smtps://user:password@mail.example:465` (TLS) or `smtp://…:587` (STARTTLS).
#[derive(Clone, PartialEq, Eq)]
pub struct SmtpUrl {
    encryption: Encryption,
    host: String,
    port: u16,
    /// User and password.
    login: Option<(String, String)>,
}

/// Without the password.
impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({:?})", self.host, self.port, self.encryption)
    }
}

impl SmtpUrl {
    /// Parses a URL. The error is a phrase that says what it must be; it never repeats the URL, which
    /// holds a password.
    pub fn parse(url: &str) -> std::result::Result<Self, &'static str> {
        const FORM: &str = "must be smtps://USER:PASSWORD@HOST:PORT (TLS) or smtp://… (STARTTLS), \
                            with user and password percent-encoded";
        let (scheme, rest) = url.split_once("://").ok_or(FORM)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (encryption, default_port) = match (scheme, query) {
            ("smtps", "") => (Encryption::Tls, 465),
            ("smtp", "") => (Encryption::StartTls, 587),
            ("smtp", "tls=none") => (Encryption::None, 25),
            _ => return Err(FORM),
        };
        let login = match login {
            Some(login) => Some(parse_login(login).ok_or(FORM)?),
            None => None,
        };
        let (host, port) = parse_place(place, default_port).ok_or(FORM)?;
        let is_local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if encryption == Encryption::None && login.is_some() && !is_local {
            return Err("must not send a password without encryption: remove ?tls=none, or the \
                        password");
        }
        Ok(SmtpUrl { encryption, host, port, login })
    }
}

fn parse_login(text: &str) -> Option<(String, String)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
    let (user, password) = text.split_once(':')?;
    let (user, password) = (decode(user)?, decode(password)?);
    (!user.is_empty()).then_some((user, password))
}

fn parse_place(text: &str, default_port: u16) -> Option<(String, u16)> {
    let end = if text.starts_with('[') {
        text.find(']')? + 1
    } else {
        text.find(':').unwrap_or(text.len())
    };
    let (host, port) = text.split_at(end);
    let port = match port {
        "" => default_port,
        port => port.strip_prefix(':')?.parse().ok()?,
    };
    let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(ip) => ip.parse::<Ipv6Addr>().ok()?.to_string(),
        None => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            (!host.is_empty() && host.chars().all(is_name)).then(|| host.to_string())?
        }
    };
    Some((host, port))
}

/// The settings of mail.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    /// The server (`--smtp-url`).
    pub url: SmtpUrl,
    /// The sender, an address or `Name <address>` (`--mail-from`).
    pub from: String,
    /// PEM certificates to trust in addition to the built-in ones (`--ca-file`).
    pub extra_roots_pem: Option<Vec<u8>>,
}

/// Sends mail through a server. A mail has a connection of its own: there are few, and a server may
/// close an idle one at any time.
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    /// Host and port, for failures.
    server: String,
    /// One permit per mail under way.
    slots: Semaphore,
    accepted: Accepted,
}

impl Smtp {
    /// Creates the sender; connects to nothing.
    ///
    /// # Errors
    /// If the sender is no address, or TLS cannot check the name of the server.
    pub fn new(config: &SmtpConfig) -> Result<Self> {
        let SmtpConfig { url, from, extra_roots_pem } = config;
        let from: Mailbox = from.parse().map_err(|_| {
            Error::invalid_at("--mail-from", "must be an e-mail address or `Name <address>`")
        })?;
        let tls = || tls(&url.host, extra_roots_pem.as_deref());
        let tls = match url.encryption {
            Encryption::Tls => Tls::Wrapper(tls()?),
            Encryption::StartTls => Tls::Required(tls()?),
            Encryption::None => Tls::None,
        };
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&url.host)
            .port(url.port)
            .tls(tls)
            // The name of this machine is nobody's business, and often not a valid one.
            .hello_name(ClientId::Domain(from.email.domain().into()))
            .timeout(Some(COMMAND_TIMEOUT));
        if let Some((user, password)) = &url.login {
            transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
        }
        let server = format!("{}:{}", url.host, url.port);
        Ok(Smtp {
            transport: transport.build(),
            from,
            server,
            slots: Semaphore::new(MAX_AT_ONCE),
            accepted: Accepted::default(),
        })
    }

    /// The mail as one of its recipients gets it, who does not see the others.
    fn message(&self, mail: &Mail, to: &Email) -> std::result::Result<Message, String> {
        let domain = self.from.email.domain();
        let mut message = Message::builder()
            .from(self.from.clone())
            .subject(visible::line(&mail.subject))
            .message_id(Some(format!("<{}@{domain}>", mail.id)))
            .date_now()
            // Nobody's absence is answered to a program (RFC 3834).
            .raw_header(header("Auto-Submitted", "auto-generated".into()));
        message = message.to(Mailbox::new(None, address(to)?));
        if let Some(subject) = &mail.unsubscribe {
            let subject = utf8_percent_encode(&one_line(subject), NON_ALPHANUMERIC).to_string();
            let link = format!("<mailto:{}?subject={subject}>", self.from.email);
            message = message.raw_header(header("List-Unsubscribe", link));
        }
        // Of HTML, too: in it a mark is text, wherever it is.
        let shown = |text: &str| visible::block(text).into_owned();
        let text = shown(&mail.text);
        let message = match &mail.html {
            Some(html) => message.multipart(MultiPart::alternative_plain_html(text, shown(html))),
            None => message.singlepart(lettre::message::SinglePart::plain(text)),
        };
        message.map_err(|error| error.to_string())
    }

    /// Sends a mail to each of its recipients, one after the other. If it is sent again, because some
    /// were not accepted or the time was over, it is sent to the rest alone.
    async fn deliver(&self, mail: &Mail) -> std::result::Result<(), MailFailure> {
        let mut result = Ok(());
        for to in &mail.to {
            if self.accepted.has(&mail.id, to) {
                continue;
            }
            match self.deliver_to(mail, to).await {
                Ok(()) => self.accepted.note(&mail.id, to),
                Err(failure) => result = Err(failure),
            }
        }
        if result.is_ok() {
            self.accepted.forget(&mail.id);
        }
        result
    }

    async fn deliver_to(&self, mail: &Mail, to: &Email) -> std::result::Result<(), MailFailure> {
        let server = &self.server;
        let message = self.message(mail, to);
        let message =
            message.map_err(|why| MailFailure(format!("the mail cannot be written: {why}")))?;
        let send = async {
            let _slot = self.slots.acquire().await;
            self.transport.send(message).await
        };
        match timeout(MAIL_TIMEOUT, send).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(MailFailure(reason(server, &error))),
            Err(_) => Err(MailFailure(format!(
                "the mail server {server} did not accept the mail within {} s",
                MAIL_TIMEOUT.as_secs()
            ))),
        }
    }
}

/// The mails that are being sent, each with a recipient who has got it, the newest at the end. After a
/// restart it is sent to all, with the id by which readers drop duplicates.
#[derive(Default)]
struct Accepted(Mutex<VecDeque<(String, Email)>>);

impl Accepted {
    /// More than are being retried at any time.
    const MOST: usize = 10_000;

    fn has(&self, mail: &str, to: &Email) -> bool {
        self.lock().iter().any(|(id, accepted)| id == mail && accepted == to)
    }

    fn note(&self, mail: &str, to: &Email) {
        let mut accepted = self.lock();
        if accepted.len() == Self::MOST {
            accepted.pop_front();
        }
        accepted.push_back((mail.into(), to.clone()));
    }

    fn forget(&self, mail: &str) {
        self.lock().retain(|(id, _)| id != mail);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Email)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MailSender for Smtp {
    fn send<'a>(&'a self, mail: &'a Mail) -> Sending<'a> {
        Box::pin(self.deliver(mail))
    }
}

fn tls(host: &str, extra_roots_pem: Option<&[u8]>) -> Result<TlsParameters> {
    let refused = |error| {
        Error::invalid_at("--smtp-url", format!("TLS cannot check the server's name: {error}"))
    };
    let mut parameters =
        TlsParameters::builder(host.into()).certificate_store(CertificateStore::WebpkiRoots);
    if let Some(pem) = extra_roots_pem {
        let certificate = Certificate::from_pem(pem)
            .map_err(|error| Error::invalid_at("--ca-file", format!("is broken: {error}")))?;
        parameters = parameters.add_root_certificate(certificate);
    }
    parameters.build().map_err(refused)
}

fn address(email: &Email) -> std::result::Result<Address, String> {
    email.as_str().parse().map_err(|_| format!("{email} is not an address that mail can have"))
}

fn header(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value)
}

/// Returns a text without characters that would begin another header.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns why the server did not accept a mail, with its answer if there is one.
fn reason(server: &str, error: &lettre::transport::smtp::Error) -> String {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    // Some errors repeat their source, others only say what kind they are.
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !why.contains(&inner_text) {
            why = format!("{why}: {inner_text}");
        }
        source = inner.source();
    }
    let why: String = one_line(&why).chars().take(MAX_REASON_CHARS).collect();
    let what = match error.status() {
        Some(_) => "did not accept the mail",
        None if error.is_timeout() => "did not answer in time",
        None => "could not be used",
    };
    format!("the mail server {server} {what}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Mail {
        Mail {
            id: "0190-a".into(),
            to: vec![Email::parse("ada@acme.test").unwrap(), Email::parse("b@acme.test").unwrap()],
            subject: "Größe\r\nBcc: eve@evil.test".into(),
            text: "plain\u{e0069}".into(),
            html: Some("<p>html\u{202e}</p>".into()),
            unsubscribe: Some("no more".into()),
        }
    }

    fn smtp(from: &str) -> Result<Smtp> {
        let url = SmtpUrl::parse("smtp://127.0.0.1:1?tls=none").unwrap();
        Smtp::new(&SmtpConfig { url, from: from.into(), extra_roots_pem: None })
    }

    #[test]
    fn a_url_says_encryption_place_and_login() {
        for (url, encryption, host, port, login) in [
            ("smtps://mail.test", Encryption::Tls, "mail.test", 465, None),
            ("smtp://mail.test/", Encryption::StartTls, "mail.test", 587, None),
            ("smtp://[::1]:25", Encryption::StartTls, "::1", 25, None),
            ("smtp://mail.test:2525?tls=none", Encryption::None, "mail.test", 2525, None),
            ("smtp://u:p@localhost?tls=none", Encryption::None, "localhost", 25, Some(("u", "p"))),
            (
                "smtps://a%40b.test:p%3A%2Fw@mail.test:1",
                Encryption::Tls,
                "mail.test",
                1,
                Some(("a@b.test", "p:/w")),
            ),
        ] {
            let login = login.map(|(user, password): (&str, &str)| (user.into(), password.into()));
            let expected = SmtpUrl { encryption, host: host.into(), port, login };
            assert_eq!(SmtpUrl::parse(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn a_url_that_is_none_is_refused_without_being_repeated() {
        for url in [
            "",
            "mail.test",
            "http://mail.test",
            "smtp://",
            "smtp://u@mail.test",
            "smtp://:p@mail.test",
            "smtp://mail.test:0x1",
            "smtp://mail.test:70000",
            "smtp://[::1",
            "smtp://a b",
            "smtp://mail.test/path",
            "smtp://mail.test?tls=maybe",
            "smtps://mail.test?tls=none",
            "smtp://u:geheim@mail.test?tls=none",
        ] {
            let problem = SmtpUrl::parse(url).unwrap_err();
            assert!(
                problem.starts_with("must ") && !problem.contains("geheim"),
                "{url}: {problem}"
            );
        }
        let secret = SmtpUrl::parse("smtps://u:geheim@mail.test").unwrap();
        assert!(!format!("{secret:?}").contains("geheim"));
    }

    #[test]
    fn a_mail_has_both_parts_and_no_header_of_its_subject() {
        let message =
            smtp("Roadstead <roadstead@acme.test>").unwrap().message(&mail(), &mail().to[0]);
        let message = message.unwrap();
        let text = String::from_utf8(message.formatted()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        for line in [
            "From: Roadstead <roadstead@acme.test>",
            "To: ada@acme.test",
            "Message-ID: <0190-a@acme.test>",
            "Auto-Submitted: auto-generated",
            "List-Unsubscribe: <mailto:roadstead@acme.test?subject=no%20more>",
        ] {
            assert!(head.lines().any(|other| other == line), "{line} in {head}");
        }
        assert!(!head.to_lowercase().contains("\nbcc"), "{head}");
        assert!(!head.contains("b@acme.test"), "the others are not seen: {head}");
        assert!(body.contains("text/plain") && body.contains("plain="), "{body}");
        assert!(body.contains("text/html") && body.contains("<p>html="), "{body}");
    }

    #[test]
    fn what_a_reader_would_not_see_has_marks_in_every_part_of_a_mail() {
        let subject = "sum\u{200b}mary\n".to_string();
        let mail = Mail { subject, ..mail() };
        let message = smtp("r@acme.test").unwrap().message(&mail, &mail.to[0]).unwrap().formatted();
        let text = String::from_utf8(message).unwrap();
        // Quoted-printable, and an encoded word.
        assert!(text.contains("plain=E2=9F=A8U+E0069=E2=9F=A9"), "{text}");
        assert!(text.contains("html=E2=9F=A8U+202E=E2=9F=A9"), "{text}");
        assert!(text.contains("=?utf-8?b?"), "{text}");
        for hidden in ["=F3=A0", "=E2=80=AE", "=E2=80=8B"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }

    #[test]
    fn a_sender_that_is_no_address_is_refused() {
        for from in ["", "ada", "Ada <ada>"] {
            assert!(smtp(from).is_err(), "{from}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_down_is_named_in_the_failure() {
        let failure = smtp("r@acme.test").unwrap().send(&mail()).await.unwrap_err();
        assert!(
            failure.0.starts_with("the mail server 127.0.0.1:1 could not be used: "),
            "{failure}"
        );
    }
}
