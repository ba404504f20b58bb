//! What a writer works in: organizations, the users who found them, and desks.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Done, Writer};
use crate::change::Change;
use crate::desk::{Desk, Lists};
use crate::model::{Kind, List, Who};
use crate::names::Shape;
use crate::process::PASSWORD;

/// As many organizations as a user may own.
const MAX_OWNED: usize = 100;

static SIGNING_UP: Mutex<()> = Mutex::new(());

/// Somebody who founds organizations.
pub struct Account {
    token: String,
    user: String,
    organizations: List,
}

impl Writer {
    /// Creates an organization, in the name of a new user if the last one owns enough.
    pub fn found(&mut self) -> Done<Arc<Who>> {
        let account = match self.account.take() {
            Some(account) if self.model.len(&account.organizations) < MAX_OWNED => account,
            _ => self.sign_up()?,
        };
        let (token, user) = (account.token.clone(), account.user.clone());
        let organizations = account.organizations.clone();
        self.account = Some(account);
        let shape = Shape::any(&mut self.dice);
        self.count += 1;
        let slug = shape.name(&format!("w{}", self.number), self.count as u64).replace('_', "-");
        let body = json!({"slug": slug, "name": "An organization"});
        let change = Change::post(&organizations.who, "/organizations", body);
        self.carry_out(change.adds_to(&organizations))?;
        let owner = Arc::new(Who { org: slug, bearer: token });
        let members = List::new(Kind::Members, &owner, "/organizations/members");
        let member = json!({"userId": user, "role": "owner", "kind": "person"});
        self.expect(&members, &user, member)?;
        self.owners.push(owner.clone());
        Ok(owner)
    }

    /// Creates a user by an invitation, mostly into the newest organization.
    fn sign_up(&mut self) -> Done<Account> {
        // The server hashes one password of a stranger at a time, and others wait only for a while.
        let _turn = SIGNING_UP.lock();
        // Sometimes into the first: an account of today and all that it causes may be a hundred.
        let at = if self.dice.below(4) == 0 { 0 } else { self.owners.len() - 1 };
        let inviter = self.owners[at].clone();
        let members = List::new(Kind::Members, &inviter, "/organizations/members");
        let invitations = Lists::of(&inviter).invitations;
        let email = format!("{}@founders.test", self.unique("f"));
        let invite = json!({"email": email, "role": "member"});
        let invite = Change::post(&inviter, "/organizations/members", invite);
        let invite = invite.adds_to(&invitations).loses(&[&invitations]);
        let invitation = self.carry_out(invite)?;
        let accept = json!({"token": invitation["token"], "name": "Founder", "password": PASSWORD});
        let stranger = Arc::new(Who { org: inviter.org.clone(), bearer: String::new() });
        let accept = Change::post(&stranger, "/auth/invitations/accept", accept);
        let id = invitation["id"].as_str().unwrap_or_default();
        let accept = accept.removes_from(&invitations, id).loses(&[&invitations, &members]);
        let session = self.carry_out(accept)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let (token, user) = (text(&session["token"]), text(&session["user"]["id"]));
        let member = json!({"userId": user, "role": "member", "email": email});
        self.expect(&members, &user, member)?;
        let who = Arc::new(Who { org: inviter.org.clone(), bearer: token.clone() });
        let organizations = List::new(Kind::Organizations, &who, "/organizations");
        let home = json!({"slug": inviter.org, "role": "member"});
        self.model.set(&organizations, &inviter.org, &home);
        Ok(Account { token, user, organizations })
    }

    /// Creates what a desk needs in an organization.
    pub fn open_desk(&mut self, owner: Arc<Who>) -> Done<()> {
        let lists = Lists::of(&owner);
        let slug = self.unique("d");
        let named = json!({"slug": slug, "name": "D"});
        let made = Change::post(&owner, "/api-keys", json!({"name": "worker"}));
        let made = self.carry_out(made.adds_to(&lists.keys).loses(&[&lists.keys]))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let worker = Arc::new(Who { org: owner.org.clone(), bearer: text(&made["key"]) });
        let registry = Change::post(&owner, "/registries", named.clone());
        let registry = text(&self.carry_out(registry.adds_to(&lists.registries))?["ref"]);
        let environment = Change::post(&owner, "/environments", named.clone());
        let environment = self.carry_out(environment.adds_to(&lists.environments))?;
        let environment = text(&environment["id"]);
        let team = Change::post(&worker, "/teams", named).adds_to(&lists.teams);
        let team = text(&self.carry_out(team)?["id"]);
        let stable_key = format!("team-{slug}");
        let agent = json!({"stableKey": stable_key, "name": "T"});
        self.carry_out(Change::post(&worker, "/agents", agent).adds_to(&lists.agents))?;
        let agents = List::new(Kind::TeamAgents, &owner, format!("/teams/{team}/agents"));
        let hired = json!({"stableKey": stable_key, "role": "member"});
        let hired = Change::post(&worker, &agents.path, hired).adds_to(&agents);
        let agent = text(&self.carry_out(hired)?["id"]);
        let list = |kind, path: String| List::new(kind, &owner, path);
        let of_registry = format!("registryRef={registry}");
        let at_agent = format!("/teams/{team}/agents/{agent}");
        let desk = Desk {
            artifacts: list(Kind::Artifacts, format!("/registries/artifacts?{of_registry}")),
            versions: list(
                Kind::Versions,
                format!("/registries/artifact-versions?{of_registry}&all=true"),
            ),
            variables: list(Kind::Variables, format!("/environments/{environment}/variables")),
            tasks: list(Kind::Tasks, format!("/teams/{team}/tasks")),
            messages: list(Kind::Messages, format!("/teams/{team}/messages")),
            memories: list(Kind::Memories, format!("{at_agent}/memories")),
            wakes: list(Kind::Wakes, format!("{at_agent}/wakes?peek=true")),
            shape: Shape::any(&mut self.dice),
            tag: format!("{}x{}", self.number, self.desks.len()),
            count: 0,
            owner,
            worker,
            lists,
            registry,
            environment,
            agent,
        };
        desk.own_lists().into_iter().for_each(|list| self.model.open(list));
        self.desks.push(desk);
        Ok(())
    }
}
