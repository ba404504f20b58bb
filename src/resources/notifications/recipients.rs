//! Who receives the mails of channels: members whose address the organization vouches for, and others
//! who have agreed by a link that was sent to the address (reference: notifications, "Recipients").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::recipients;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ANYONE, Membership, Organization, User, find_person};
use crate::base::{Email, Error, Id, Name, Result, Time};
use crate::outbox::{
    Channel, Effect, EffectResult, Job, JobHandler, Prepared, RetentionSettings, Settled, Sweep,
    SweepProgress, delete_due, enqueue, settle_mail,
};
use crate::outside::mail::{Mail, inert};
use crate::resources::mail_budget::{self, CountedFor};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Org, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<MailRecipient>()],
    jobs: &[ASK],
    sweeps: &[FORGET_UNANSWERED],
    ..Resource::EMPTY
};

/// A link is valid for a week, as an invitation is.
const VALID_SECS: i64 = 7 * 24 * 3600;

// ── Record ───────────────────────────────────────────────────────────────────

/// An address that was asked whether it takes the mails of an organization.
#[derive(Clone, Debug, Encode, Decode)]
struct MailRecipient {
    id: Id<MailRecipient>,
    org: Id<Org>,
    email: Email,
    /// The hash of the link's token.
    token: [u8; 32],
    link_base: String,
    asked_at: Time,
    confirmed_at: Option<Time>,
}

static BY_ADDRESS: Index<MailRecipient, (Id<Org>, Email)> = Index::unique(
    "mail_recipients.by_address",
    "recipient_exists",
    "this address was asked already",
    |recipient| Some((recipient.org, recipient.email.clone())),
);

static BY_TOKEN: Index<MailRecipient, [u8; 32]> = Index::unique(
    "mail_recipients.by_token",
    "recipient_exists",
    "this address was asked already",
    |recipient| Some(recipient.token),
);

/// Those that have not answered, by when they were asked.
static UNANSWERED: Index<MailRecipient, Time> =
    Index::non_unique("mail_recipients.unanswered", |recipient| {
        recipient.confirmed_at.is_none().then_some(recipient.asked_at)
    });

static ORGANIZATION: Reference<MailRecipient, Organization> = Reference::cascade(
    &["org"],
    |organization: &Organization| crate::store::Key::to_bytes(&organization.id),
    |recipient: &MailRecipient, _| vec![crate::store::Key::to_bytes(&recipient.org)],
);

impl Record for MailRecipient {
    const TABLE: &'static str = "mail_recipients";
    const EXPORT: Export<Self> =
        Export::LeftOut("people agree to the mails of one installation; another asks them");
    // Who confirms is in no organization.
    const ORG_SCOPED: bool = false;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ORGANIZATION];
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_ADDRESS, &BY_TOKEN, &UNANSWERED];
    type Key = (Id<Org>, Id<MailRecipient>);
    fn key(&self) -> Self::Key {
        (self.org, self.id)
    }
}

const FORGET_UNANSWERED: Sweep = Sweep {
    name: "forget addresses that have not agreed to mails",
    every_secs: 3600,
    run: |tx: &mut Tx, _: &RetentionSettings| -> Result<SweepProgress> {
        let asked_before = tx.now().minus_secs(VALID_SECS);
        delete_due(tx, &UNANSWERED, |one: &MailRecipient| one.asked_at <= asked_before)
    },
    installation: true,
};

// ── Who receives ─────────────────────────────────────────────────────────────

/// Whether an address receives the mails of the view's organization.
enum Consent {
    /// Its reader takes them.
    Given,
    /// The organization vouches for the address of the member, who has not proved it.
    Vouched,
    None,
}

fn consent(view: &View, email: &Email) -> Result<Consent> {
    if let Some(user) = find_person(view, email)? {
        let membership = view.get::<Membership>(&(user.id, view.org()))?;
        if membership.is_some_and(|membership| membership.email_verified) {
            return Ok(if user.is_proved(view)? { Consent::Given } else { Consent::Vouched });
        }
    }
    let asked: Option<MailRecipient> = view.find(&BY_ADDRESS, &(view.org(), email.clone()))?;
    let is_confirmed = asked.is_some_and(|asked| asked.confirmed_at.is_some());
    Ok(if is_confirmed { Consent::Given } else { Consent::None })
}

/// Returns the recipients of a channel that get nothing until they confirm.
pub fn unconfirmed(view: &View, channel: &Channel) -> Result<Vec<Email>> {
    let mut unconfirmed = Vec::new();
    for email in recipients(channel)? {
        if matches!(consent(view, &email)?, Consent::None) {
            unconfirmed.push(email);
        }
    }
    Ok(unconfirmed)
}

/// Returns the recipients to whom a mail of a channel is sent now, and counts it for them.
///
/// # Errors
/// 409 if there are none: nobody has agreed, or the budget of mails is used up.
pub fn take(tx: &mut Tx, channel: &Channel) -> Result<Vec<Email>> {
    let org = tx.org();
    let (mut taken, mut agreed) = (Vec::new(), 0);
    for email in recipients(channel)? {
        let for_reader = match consent(&tx.view(), &email)? {
            Consent::Given => CountedFor::Reader(org, &email),
            Consent::Vouched => CountedFor::Stranger(&email),
            Consent::None => continue,
        };
        agreed += 1;
        if mail_budget::take(tx, &[for_reader, CountedFor::Organization(org)])? {
            taken.push(email);
        }
    }
    match (taken.is_empty(), agreed) {
        (false, _) => Ok(taken),
        (true, 0) => Err(Error::conflict(
            "no_recipient",
            "no recipient is a member with a verified address or has confirmed; test the channel to \
             have the link to confirm with mailed again",
        )),
        (true, _) => Err(Error::conflict(
            "mail_budget_used",
            "as many mails were sent as may be in an hour; subscribe the channel to fewer events",
        )),
    }
}

