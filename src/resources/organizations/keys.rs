//! API keys: credentials of programs, with the rights of the users who created them or of service
//! accounts, or with a part of these (reference: identity-and-rights, "API keys").
//!
//! Keys are created in a session, so nobody gives a key more rights than they have.
//! A key's text is returned once; only its hash is stored. What it may do is never changed: a lost or
//! unneeded one is revoked, one is rotated into another ([`key_rotation`](super::key_rotation)), and an
//! expired one is deleted when its event was published ([`key_expiry`](super::key_expiry)).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device_request::is_of_device;
use super::key_expiry::{DAY_SECS, notice_before, publish_expiry};
use super::service_accounts;
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{
    ApiKey, Caller, KEYS_BY_ORG, KEYS_BY_USER, KeyAccess, KeyUse, Membership, Role, SESSION_MEMBER,
    ScopeName, User, key_hash, key_text,
};
use crate::base::{Error, Id, Int, Issue, Name, Result, Time};
use crate::store::{Order, Org, Page, Record, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A user has at most 1,000 keys in an organization: enough for one per program, and few enough to
/// be deleted in one transaction with the membership.
const MAX_KEYS: usize = 1000;

/// The number of characters of a key's start that stay readable: enough to tell keys apart, too few
/// to guess the rest.
const START_CHARS: usize = 8;

/// The only permission that a key can have in addition to those of its user
/// (reference: identity-and-rights, "API keys").
const APPROVE_AS: &str = "deployment:approve-as";

// ── What callers send and see ────────────────────────────────────────────────

/// An API key, without its secret.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApiKey")]
pub(super) struct ApiKeyInfo {
    pub id: Id<ApiKey>,
    name: Name,
    /// Its first 8 characters.
    start: String,
    /// What it may do beyond what its user may.
    permissions: Vec<&'static str>,
    access: KeyAccess,
    /// The service account as which it acts; null if it acts as the user who created it.
    service_account_id: Option<Id<User>>,
    /// The person who answers for it: who created it or, if it is a service account's, took it over.
    created_by: Id<User>,
    /// The present role of that person, above which the key of a service account has no rights; null
    /// if they are no member, or answer for it since before the address of their account was proved, so
    /// that the key is refused, that of a service account until an admin takes it over.
    created_by_role: Option<Role>,
    created_at: Time,
    /// Time of the last use; it lags by up to a minute.
    last_used_at: Option<Time>,
    expires_at: Option<Time>,
    /// The key that it was rotated from, which may have ended; null if it was made anew.
    replaces: Option<Id<ApiKey>>,
    /// The key that it was rotated into, which may have been revoked. It goes on working until
    /// `expiresAt`; null if it was not rotated.
    replaced_by: Option<Id<ApiKey>>,
    /// When it was rotated: something still uses it if `lastUsedAt` is later.
    replaced_at: Option<Time>,
}

impl Output for ApiKeyInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// An API key with its text, which cannot be retrieved again.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct ApiKeyCreated {
    #[serde(flatten)]
    pub about: ApiKeyInfo,
    /// The key itself. It is shown only here.
    pub key: String,
}

impl Output for ApiKeyCreated {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        let made = ResourceRef::id(self.about.id)?;
        Some(match self.about.replaces {
            Some(old) => made.with_detail(format!("replaces {old}")),
            None => made,
        })
    }

    fn also(&self) -> Option<ResourceRef> {
        let old = ResourceRef::id(self.about.replaces?)?;
        Some(old.with_detail(format!("replaced by {}", self.about.id)))
    }
}

/// An API key to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"name": "CI", "expiresInDays": 90,
        "access": ["artifact:publish@main", "deployment:create@staging"]}],
    "if" = {"required": ["allowApproveAs"], "properties": {"allowApproveAs": {"const": true}}},
    "then" = {"properties": {"access": {"anyOf": [{"type": "null"}, {"const": "full"},
        {"type": "array", "items": {"type": "string"},
            "contains": {"type": "string", "pattern": "^deployment:decide(?:@|$)"}}]}}},
))]
struct NewApiKey {
    name: Name,
    /// How much of its user's rights it has; `full` if absent.
    access: Option<KeyAccess>,
    /// The service account as which it acts, instead of as oneself; for owners and admins only.
    service_account_id: Option<Id<User>>,
    /// Adds the permission `deployment:approve-as`; for owners and admins only.
    allow_approve_as: Option<bool>,
    /// Days until it expires; never if absent.
    expires_in_days: Option<Int<1, 3650>>,
}

