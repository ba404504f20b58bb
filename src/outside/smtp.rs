//! Mail by SMTP, through the one server that the operator configures
//! (reference: notifications, "Mail").
//!
//! Connections are encrypted, by TLS from the start (`smtps:`) or by STARTTLS (`smtp:`), and the
//! server's certificate is checked, unless the operator says `?tls=none`. The address of the server
//! is not restricted as those of other calls are: it is the operator's choice, and mail servers are
//! often private.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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
use super::recipients::Recipients;
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
    accepted: Recipients,
    /// Whom a mail was sent to without success, or is being sent to.
    tried: Recipients,
}

impl Smtp {
    /// Creates the sender; connects to nothing.
    ///
    /// # Errors
    /// If the sender is no address, or TLS cannot check the name of the server.
    pub fn new(config: &SmtpConfig) -> Result<Self> {
        let SmtpConfig { url, from, extra_roots_pem } = config;
        let mut from: Mailbox = from.parse().map_err(|_| {
            Error::invalid_at("--mail-from", "must be an e-mail address or `Name <address>`")
        })?;
        from.email =
            address(from.email.as_ref()).map_err(|why| Error::invalid_at("--mail-from", why))?;
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
            accepted: Recipients::default(),
            tried: Recipients::default(),
        })
    }

    /// The mail as one of its recipients gets it, who does not see the others.
    fn message(&self, mail: &Mail, to: &Email) -> std::result::Result<Message, String> {
        let domain = self.from.email.domain();
        let mut message = Message::builder()
            .from(self.from.clone())
            .raw_header(subject(&visible::line(&mail.subject)))
            .message_id(Some(format!("<{}@{domain}>", mail.id)))
            .date_now()
            // Nobody's absence is answered to a program (RFC 3834).
            .raw_header(header("Auto-Submitted", "auto-generated".into()));
        message = message.to(Mailbox::new(None, address(to.as_str())?));
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
        let mut failed = Vec::new();
        for to in self.in_order(mail) {
            self.tried.note(&mail.id, to);
            match self.deliver_to(mail, to).await {
                Ok(()) => self.accepted.note(&mail.id, to),
                Err(failure) => failed.push((to, failure)),
            }
        }
        if failed.is_empty() {
            self.accepted.forget(&mail.id);
            self.tried.forget(&mail.id);
        }
        outcome(mail, failed)
    }

    /// Returns the recipients that have not got a mail, those to whom it was not sent before first: one
    /// whose server takes all the time that there is keeps the others from theirs once at most.
    fn in_order<'a>(&self, mail: &'a Mail) -> Vec<&'a Email> {
        let rest = mail.to.iter().filter(|to| !self.accepted.has(&mail.id, to));
        let (tried, mut first): (Vec<_>, Vec<_>) =
            rest.partition(|to| self.tried.has(&mail.id, to));
        first.extend(tried);
        first
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
            Ok(Err(error)) if error.is_client() && !has_ascii_name(to) => {
                let why = "takes no address with other characters than ASCII before the @ (it \
                           offers no SMTPUTF8)";
                Err(MailFailure(format!("the mail server {server} {why}")))
            }
            Ok(Err(error)) => Err(MailFailure(reason(server, &error))),
            Err(_) => Err(MailFailure(format!(
                "the mail server {server} did not accept the mail within {} s",
                MAIL_TIMEOUT.as_secs()
            ))),
        }
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

/// Returns an address as mail has it: its domain in ASCII, which those of earlier versions, and the
/// sender, may not have. Few servers take another (SMTPUTF8).
fn address(email: &str) -> std::result::Result<Address, String> {
    let refused = || format!("{email} is not an address that mail can have");
    let (local, domain) = email.rsplit_once('@').ok_or_else(refused)?;
    let domain = if domain.is_ascii() {
        domain.to_string()
    } else {
        idna::domain_to_ascii(domain).map_err(|_| refused())?
    };
    Address::new(local, domain).map_err(|_| refused())
}

/// Returns what became of a mail by the recipients that have not got it: each is sent a mail of its
/// own, so one that cannot be reached keeps none of the others from theirs.
fn outcome(
    mail: &Mail,
    failed: Vec<(&Email, MailFailure)>,
) -> std::result::Result<(), MailFailure> {
    let (count, all) = (failed.len(), mail.to.len());
    match failed.into_iter().next() {
        None => Ok(()),
        Some((_, failure)) if all == 1 => Err(failure),
        Some((to, MailFailure(why))) => {
            Err(MailFailure(format!("{count} of {all} recipients did not get it; {to}: {why}")))
        }
    }
}

/// Whether the part of an address before its domain is ASCII; domains are written so.
fn has_ascii_name(address: &str) -> bool {
    address.rsplit_once('@').is_none_or(|(name, _)| name.is_ascii())
}

/// Returns the header of a subject. A part in the form of an encoded word (RFC 2047) would be shown
/// decoded, as another text than was written; so a subject with one is encoded as a whole.
fn subject(text: &str) -> HeaderValue {
    const NAME: HeaderName = HeaderName::new_from_ascii_str("Subject");
    if !text.contains("=?") {
        return HeaderValue::new(NAME, text.into());
    }
    HeaderValue::dangerous_new_pre_encoded(NAME, text.into(), encoded_words(text))
}

