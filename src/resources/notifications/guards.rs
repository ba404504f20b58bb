//! From whom the events are hidden that belong to something: a restricted resource, an agent or a user.

use crate::auth::{Caller, User};
use crate::base::{Id, Result};
use crate::outbox::HiddenGuards;
use crate::resources::{agents, organizations};
use crate::store::View;

/// What is hidden from a caller in the log: nothing from an admin.
pub fn hidden_from<'a>(view: &View<'a>, caller: &'a Caller) -> Result<HiddenGuards<'a>> {
    if caller.is_admin() {
        return Ok(HiddenGuards::none());
    }
    let view = *view;
    let restricted = organizations::hidden_from(&view, caller)?;
    Ok(HiddenGuards::by(move |guard| {
        Ok(restricted.contains(&guard.cast())
            || guard != caller.user().cast() && view.has::<User>(&guard.cast())?
            || !agents::is_usable(&view, caller, guard.cast())?)
    }))
}

/// Whether every member sees what belongs to something.
pub fn is_open_to_members(view: &View, guard: Id<()>) -> Result<bool> {
    if agents::exists(view, guard.cast())? {
        return agents::is_open(view, guard.cast());
    }
    organizations::is_open_to_members(view, guard)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{Principal, Req};
    use crate::auth::remember_deleted;
    use crate::outbox::{About, EventType, publish};
    use crate::resources::fleets;
    use crate::resources::notifications::logs::{self, LogFilter};
    use crate::resources::testing::{Fixture, args, user};
    use crate::store::Tx;

    /// How many entries of the log somebody sees.
    fn seen(fixture: &Fixture, who: &Principal) -> usize {
        let args = args((), LogFilter::default());
        let list = |view: &View| Ok(json!(logs::list(view, &Req::new(&args, who))?));
        let page = fixture.store.read_now(fixture.org, list).unwrap();
        let count = page["items"].as_array().unwrap().len();
        assert_eq!(page["pagination"]["total"], count);
        count
    }

    #[test]
    fn the_expiry_of_a_key_is_told_to_its_user_and_to_admins_alone() {
        let fixture = Fixture::new();
        // As earlier versions published it, and as it is published now.
        let expire = |of: Id<User>| {
            let write = move |tx: &mut Tx| {
                let about = About::resource("api_key", tx.new_id::<()>());
                for about in [about.clone(), about.guarded_by("user", of)] {
                    publish(tx, EventType::ApiKeyExpiring, about, json!({"userId": of}))?;
                }
                Ok(())
            };
            fixture.store.write_blocking(fixture.org, write).unwrap();
        };
        let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
        let counts = || (seen(&fixture, &fixture.owner), seen(&fixture, &fixture.member));
        expire(ada);
        assert_eq!(counts(), (2, 0));
        expire(ben);
        assert_eq!(counts(), (4, 2));
        // Of a service account that was deleted.
        let account = Id::new(fixture.store.clock().new_id());
        let delete = move |tx: &mut Tx| remember_deleted(tx, account);
        fixture.store.write_blocking(fixture.org, delete).unwrap();
        expire(account);
        assert_eq!(counts(), (6, 2));
        fixture.assert_sound();
    }

    #[test]
    fn what_belongs_to_an_agent_is_told_to_all_members_as_long_as_its_fleet_is_open() {
        let fixture = Fixture::new();
        agents::tests::make(&fixture, json!({"stableKey": "ann", "name": "Ann"})).unwrap();
        let agent = Id::parse(&agents::tests::id_of(&fixture, "ann"));
        let is_open = || {
            let read = |view: &View| is_open_to_members(view, agent);
            fixture.store.read_now(fixture.org, read).unwrap()
        };
        assert!(is_open());
        for (access, expected) in [("restricted", false), ("organization", true)] {
            let fleet = fleets::tests::make(&fixture, json!({"name": access, "access": access}));
            let body = json!({"fleetId": fleet.id});
            agents::tests::patch_as(&fixture, &fixture.owner, "ann", body).unwrap();
            assert_eq!(is_open(), expected, "{access}");
        }
    }
}