/// Which keys to list.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct KeyFilter {
    /// Only keys that expire within so many days.
    expires_within_days: Option<Int<1, 3650>>,
    /// Only keys for which this user answers.
    created_by: Option<Id<User>>,
}
impl Input for KeyFilter {}

impl Input for NewApiKey {
    fn check(&self, issues: &mut Vec<Issue>) {
        let decides = ScopeName::DeploymentDecide;
        let access = self.access.as_ref();
        if self.allow_approve_as == Some(true) && access.is_some_and(|own| !own.has_some(decides)) {
            let message = format!("needs the scope {decides} in access");
            issues.push(Issue::new("allowApproveAs", message));
        }
    }
}

/// Returns the permissions of a key in addition to those of its user.
fn permissions(key: &ApiKey) -> Vec<&'static str> {
    if key.approve_as { vec![APPROVE_AS] } else { vec![] }
}

/// What the API shows of a key of the view's organization.
pub(super) fn to_info(view: &View, key: ApiKey) -> Result<ApiKeyInfo> {
    let is_of_service = view.fetch::<User>(&key.user)?.is_service();
    let person = view.get::<User>(&key.created_by)?;
    let stands = person.is_some_and(|person| person.accepts_made(key.answered_for_since()));
    let by = view.get::<Membership>(&(key.created_by, view.org()))?.filter(|_| stands);
    Ok(ApiKeyInfo {
        permissions: permissions(&key),
        access: key.access.clone(),
        service_account_id: is_of_service.then_some(key.user),
        last_used_at: view.get::<KeyUse>(&key.id)?.and_then(|used| used.at),
        id: key.id,
        name: key.name,
        start: key.start,
        created_by: key.created_by,
        created_by_role: by.map(|membership| membership.role),
        created_at: key.created_at,
        expires_at: key.expires_at,
        replaces: key.replaces,
        replaced_by: key.replaced_by,
        replaced_at: key.replaced_at,
    })
}

fn is_active(view: &View, key: &ApiKey) -> bool {
    key.expires_at.is_none_or(|end| end > view.now())
}

// ── For other modules ────────────────────────────────────────────────────────

/// What a new key is and may do.
pub(super) struct KeySettings {
    pub name: Name,
    pub access: KeyAccess,
    /// Whether it has the permission `deployment:approve-as`.
    pub approve_as: bool,
    pub expires_at: Option<Time>,
    /// The key that it is rotated from.
    pub replaces: Option<Id<ApiKey>>,
}

impl KeySettings {
    /// A key with full access that never expires.
    pub(super) fn full(name: &Name, approve_as: bool) -> Self {
        let (name, access) = (name.clone(), KeyAccess::Full);
        KeySettings { name, access, approve_as, expires_at: None, replaces: None }
    }
}

/// Creates a key of `user` for `org`, on behalf of `created_by`; returns it with its text.
pub(super) fn create_key(
    tx: &mut Tx,
    org: Id<Org>,
    user: Id<User>,
    created_by: Id<User>,
    settings: KeySettings,
) -> Result<(ApiKey, String)> {
    let KeySettings { name, access, approve_as, expires_at, replaces } = settings;
    let text = key_text(tx.random());
    let key = ApiKey {
        id: tx.new_id(),
        hash: key_hash(&text).expect("the text has the form of a key"),
        org,
        user,
        created_by,
        name,
        start: text[..START_CHARS].into(),
        approve_as,
        access,
        created_at: tx.now(),
        expires_at,
        next_notice_at: expires_at.map(notice_before),
        taken_over_at: None,
        replaces,
        replaced_by: None,
        replaced_at: None,
    };
    tx.insert(&key)?;
    tx.insert(&KeyUse { key: key.id, hash: key.hash, at: None })?;
    Ok((key, text))
}

/// Stores when keys were last used. Deleted keys are skipped.
pub fn record_key_usage(tx: &mut Tx, uses: &[(Id<ApiKey>, Time)]) -> Result<()> {
    for &(key, at) in uses {
        let Some(old) = tx.get::<KeyUse>(&key)? else { continue };
        if old.at < Some(at) {
            tx.replace(&old, &KeyUse { at: Some(at), ..old.clone() })?;
        }
    }
    Ok(())
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), KeyFilter>) -> Result<Page<ApiKeyInfo>> {
    let caller = req.caller();
    let days = req.input.expires_within_days;
    let until = days.map(|days| view.now().plus_secs(days.get() * DAY_SECS));
    let page = view.page(&KEYS_BY_ORG, &view.org(), Order::Descending, &req.page, |key| {
        is_active(view, key)
            && (caller.is_admin() || key.user == caller.user())
            && req.input.created_by.is_none_or(|by| key.created_by == by)
            && until.is_none_or(|until| key.expires_at.is_some_and(|end| end <= until))
    })?;
    page.try_map(|key| to_info(view, key))
}