/// Returns a text as encoded words, one a line.
fn encoded_words(text: &str) -> String {
    /// With the name of the header, a line has at most 76 characters.
    const MOST_BYTES: usize = 39;
    let mut parts = vec![String::new()];
    for c in text.chars() {
        if parts.last().is_some_and(|part| part.len() + c.len_utf8() > MOST_BYTES) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let word = |part: &String| format!("=?utf-8?b?{}?=", STANDARD.encode(part));
    parts.iter().map(word).collect::<Vec<_>>().join("\r\n ")
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
    fn a_subject_is_shown_as_it_was_written_and_never_decoded() {
        let sent = |subject: &str| {
            let mail = Mail { subject: subject.into(), ..mail() };
            let message = smtp("r@acme.test").unwrap().message(&mail, &mail.to[0]).unwrap();
            let text = String::from_utf8(message.formatted()).unwrap();
            let (head, _) = text.split_once("\r\n\r\n").unwrap();
            let at = head.find("Subject: ").unwrap();
            let mut lines = head[at..].split("\r\n");
            let first = lines.next().unwrap().to_string();
            let folded = lines.take_while(|line| line.starts_with(' '));
            folded.fold(first, |all, line| format!("{all}\n{line}"))
        };
        assert_eq!(sent("[Ops] Pay = 1?"), "Subject: [Ops] Pay = 1?");
        let forged = "[Ops] =?utf-8?q?Pay_nobody?= ok";
        let encoded = STANDARD.encode(forged);
        assert_eq!(sent(forged), format!("Subject: =?utf-8?b?{encoded}?="));
        let long = format!("=?{}", "ü".repeat(60));
        let header = sent(&long);
        let mut decoded = Vec::new();
        for line in header.lines() {
            assert!(line.len() <= 76, "{header}");
            let word = line.trim_start_matches("Subject:").trim_start();
            let word = word.strip_prefix("=?utf-8?b?").and_then(|word| word.strip_suffix("?="));
            // Each is a text of its own (RFC 2047, section 5).
            let part = STANDARD.decode(word.unwrap()).unwrap();
            decoded.push(String::from_utf8(part).unwrap());
        }
        assert_eq!(decoded.concat(), long);
    }

    #[test]
    fn domains_are_written_in_ascii_whichever_way_they_were_stored() {
        let smtp = smtp("Roadstead <r@bücher.example>").unwrap();
        let stored = Email::from_trusted("ops@münchen.example".into());
        let message = smtp.message(&mail(), &stored).unwrap();
        let text = String::from_utf8(message.formatted()).unwrap();
        for line in [
            "From: Roadstead <r@xn--bcher-kva.example>",
            "To: ops@xn--mnchen-3ya.example",
            "Message-ID: <0190-a@xn--bcher-kva.example>",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
        assert!(message.envelope().to().iter().all(|to| AsRef::<str>::as_ref(to).is_ascii()));
    }

    #[tokio::test]
    async fn who_could_not_be_reached_before_comes_last() {
        let (smtp, mail) = (smtp("r@acme.test").unwrap(), mail());
        let [ada, b] = [&mail.to[0], &mail.to[1]];
        assert_eq!(smtp.in_order(&mail), [ada, b]);
        // As where the time was over with the first.
        smtp.tried.note(&mail.id, ada);
        assert_eq!(smtp.in_order(&mail), [b, ada]);
        smtp.accepted.note(&mail.id, b);
        assert_eq!(smtp.in_order(&mail), [ada]);
        assert_eq!(smtp.in_order(&Mail { id: "0190-b".into(), ..mail.clone() }), [ada, b]);
        assert!(smtp.deliver(&mail).await.is_err());
        assert_eq!(smtp.in_order(&mail), [ada]);
    }

    #[test]
    fn recipients_that_did_not_get_a_mail_are_counted_and_one_is_named() {
        let mail = mail();
        let why = || MailFailure("it is full".into());
        let failed = |count: usize| mail.to.iter().take(count).map(|to| (to, why())).collect();
        assert_eq!(outcome(&mail, failed(0)), Ok(()));
        let one = outcome(&mail, failed(1)).unwrap_err();
        assert_eq!(one.0, "1 of 2 recipients did not get it; ada@acme.test: it is full");
        let alone = Mail { to: vec![mail.to[0].clone()], ..mail.clone() };
        assert_eq!(outcome(&alone, failed(1)), Err(why()));
    }

    #[test]
    fn a_sender_that_is_no_address_is_refused() {
        for from in ["", "ada", "Ada <ada>"] {
            assert!(smtp(from).is_err(), "{from}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_down_is_named_in_the_failure() {
        let mail = Mail { to: vec![mail().to[0].clone()], ..mail() };
        let failure = smtp("r@acme.test").unwrap().send(&mail).await.unwrap_err();
        assert!(
            failure.0.starts_with("the mail server 127.0.0.1:1 could not be used: "),
            "{failure}"
        );
    }
}
