//! `/o/{org}/settings/keys`: API keys. The text of a key is in the answer to the form that creates it
//! and nowhere else.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::confirm::Confirm;
use super::shown_once::ShownOnce;
use crate::api::Method;
use crate::auth::{KeyAccess, Role, ScopeName};
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::{LISTED, between, looked_for};
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::people::People;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/settings/keys").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/settings/keys/new")
        .get(|visit| Box::pin(new(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/settings/keys/{key}/rotate").form(|visit| Box::pin(rotate(visit))),
    Page::of_org("/o/{org}/settings/keys/{key}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(revoke(visit))),
    Page::of_org("/o/{org}/settings/keys/{key}/take-over")
        .get(|visit| Box::pin(confirm_taking_over(visit, None)))
        .post(|visit| Box::pin(take_over(visit))),
];

/// The field for what a key may do.
const SCOPES: Chooser = Chooser::one("scopes", Kind::Scope).many();

/// How long a key may be valid: days, and the label.
const LIVES: [(&str, &str); 4] = [
    ("90", "90 days"),
    ("30", "30 days"),
    ("365", "A year"),
    ("", "For as long as it is not revoked"),
];
/// How long a key goes on working that is rotated: seconds, and the label.
const OVERLAPS: [(&str, &str); 5] = [
    ("86400", "A day"),
    ("3600", "An hour"),
    ("604800", "A week"),
    ("2592000", "30 days"),
    ("0", "Not at all: it ends at once"),
];
/// What a key may do.
const KEY_ACCESSES: [(&str, &str); 3] = [
    ("read", "Read only"),
    ("scopes", "The scopes below"),
    ("full", "All that whom it acts as may do"),
];

#[derive(Template)]
#[template(path = "keys.html")]
struct Keys {
    frame: Frame,
    base: String,
    keys: List<Key>,
    who: Field,
    members: Vec<Member>,
    is_admin: bool,
    visitor: Visitor,
}

/// Who looks at the keys.
struct Visitor {
    id: String,
    is_admin: bool,
    may_write: bool,
}

#[derive(Template)]
#[template(path = "new_key.html")]
struct NewKey {
    frame: Frame,
    form: Form,
    scopes: Vec<(&'static str, &'static str)>,
}

/// An API key.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    id: String,
    pub name: String,
    pub start: String,
    permissions: Vec<String>,
    access: Value,
    service_account_id: Nullable<String>,
    created_by: String,
    created_by_role: Nullable<Role>,
    last_used_at: Nullable<Time>,
    expires_at: Nullable<Time>,
    replaced_at: Nullable<Time>,
}

impl Key {
    /// What it may do, in a few words.
    fn access(&self) -> String {
        let mut text = match &self.access {
            Value::String(all) if all == "full" => "Full".into(),
            Value::String(_) => "Read".into(),
            Value::Array(scopes) => {
                let scopes: Vec<_> = scopes.iter().filter_map(Value::as_str).collect();
                scopes.join(", ")
            }
            _ => String::new(),
        };
        if !self.permissions.is_empty() {
            text.push_str(", approves for others");
        }
        text
    }

    /// Whether it was made for nothing but reading.
    fn only_reads(&self) -> bool {
        KeyAccess::deserialize(&self.access).is_ok_and(|access| access.only_reads())
    }

    /// Why it does less than it was made for, or nothing; empty if it does not.
    fn limit(&self) -> &'static str {
        match (&self.service_account_id.0, self.created_by_role.0) {
            (None, Some(Role::Viewer)) if !self.only_reads() => "Acts as a viewer: it only reads",
            (Some(_), Some(Role::Viewer)) => "A viewer answers for it: it only reads",
            (None, Some(_)) | (_, Some(Role::Admin | Role::Owner)) => "",
            (Some(_), Some(Role::Member)) => "A member answers for it: it has no admin's rights",
            (Some(_), None) => "Nobody answers for it: it is refused",
            (None, None) => "Made before the address of its account was proved: it is refused",
        }
    }

    /// Whether it does more once an admin answers for it.
    fn may_be_taken_over(&self) -> bool {
        self.service_account_id.0.is_some() && !self.limit().is_empty()
    }

    /// Whether it may be rotated by a visitor: it acts as them, or as a service account that they manage.
    fn may_be_rotated(&self, visitor: &Visitor) -> bool {
        let is_own = match self.service_account_id.0 {
            Some(_) => visitor.is_admin,
            None => self.created_by == visitor.id,
        };
        // Only admins give what it has beyond its user's rights.
        let may_have = visitor.may_write || self.only_reads();
        let may_give = visitor.is_admin || self.permissions.is_empty();
        is_own && may_have && may_give && !self.is_rotated()
    }

    fn is_rotated(&self) -> bool {
        self.replaced_at.is_some()
    }

    /// Whether something has used it since it was rotated, and stops when it ends.
    fn is_used_still(&self) -> bool {
        self.is_rotated() && self.last_used_at.0 > self.replaced_at.0
    }

    /// As whom it acts.
    fn acts_as<'a>(&'a self, members: &'a [Member]) -> &'a str {
        roster::name(members, self.service_account_id.as_deref().unwrap_or(&self.created_by))
    }
}

#[derive(Deserialize)]
struct Created {
    key: String,
    name: String,
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Keys", visit.in_org("/settings/keys"))
}

/// The field for who answers for the keys that are listed.
const SPONSOR: Chooser = Chooser::one("createdBy", Kind::Person);

async fn show(visit: &Visit) -> Result<Reply> {
    let is_admin = visit.member().role >= Role::Admin;
    let id = visit.session.as_ref().map(|session| session.user.id.clone());
    let (keys, error) = roster::filtered(visit, SPONSOR, "/api-keys").await?;
    let members = roster::members(&visit.api).await?;
    let who = roster::filter(visit, "Who answers for it", SPONSOR, &members);
    let frame = visit.frame("Keys").tabs(&roster::tabs(visit)).failed(error.as_ref());
    let page = Keys {
        frame: frame.picking(visit, &[&who]).await?,
        base: visit.in_org("/settings"),
        keys,
        who,
        members,
        is_admin,
        visitor: Visitor {
            id: id.unwrap_or_default(),
            is_admin,
            may_write: visit.member().role >= Role::Member,
        },
    };
    render(page.frame.status, &page)
}

/// The field for the service account that a key acts as.
const ACCOUNT: Chooser = Chooser::one("serviceAccountId", Kind::Account);

async fn account(visit: &Visit) -> Result<Field> {
    let wanted = visit.query.get("for");
    let query = [("kind", "service"), ("limit", LISTED)];
    let few: List<Member> = visit.api.get("/organizations/members", &query).await?;
    if few.next_cursor.is_none() {
        let all = few.items.into_iter().map(|member| (member.user_id, member.name)).collect();
        return Ok(between("Acts as", ACCOUNT, Some("You"), all).preset(wanted));
    }
    let stored = wanted.split_whitespace().map(String::from).collect();
    let people = People::of(visit, stored).await?.typed(visit, ACCOUNT).await?;
    let field = looked_for("Acts as", ACCOUNT, Some("You")).named(people.named()).holding(wanted);
    Ok(field.hint("A service account, by name or address; you if it is empty."))
}

async fn form(visit: &Visit) -> Result<Form> {
    let is_admin = visit.member().role >= Role::Admin;
    let may_write = visit.member().role >= Role::Member;
    let accesses = KEY_ACCESSES.into_iter().filter(|(name, _)| may_write || *name != "full");
    let mut fields = vec![
        Field::text("name", "Name")
            .hint("What uses it, so that you know what stops when you revoke it."),
    ];
    let account = if is_admin { Some(account(visit).await?) } else { None };
    fields.extend(account.filter(Field::has_choice));
    fields.extend([
        Field::select("access", "May", accesses),
        Field::choose("Scopes", SCOPES)
            .also("access")
            .optional()
            .hint("With commas, such as artifact:publish@main, deployment:create@staging."),
        Field::special(),
        Field::select("days", "Valid for", LIVES).at("expiresInDays").number(),
    ]);
    if is_admin {
        let label = "Approves deployments in the name of their approvers";
        fields.push(Field::check("allowApproveAs", label));
    }
    let form = Form::create("/api-keys", fields, "Create key").answered(made);
    Ok(form.back(visit.in_org("/settings/keys")).refined(|visit, _, body| {
        if let Some(fields) = body.as_object_mut() {
            fields.remove("scopes");
        }
        if visit.form.get("access") == "scopes" {
            let sent = visit.form.get("scopes").split([',', ' ', '\r', '\n']);
            body["access"] = sent.filter(|scope| !scope.is_empty()).collect();
        }
    }))
}

async fn new(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let mut form = form(visit).await?;
    let may_write = visit.member().role >= Role::Member;
    let frame = crumbs(visit, visit.frame("New key")).failed(error.as_ref());
    let frame = form.ready(frame, visit, error.as_ref());
    let page = NewKey {
        frame: form.offer(frame, visit).await?,
        form,
        scopes: ScopeName::all()
            .filter(|name| may_write || name.is_read())
            .map(|name| (name.text(), name.target().placeholder()))
            .collect(),
    };
    render(page.frame.status, &page)
}

async fn create(visit: &Visit) -> Result<Reply> {
    match form(visit).await?.send(visit).await {
        Err(error) => new(visit, visit.failed(error)?).await,
        done => done,
    }
}

fn made(visit: &Visit, answer: &Value) -> Result<Reply> {
    show_once(visit, answer, "Copy the key now, and keep it as you keep a password.")
}

fn rotated(visit: &Visit, answer: &Value) -> Result<Reply> {
    let lead = "Copy the new key now, and put it wherever the old one is. The list of keys shows when \
                that ends, and whether something still uses it.";
    show_once(visit, answer, lead)
}

async fn rotate(visit: &Visit) -> Result<FormPage> {
    let key = find(visit).await?;
    let path = format!("/api-keys/{}/rotate", segment(visit.param(1)));
    let fields =
        vec![Field::select("overlapSecs", "The old key goes on working for", OVERLAPS).number()];
    let frame = crumbs(visit, visit.frame(&format!("Rotate the key {}", key.name)));
    let page = Form::create(&path, fields, "Rotate the key").answered(rotated).page(frame);
    Ok(page.lead(format!(
        "It makes another key with the same rights, which lives as long as {}… was made to live. Put it \
         wherever that is, before that ends.",
        key.start
    )))
}

/// Shows the text of a key.
fn show_once(visit: &Visit, answer: &Value, lead: &str) -> Result<Reply> {
    let Created { key, name } = Created::deserialize(answer).map_err(Error::internal)?;
    let address = &visit.api.calls.origin.link_base;
    let slug = &visit.member().org_slug;
    ShownOnce {
        frame: crumbs(visit, visit.frame(&format!("The key {name}"))),
        lead: lead.into(),
        command: format!(
            "curl -H 'X-API-Key: {key}' '{address}/api/organizations/members?orgSlug={slug}'"
        ),
        secret: key,
        next: (visit.in_org("/settings/keys"), "Back to the keys"),
    }
    .show()
}

async fn find(visit: &Visit) -> Result<Key> {
    let keys: Vec<Key> = visit.api.items("/api-keys", &[]).await?;
    let found = keys.into_iter().find(|key| key.id == visit.param(1));
    found.ok_or_else(|| Error::no_such("API key"))
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let key = find(visit).await?;
    let used = match key.last_used_at.0 {
        Some(at) => format!("It was last used at {at}."),
        None => "It was never used.".into(),
    };
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Revoke the key {}?", key.name))),
        consequences: format!(
            "Programs that use the key {}… are refused from the next request on. {used} A revoked \
             key cannot be brought back.",
            key.start
        ),
        label: format!("Revoke {}", key.name),
        back: visit.in_org("/settings/keys"),
    }
    .show(error.as_ref())
}