fn create(tx: &mut Tx, req: &Req<(), NewApiKey>) -> Result<ApiKeyCreated> {
    let (caller, input) = (req.caller(), &req.input);
    let approve_as = input.allow_approve_as.unwrap_or(false);
    require_may_allow(caller, approve_as)?;
    // A command line, in whose session nobody has proved who they are, makes no way in that outlasts it.
    if approve_as || is_of_device(&tx.view(), &caller.identity.credential)? {
        caller.identity.require_recent_proof(tx.now())?;
    }
    let access = input.access.clone().unwrap_or_default();
    require_own_targets(caller, &access)?;
    let user = key_user(&tx.view(), caller, input.service_account_id)?;
    let expires_at = input.expires_in_days.map(|days| tx.now().plus_secs(days.get() * DAY_SECS));
    let (name, replaces) = (input.name.clone(), None);
    issue(tx, caller, user, KeySettings { name, access, approve_as, expires_at, replaces })
}

/// Creates a key of `user` for the caller, who answers for it.
///
/// # Errors
/// 403 for a viewer if it would do more than read; 409 if the user has too many.
pub(super) fn issue(
    tx: &mut Tx,
    caller: &Caller,
    user: Id<User>,
    settings: KeySettings,
) -> Result<ApiKeyCreated> {
    require_readable(&tx.view(), user, &settings.access)?;
    // A successor may be one more while both live: who has all keys can replace one after another.
    let most = MAX_KEYS + usize::from(settings.replaces.is_some());
    // An expired key counts until the sweep deletes it, at most a minute later.
    let keys = tx.view().count(&KEYS_BY_USER, &(tx.org(), user), most)?;
    if keys == most {
        let whose = if user == caller.user() { "you have" } else { "the service account has" };
        return Err(Error::conflict(
            "too_many_api_keys",
            format!("{whose} {keys} API keys in this organization; revoke one first"),
        ));
    }
    let (key, text) = create_key(tx, tx.org(), user, caller.user(), settings)?;
    if key.next_notice_at.is_some_and(|notice| notice <= tx.now()) {
        publish_expiry(tx, &key)?;
    }
    Ok(ApiKeyCreated { about: to_info(&tx.view(), key)?, key: text })
}

/// Refuses a key of a viewer that would do more than read once they are a member: nobody would think of
/// it then. At use, the role of the moment counts.
fn require_readable(view: &View, user: Id<User>, access: &KeyAccess) -> Result<()> {
    let membership: Membership = view.fetch(&(user, view.org()))?;
    if membership.role >= Role::Member || access.only_reads() {
        return Ok(());
    }
    Err(Error::forbidden(
        "member_required",
        "the key of a viewer only reads; make one whose access is \"read\" or a list of scopes that \
         change nothing",
    ))
}

/// Refuses `deployment:approve-as` to a key that a member makes.
pub(super) fn require_may_allow(caller: &Caller, approve_as: bool) -> Result<()> {
    if approve_as && !caller.is_admin() {
        return Err(Error::forbidden(
            "admin_required",
            "only an owner or admin of the organization may allow a key to approve as others",
        ));
    }
    Ok(())
}

/// Refuses scopes for registries of other organizations, where the key is not valid.
fn require_own_targets(caller: &Caller, access: &KeyAccess) -> Result<()> {
    let KeyAccess::Scopes(scopes) = access else { return Ok(()) };
    let is_foreign = |org: &str| org != &*caller.org_slug;
    let foreign = scopes.iter().enumerate().filter(|(_, s)| s.target_org().is_some_and(is_foreign));
    let issues: Vec<Issue> = foreign
        .map(|(index, _)| {
            let message =
                format!("must name a registry of {}: a key is for it alone", caller.org_slug);
            Issue::new(format!("access[{index}]"), message)
        })
        .collect();
    if issues.is_empty() { Ok(()) } else { Err(Error::invalid(issues)) }
}

/// Returns the user as which a new key acts: the caller, or a service account.
fn key_user(view: &View, caller: &Caller, service_account: Option<Id<User>>) -> Result<Id<User>> {
    let Some(id) = service_account else { return Ok(caller.user()) };
    if !caller.is_admin() {
        return Err(Error::forbidden(
            "admin_required",
            "only an owner or admin of the organization may create keys of service accounts",
        ));
    }
    Ok(service_accounts::fetch(view, id)?.id)
}