// ── Asking ───────────────────────────────────────────────────────────────────

/// Returns the base of links in mails, if links can be mailed.
pub fn link_base(sends_mail: bool, link_base: &str) -> Option<&str> {
    (sends_mail && !link_base.is_empty()).then_some(link_base)
}

/// Has the recipients of a channel who have not agreed asked, on behalf of a person, as far as the
/// budget of mails allows. Without a mail server, or the address of this one, nobody is.
pub fn ask(
    tx: &mut Tx,
    channel: &Channel,
    person: Id<User>,
    link_base: Option<&str>,
) -> Result<()> {
    let Some(link_base) = link_base else { return Ok(()) };
    let org = tx.org();
    for email in unconfirmed(&tx.view(), channel)? {
        let of = [
            CountedFor::Stranger(&email),
            CountedFor::Person(person),
            CountedFor::Organization(org),
        ];
        if !mail_budget::take(tx, &of)? {
            continue;
        }
        if let Some(earlier) = tx.find(&BY_ADDRESS, &(org, email.clone()))? {
            tx.remove::<MailRecipient>(&earlier)?;
        }
        let id = tx.new_id();
        let recipient = MailRecipient {
            id,
            org,
            email,
            token: hash_of(&token(tx, id)),
            link_base: link_base.into(),
            asked_at: tx.now(),
            confirmed_at: None,
        };
        tx.insert(&recipient)?;
        enqueue(tx, &ASK, id.cast(), Some(person.cast()), tx.now())?;
    }
    Ok(())
}

/// The token of a link. It is derived from the installation's key, so that it can be mailed later, and
/// again, without being stored.
fn token(tx: &Tx, id: Id<MailRecipient>) -> String {
    use base64::Engine as _;
    let bits = tx.keys().hash("roadstead 2026 mail recipient", id.bytes());
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bits)
}

fn hash_of(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

/// Mails the link to confirm with.
const ASK: JobHandler = JobHandler { kind: "recipient.mail", prepare, settle };

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let asked: Option<MailRecipient> = tx.get(&(tx.org(), job.target.cast()))?;
    let Some(asked) = asked.filter(|asked| asked.confirmed_at.is_none()) else {
        return Ok(Prepared::Done);
    };
    if asked.asked_at.plus_secs(VALID_SECS) <= tx.now() {
        return Ok(Prepared::Done); // The link would be refused.
    }
    let organization: Organization = tx.fetch(&tx.org())?;
    let (name, base) = (inert(&organization.name), &asked.link_base);
    let token = token(tx, asked.id);
    let text = format!(
        "The organization {name} at {base} would like to send notifications to {}.\n\nIf you want \
         them, confirm within 7 days with this link:\n\n{base}/confirm-mail#{token}\n\nIf you do \
         not want them, do nothing.\n",
        asked.email
    );
    Ok(Prepared::Effect(Effect::Mail(Mail {
        id: asked.id.to_string(),
        to: vec![asked.email],
        subject: format!("Confirm notifications of {name}"),
        text,
        html: None,
        unsubscribe: None,
    })))
}

fn settle(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    Ok(settle_mail(tx, job, result, None, "a recipient could not be asked to confirm"))
}

// ── Confirming ───────────────────────────────────────────────────────────────

/// The token of the link that was mailed.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"token": "the-token-of-the-link"}]))]
struct RecipientConfirmation {
    /// The fragment of the link, after the `#`.
    token: String,
}
impl Input for RecipientConfirmation {}

/// An address that takes the notifications of an organization from now on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ConfirmedRecipient {
    email: Email,
    /// The name of the organization.
    organization: Name,
}

impl Output for ConfirmedRecipient {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::of("mail_recipient", &*self.email)
    }
}

fn confirm(tx: &mut Tx, req: &Req<(), RecipientConfirmation>) -> Result<ConfirmedRecipient> {
    let now = tx.now();
    let asked: Option<MailRecipient> = tx.find(&BY_TOKEN, &hash_of(&req.input.token))?;
    let is_valid = |asked: &MailRecipient| {
        asked.confirmed_at.is_some() || asked.asked_at > now.minus_secs(VALID_SECS)
    };
    let missing = || Error::no_such("link").at("token");
    let asked = asked.filter(is_valid).ok_or_else(missing)?;
    if asked.confirmed_at.is_none() {
        let confirmed = MailRecipient { confirmed_at: Some(now), ..asked.clone() };
        tx.replace(&asked, &confirmed)?;
    }
    let organization = tx.fetch::<Organization>(&asked.org)?.name;
    Ok(ConfirmedRecipient { email: asked.email, organization })
}

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/notifications/recipients/confirm",
            ANYONE,
            "mail_recipient.confirm",
            op::write(confirm),
        )
        .no_replay()
        .about("Agree to the mails of an organization"),
    ]
}

#[cfg(test)]
mod tests;