/// Reads the keys of service accounts for which a member answers.
pub async fn sponsored_by(visit: &Visit, user: &str) -> Result<Vec<Key>> {
    let keys: Vec<Key> = visit.api.items("/api-keys", &[("createdBy", user)]).await?;
    Ok(keys.into_iter().filter(|key| key.service_account_id.0.is_some()).collect())
}

async fn confirm_taking_over(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/api-keys/id/take-over")?;
    let key = find(visit).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Take over the key {}?", key.name))),
        consequences: format!(
            "You answer for what is done with the key {}… from then on, and it has no more rights \
             than you have. Its text stays the same. Others who have a copy can go on using it.",
            key.start
        ),
        label: format!("Take over {}", key.name),
        back: visit.in_org("/settings/keys"),
    }
    .show(error.as_ref())
}

async fn take_over(visit: &Visit) -> Result<Reply> {
    let path = format!("/api-keys/{}/take-over", segment(visit.param(1)));
    match visit.api.post::<Value>(&path, json!({})).await {
        Ok(_) => Ok(visit.done(&visit.in_org("/settings/keys"), Flash::KeyTakenOver)),
        Err(error) => confirm_taking_over(visit, visit.failed(error)?).await,
    }
}

async fn revoke(visit: &Visit) -> Result<Reply> {
    let path = format!("/api-keys/{}", segment(visit.param(1)));
    match visit.api.delete(&path, &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/settings/keys"), Flash::KeyRevoked)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