/// Returns an active key that the caller may manage.
///
/// # Errors
/// 404 if there is none with this id.
pub(super) fn fetch_active(view: &View, caller: &Caller, id: Id<ApiKey>) -> Result<ApiKey> {
    let key = view.first(&KEYS_BY_ORG, &(view.org(), id), Order::Ascending)?;
    let key = key.filter(|key: &ApiKey| {
        is_active(view, key) && (caller.is_admin() || key.user == caller.user())
    });
    key.ok_or_else(|| ApiKey::missing(&id))
}

fn revoke(tx: &mut Tx, req: &Req<Id<ApiKey>>) -> Result<Deleted> {
    let key = fetch_active(&tx.view(), req.caller(), req.params)?;
    tx.remove(&key)?;
    Ok(Deleted::new(req.params))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api-keys", SESSION_MEMBER, "api_key.list", op::walk(list))
            .about("List active API keys, newest first"),
        Route::post("/api-keys", SESSION_MEMBER, "api_key.create", op::write(create))
            .of_own_account()
            .asks_again_to(
                "allow the key to approve as others, or in the session of a command line",
            )
            .about("Create an API key"),
        Route::delete("/api-keys/{keyId}", SESSION_MEMBER, "api_key.delete", op::write(revoke))
            .of_own_account()
            .about("Revoke an API key"),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::api::Principal;
    use crate::auth::{Authenticator, RawCredential, Tokens};
    use crate::base::Kind;
    use crate::resources::testing::Fixture;
    use crate::store::{ACCESS_CHANGED, ListSource};
    use serde_json::{Value, json};

    pub(in crate::resources::organizations) fn make(
        fixture: &Fixture,
        who: &Principal,
        body: Value,
    ) -> Result<ApiKeyCreated> {
        fixture.write_as(who, create, (), Fixture::input(body).unwrap())
    }

    pub(in crate::resources::organizations) fn works(
        fixture: &Fixture,
        key: &ApiKeyCreated,
    ) -> bool {
        let authenticator = Authenticator::new(Tokens::new(fixture.store.keys()));
        let presented =
            RawCredential::from_headers([key.key.as_bytes()].into_iter(), [].into_iter());
        fixture.store.read_now(Id::NIL, |view| authenticator.identify(view, &presented)).is_ok()
    }

    /// The active keys, newest first, as somebody sees them.
    pub(in crate::resources::organizations) fn listed(
        fixture: &Fixture,
        who: &Principal,
    ) -> Vec<Value> {
        let keys = fixture.read_as(who, list, (), KeyFilter::default()).unwrap().items;
        keys.iter().map(|key| json!(key)).collect()
    }

    pub(in crate::resources::organizations) fn names(
        fixture: &Fixture,
        who: &Principal,
    ) -> Vec<String> {
        let keys = listed(fixture, who);
        keys.iter().map(|key| key["name"].as_str().unwrap().to_string()).collect()
    }

    pub(in crate::resources::organizations) fn revoked(
        fixture: &Fixture,
        key: &ApiKeyCreated,
    ) -> Result<Deleted> {
        fixture.write(revoke, key.about.id, ())
    }

    #[test]
    fn a_key_is_shown_once_and_works_until_it_is_revoked() {
        let fixture = Fixture::new();
        let made = make(&fixture, &fixture.member, json!({"name": "ci"})).unwrap();
        let shown = serde_json::to_value(&made).unwrap();
        assert_eq!(shown["start"], made.key[..8]);
        assert_eq!(shown["permissions"], json!([]));
        assert!(works(&fixture, &made));

        let listed = fixture.read(list, (), KeyFilter::default()).unwrap().items;
        let listed = serde_json::to_string(&listed).unwrap();
        assert!(!listed.contains(&made.key) && listed.contains(&made.about.start));
        fixture.write(revoke, made.about.id, ()).unwrap();
        assert!(!works(&fixture, &made));
        let again = fixture.write(revoke, made.about.id, ()).err().unwrap();
        assert_eq!(again.kind(), Kind::NotFound);
        fixture.assert_sound();
    }

    #[test]
    fn a_waiting_request_ends_when_its_key_is_revoked() {
        let fixture = Fixture::new();
        let made = make(&fixture, &fixture.member, json!({"name": "ci"})).unwrap();
        let mut waiting = fixture.store.signals().subscribe(ACCESS_CHANGED);
        fixture.write(revoke, made.about.id, ()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let heard = async {
            tokio::time::timeout(std::time::Duration::from_secs(5), waiting.notified()).await
        };
        assert!(runtime.block_on(heard).is_ok());
    }

    #[test]
    fn members_see_and_revoke_their_own_keys_and_admins_all() {
        let fixture = Fixture::new();
        let ben = make(&fixture, &fixture.member, json!({"name": "ben's"})).unwrap();
        let ada = make(&fixture, &fixture.owner, json!({"name": "ada's"})).unwrap();
        let (_, eve) = fixture.other_org("globex");
        assert_eq!(names(&fixture, &fixture.member), ["ben's"]);
        assert_eq!(names(&fixture, &fixture.owner), ["ada's", "ben's"]);
        assert_eq!(names(&fixture, &eve), Vec::<String>::new());
        for (who, key) in [(&fixture.member, &ada), (&eve, &ada), (&eve, &ben)] {
            let refused = fixture.write_as(who, revoke, key.about.id, ()).err().unwrap();
            assert_eq!(refused.kind(), Kind::NotFound);
        }
        assert!(fixture.write_as(&fixture.owner, revoke, ben.about.id, ()).is_ok());
    }

    #[test]
    fn only_admins_let_a_key_approve_as_others() {
        let fixture = Fixture::new();
        let body = json!({"name": "bot", "allowApproveAs": true});
        let refused = make(&fixture, &fixture.member, body.clone()).err().unwrap();
        assert_eq!(refused.kind(), Kind::Forbidden);
        let made = make(&fixture, &fixture.owner, body).unwrap();
        assert_eq!(made.about.permissions, ["deployment:approve-as"]);
    }

    #[test]
    fn keys_that_expire_soon_are_listed_without_the_others() {
        let fixture = Fixture::new();
        make(&fixture, &fixture.member, json!({"name": "permanent"})).unwrap();
        for days in [14, 15, 30] {
            let body = json!({"name": format!("{days} days"), "expiresInDays": days});
            make(&fixture, &fixture.member, body).unwrap();
        }
        let within = |who: &Principal, days: i64| {
            let filter = Fixture::input(json!({"expiresWithinDays": days})).unwrap();
            let keys = fixture.read_as(who, list, (), filter).unwrap().items;
            keys.into_iter().map(|key| key.name.into_string()).collect::<Vec<_>>()
        };
        assert_eq!(within(&fixture.member, 14), ["14 days"]);
        assert_eq!(within(&fixture.owner, 15), ["15 days", "14 days"]);
        fixture.pass_secs(DAY_SECS);
        assert_eq!(within(&fixture.member, 14), ["15 days", "14 days"]);
        fixture.pass_secs(14 * DAY_SECS);
        // What has expired is no key any more.
        assert_eq!(within(&fixture.member, 14), Vec::<String>::new());
        assert_eq!(within(&fixture.member, 15), ["30 days"]);
    }

    #[test]
    fn a_user_has_at_most_a_thousand_keys() {
        let fixture = Fixture::new();
        let made = make(&fixture, &fixture.member, json!({"name": "first"})).unwrap();
        let user = made.about.created_by;
        fixture
            .store
            .write_blocking(fixture.org, move |tx| {
                let name = Name::parse("more").unwrap();
                for _ in 1..MAX_KEYS {
                    create_key(tx, tx.org(), user, user, KeySettings::full(&name, false))?;
                }
                Ok(())
            })
            .unwrap();
        let refused = make(&fixture, &fixture.member, json!({"name": "ci"})).err().unwrap();
        assert_eq!((refused.kind(), refused.code()), (Kind::Conflict, "too_many_api_keys"));
        assert!(make(&fixture, &fixture.owner, json!({"name": "ci"})).is_ok());
        fixture.write_as(&fixture.member, revoke, made.about.id, ()).unwrap();
        assert!(make(&fixture, &fixture.member, json!({"name": "ci"})).is_ok());
        fixture.assert_sound();
    }

    #[test]
    fn the_last_use_only_advances_and_deleted_keys_are_skipped() {
        let fixture = Fixture::new();
        let made = make(&fixture, &fixture.member, json!({"name": "ci"})).unwrap();
        let (id, now) = (made.about.id, fixture.store.clock().now());
        let note = |at: Time| {
            let used = vec![(id, at), (Id::NIL, at)];
            fixture.store.write_blocking(Id::NIL, move |tx| record_key_usage(tx, &used)).unwrap();
            fixture.read(list, (), KeyFilter::default()).unwrap().items[0].last_used_at
        };
        assert_eq!(made.about.last_used_at, None);
        assert_eq!(note(now.plus_secs(60)), Some(now.plus_secs(60)));
        assert_eq!(note(now), Some(now.plus_secs(60)));
        let rows = |view: &View| view.count::<KeyUse>(ListSource::TABLE, &(), 9);
        assert_eq!(fixture.store.read_now(Id::NIL, rows).unwrap(), 1);
    }
}
