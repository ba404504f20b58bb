//! What the pages of settings have in common: the members, and what can be restricted to some of them.

use std::borrow::Borrow;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::api::{Api, segment};
use super::choice::{Chooser, Kind};
use super::chooser::{LISTED, between, looked_for};
use super::field::Field;
use super::strict::{List, Nullable};
use super::texts;
use super::visit::Visit;
use crate::api::Method;
use crate::auth::Role;
use crate::base::{Email, Error, Id, Result, Time};

/// The pages of settings beside each other: label, path, and the route that a visitor must be allowed
/// to call.
const TABS: [(&str, &str, Method, &str); 8] = [
    ("Members", "/settings/members", Method::Get, "/organizations/members"),
    ("Keys", "/settings/keys", Method::Get, "/api-keys"),
    ("Grants", "/settings/grants", Method::Get, "/access-grants"),
    ("Explain access", "/settings/access", Method::Get, "/access/explain"),
    ("Providers", "/settings/providers", Method::Get, "/llm-providers"),
    ("Prices", "/settings/model-prices", Method::Get, "/model-prices"),
    ("Organization", "/settings/organization", Method::Patch, "/organizations"),
    ("Sign-in", "/settings/sign-in", Method::Get, SIGN_IN),
];

/// The route of what owners alone change.
const SIGN_IN: &str = "/organizations/sign-in";

/// The tabs that a visitor may open.
pub fn tabs(visit: &Visit) -> Vec<(&'static str, &'static str)> {
    let is_owner = visit.member().role == Role::Owner;
    let may = |method, route: &str| visit.may(method, route) && (route != SIGN_IN || is_owner);
    let open = TABS.iter().filter(|(_, _, method, route)| may(*method, route));
    open.map(|(label, path, ..)| (*label, *path)).collect()
}

/// A member of the organization: a person or a service account.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    pub user_id: String,
    pub kind: String,
    pub email: String,
    pub name: String,
    pub email_verified: bool,
    pub address_proved: bool,
    pub role: Role,
    /// Whether the person has a second factor, for admins.
    pub second_factor: Nullable<bool>,
    /// The providers with which the person signs in, for admins.
    pub sign_in_providers: Nullable<Vec<String>>,
    pub joined_at: Time,
}

impl Member {
    /// Whether programs act as it.
    pub fn is_service(&self) -> bool {
        self.kind == "service"
    }

    /// Whether it can approve: a viewer cannot, nor can whoever nobody vouches for.
    pub fn can_approve(&self) -> bool {
        self.email_verified && self.role >= Role::Member
    }

    /// Whether it has linked an account of this provider.
    fn signs_in_with(&self, provider: &str) -> bool {
        self.sign_in_providers.as_deref().unwrap_or_default().iter().any(|name| name == provider)
    }

    /// Its name as an approver.
    pub fn as_approver(&self) -> String {
        texts::approver(&self.name, self.role, self.email_verified)
    }
}

/// Reads the members.
pub async fn members(api: &Api) -> Result<Vec<Member>> {
    api.items("/organizations/members", &[]).await
}

/// Reads a member.
///
/// # Errors
/// 404 if there is none with this id; those of the route.
pub async fn member(api: &Api, id: &str) -> Result<Member> {
    api.get(&format!("/organizations/members/{}", segment(id)), &[]).await
}

/// The field by which a list is filtered by one of these members; its name is the parameter of the route.
pub fn filter(visit: &Visit, label: &'static str, chooser: Chooser, members: &[Member]) -> Field {
    let fit = members.iter().filter(|one| chooser.kind != Kind::Person || !one.is_service());
    let all = fit.map(|one| (one.user_id.clone(), one.name.clone())).collect();
    between(label, chooser, Some("Anyone"), all).preset(visit.query.get(chooser.name))
}

/// The id of the member for whom such a filter asks, by it or by their address.
///
/// # Errors
/// 400 if there is no such member; those of the route.
pub async fn asked(visit: &Visit, chooser: Chooser) -> Result<Option<String>> {
    let Some(asked) = visit.query.some(chooser.name) else { return Ok(None) };
    if !Id::<()>::parse(asked).is_nil() {
        return Ok(Some(asked.into()));
    }
    let found: List<Member> = match Email::parse(asked) {
        Ok(_) => visit.api.get("/organizations/members", &[("email", asked)]).await?,
        Err(_) => List::none(),
    };
    let id = found.items.into_iter().next().map(|one| one.user_id);
    id.map(Some).ok_or_else(|| Error::invalid_at(chooser.name, "must be the address of a member"))
}

/// Reads a list with such a filter, and what is wrong with what was asked.
///
/// # Errors
/// Those of the routes that are not about that.
pub async fn filtered<T: DeserializeOwned>(
    visit: &Visit,
    chooser: Chooser,
    path: &str,
) -> Result<(List<T>, Option<Error>)> {
    let who = match asked(visit, chooser).await {
        Ok(who) => who,
        Err(error) => return Ok((List::none(), visit.failed(error)?)),
    };
    let mut query = visit.walk();
    query.extend(who.as_deref().map(|id| (chooser.name, id)));
    Ok((visit.api.get(path, &query).await?, None))
}

/// The name of a member.
pub fn name<'a>(members: &'a [Member], id: &str) -> &'a str {
    let found = members.iter().find(|member| member.user_id == id);
    found.map_or("a former member", |member| member.name.as_str())
}

/// A member as an approver.
pub fn approver(members: &[Member], id: &str) -> String {
    let found = members.iter().find(|member| member.user_id == id);
    found.map_or_else(|| "a former member".into(), Member::as_approver)
}

