//! Mail: what is sent, and the one trait through which it leaves the process.

use std::fmt;
use std::pin::Pin;

use crate::base::Email;

/// A mail in plain text, optionally in HTML as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// Identifies it, the same at every attempt, so that a mail server or a reader can drop
    /// duplicates. Letters, digits and hyphens.
    pub id: String,
    /// Who receives it.
    pub to: Vec<Email>,
    /// Its subject, one line.
    pub subject: String,
    pub text: String,
    /// The same as HTML; none for plain text only.
    pub html: Option<String>,
    /// The subject of a mail to the sender by which a recipient asks for no more of these; none
    /// where that makes no sense, as in an answer to what the recipient did.
    pub unsubscribe: Option<String>,
}

/// Sends mails.
pub trait MailSender: Send + Sync {
    /// Hands one mail to a server that takes responsibility for it.
    ///
    /// # Errors
    /// If no server accepted it. Whether it is sent nevertheless is unknown if the connection
    /// broke.
    fn send<'a>(&'a self, mail: &'a Mail) -> Sending<'a>;

    /// Whether there is a server to hand mails to.
    fn is_configured(&self) -> bool {
        true
    }
}

/// The future of [`MailSender::send`].
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), MailFailure>> + Send + 'a>>;

/// Why a mail was not accepted: one sentence without a final full stop that a person can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailFailure(pub String);

impl fmt::Display for MailFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MailFailure {}

/// The sender of a server that has no mail server configured: every mail fails.
pub struct NotConfigured;

impl MailSender for NotConfigured {
    fn send<'a>(&'a self, _: &'a Mail) -> Sending<'a> {
        let why = "mail cannot be sent: this server has no mail server configured; the operator \
                   can name one with --smtp-url";
        Box::pin(std::future::ready(Err(MailFailure(why.into()))))
    }

    fn is_configured(&self) -> bool {
        false
    }
}
