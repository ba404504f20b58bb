//! Mail: what is sent, and the one trait through which it leaves the process.

use std::fmt;
use std::pin::Pin;

use unicode_normalization::UnicodeNormalization as _;

use crate::base::Email;

/// A mail in plain text, optionally in HTML as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// Identifies it, the same at every attempt, so that a mail server or a reader can drop
    /// duplicates. Letters, digits and hyphens.
    pub id: String,
    /// Who receives it, each as a mail of their own.
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

/// Returns a text that somebody has chosen, such as a name, so that a mail can repeat it: without
/// control characters, and without anything that programs for mail turn into a link.
pub fn inert(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut inert = String::with_capacity(text.len());
    for (place, c) in chars.iter().enumerate() {
        let next = chars.get(place + 1).map(|next| plain_sign(*next));
        let continues_host = |next: char| next.is_alphanumeric() || matches!(next, '/' | '[');
        match plain_sign(*c) {
            c if c.is_control() => inert.push(' '),
            '.' if next.is_some_and(continues_host) => inert.extend(['[', *c, ']']),
            // A scheme has anything behind it: `tel:+49`.
            ':' if next.is_some_and(|next| !next.is_whitespace()) => inert.extend(['[', *c, ']']),
            '@' => inert.push_str("[at]"),
            _ => inert.push(*c),
        }
    }
    inert
}

/// Returns the sign as which a program that looks for links may take a character: that of ASCII for one
/// of full or half width, and a full stop for that of ideographs, as in the names of hosts.
fn plain_sign(c: char) -> char {
    let mut plain = std::iter::once(c).nfkc();
    match (plain.next(), plain.next()) {
        (Some('。'), None) => '.',
        (Some(plain), None) => plain,
        _ => c,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_mail_is_no_link() {
        for (name, shown) in [
            ("Acme", "Acme"),
            ("Dr. Ada & Co.", "Dr. Ada & Co."),
            ("Locked: http://evil.test/unlock", "Locked: http[:]//evil[.]test/unlock"),
            ("www.evil.test", "www[.]evil[.]test"),
            ("mailto:eve@evil.test", "mailto[:]eve[at]evil[.]test"),
            ("a\r\nBcc: eve@evil.test", "a  Bcc: eve[at]evil[.]test"),
            ("http://[::1]/", "http[:]//[[:][:]1]/"),
            ("evil。test evil．test evil｡test", "evil[。]test evil[．]test evil[｡]test"),
            ("http：／／evil", "http[：]／／evil"),
            ("http:／／evil.／x", "http[:]／／evil[.]／x"),
            ("eve＠evil", "eve[at]evil"),
            ("tel:+49123 sms:*1", "tel[:]+49123 sms[:]*1"),
            ("終わり。 A: b", "終わり。 A: b"),
        ] {
            assert_eq!(inert(name), shown);
        }
    }
}