/// Warns if fewer of these approvers can approve than must; empty otherwise.
pub fn too_few(members: &[Member], approvers: &[String], needed: impl Borrow<u32>) -> String {
    let can = |member: &&Member| member.can_approve() && approvers.contains(&member.user_id);
    texts::too_few(members.iter().filter(can).count(), *needed.borrow())
}

/// Warns of those of the approvers who cannot approve; empty if all can.
pub fn unable(members: &[Member], approvers: &[String]) -> String {
    let unable =
        members.iter().filter(|one| !one.can_approve() && approvers.contains(&one.user_id));
    let names: Vec<_> = unable.map(Member::as_approver).collect();
    if names.is_empty() { names.concat() } else { format!("Not all can: {}.", names.join(", ")) }
}

/// The people whom a second factor, once it is required, keeps out until they turn theirs on.
pub fn without_second_factor(members: &[Member]) -> String {
    let lacks = |member: &&Member| member.second_factor.0 == Some(false);
    listed(members.iter().filter(lacks))
}

/// The people who have not linked an account of this provider: once it alone is required they get in no other
/// way. Not who is let in with a password.
pub fn without_provider(members: &[Member], provider: &str, let_in: &str) -> String {
    let lacks = |member: &&Member| {
        !member.is_service() && member.user_id != let_in && !member.signs_in_with(provider)
    };
    listed(members.iter().filter(lacks))
}

/// So many people are named in a sentence.
const MAX_NAMED: usize = 10;

/// Their names in a sentence; empty if there is nobody.
fn listed<'a>(members: impl Iterator<Item = &'a Member>) -> String {
    let names: Vec<&str> = members.map(|member| member.name.as_str()).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// What can be restricted to members with a grant.
pub struct Thing {
    pub kind: &'static str,
    pub id: String,
    pub name: String,
    pub is_restricted: bool,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    name: String,
    access: String,
}

impl Named {
    fn thing(self, kind: &'static str) -> Thing {
        let Named { id, name, access } = self;
        Thing { kind, id, name, is_restricted: access == "restricted" }
    }
}

/// The kinds of things that can be restricted, and the paths of their lists.
const THINGS: [(&str, &str); 3] =
    [("registry", "/registries"), ("environment", "/environments"), ("fleet", "/fleets")];

/// The field for one.
const RESOURCE: Chooser = Chooser::one("resource", Kind::Thing);

impl Thing {
    /// Its type and id in one text, for forms.
    pub fn key(&self) -> String {
        format!("{}:{}", self.kind, self.id)
    }

    /// Its name with its type.
    pub fn label(&self) -> String {
        format!("{} ({})", self.name, self.kind)
    }
}

/// Reads the registries, environments and fleets that the visitor may use.
pub async fn things(api: &Api) -> Result<Vec<Thing>> {
    let mut things = Vec::new();
    for (kind, path) in THINGS {
        let found: Vec<Named> = api.items(path, &[]).await?;
        things.extend(found.into_iter().map(|named| named.thing(kind)));
    }
    Ok(things)
}

/// The choice between those that are offered; `none` is what it says where none is chosen.
pub async fn thing(
    visit: &Visit,
    label: &'static str,
    none: Option<&str>,
    is_offered: fn(&Thing) -> bool,
) -> Result<Field> {
    let mut things = Vec::new();
    for (kind, path) in THINGS {
        let found: List<Named> = visit.api.get(path, &[("limit", LISTED)]).await?;
        if found.next_cursor.is_some() {
            return Ok(looked_for(label, RESOURCE, none));
        }
        things.extend(found.items.into_iter().map(|named| named.thing(kind)));
    }
    let offered = things.iter().filter(|thing| is_offered(thing));
    let offered = offered.map(|thing| (thing.key(), thing.label())).collect();
    Ok(between(label, RESOURCE, none, offered))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(id: &str, role: &str, is_verified: bool) -> Member {
        let member = json!({
            "userId": id, "kind": "person", "email": "a@b.test", "name": id, "role": role,
            "emailVerified": is_verified, "addressProved": false, "secondFactor": false,
            "signInProviders": ["kc"], "joinedAt": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(member).unwrap()
    }

    #[test]
    fn viewers_and_whoever_nobody_vouches_for_are_no_approvers() {
        let members =
            [member("a", "member", true), member("b", "viewer", true), member("c", "admin", false)];
        let warned = |approvers: &[&str], needed: u32| {
            let approvers: Vec<_> = approvers.iter().map(ToString::to_string).collect();
            too_few(&members, &approvers, needed)
        };
        assert_eq!(warned(&["a", "b", "c"], 1), "");
        assert!(warned(&["a", "b"], 2).starts_with("Only 1 of them can approve now, and 2 must."));
        assert!(warned(&["b", "c"], 1).starts_with("Nobody of them can approve now"));
        let named = |approvers: [&str; 2]| unable(&members, &approvers.map(String::from));
        assert_eq!(named(["a", "d"]), "");
        assert_eq!(named(["a", "b"]), "Not all can: b (cannot approve: a viewer).");
    }

    #[test]
    fn whom_a_rule_would_keep_out_is_named() {
        let members: Vec<_> = (0..12).map(|n| member(&format!("m{n}"), "member", true)).collect();
        assert_eq!(without_second_factor(&members[..2]), "m0, m1");
        assert!(without_second_factor(&members).ends_with("m8, m9 and 2 more"));
        let without = |provider, let_in| without_provider(&members[..2], provider, let_in);
        assert_eq!(without("kc", ""), "");
        assert_eq!(without("entra", ""), "m0, m1");
        assert_eq!(without("entra", "m1"), "m0");
    }
}
