//! Teams and members for tests, as they are in the store.

use super::members::{Member, MemberRole};
use super::team::Team;
use crate::base::{Id, Name, Slug, StableKey};
use crate::outbox::LogEntry;
use crate::resources::testing::World;
use crate::store::Source;

/// A team that may spend `monthly_usd` a month.
pub fn team(world: &World, slug: &'static str, monthly_usd: Option<f64>) -> Id<Team> {
    let made = world.store.write_now(world.org, move |tx| {
        let team = Team {
            id: tx.new_id(),
            slug: Slug::parse(slug).unwrap(),
            name: Name::parse(slug).unwrap(),
            description: None,
            monthly_usd,
            created_at: tx.now(),
            updated_at: tx.now(),
        };
        tx.insert(&team)?;
        Ok(team.id)
    });
    made.unwrap()
}

/// A member of a team.
pub fn hire(world: &World, team: Id<Team>, stable_key: &'static str) -> Id<Member> {
    let made = world.store.write_now(world.org, move |tx| {
        let member = Member {
            id: tx.new_id(),
            team,
            agent: tx.new_id(),
            stable_key: StableKey::parse(stable_key).unwrap(),
            role: MemberRole::Member,
            skills: vec![],
            wake_url: None,
            wake_secret: None,
            hired_at: tx.now(),
        };
        tx.insert(&member)?;
        Ok(member.id)
    });
    made.unwrap()
}

/// What happened, oldest first.
pub fn events(world: &World) -> Vec<LogEntry> {
    world.store.read(world.org, |view| view.all(Source::TABLE, &())).unwrap()
}
