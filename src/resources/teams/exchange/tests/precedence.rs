//! Domain rules: all combinations on three domains, against a model of the reference.

use super::*;
use crate::base::Domain;
use crate::resources::teams::exchange::rules::{DomainRule, rule_for};
use crate::store::Tx;

/// Each within the one before.
const DOMAINS: [&str; 3] = ["a.test", "x.a.test", "y.x.a.test"];

const RULES: [Option<RuleKind>; 3] = [None, Some(RuleKind::Allow), Some(RuleKind::Block)];

/// A rule for each domain or none, of the team and of the organization.
type Combination = ([Option<RuleKind>; 3], [Option<RuleKind>; 3]);

/// What the reference says: a block of the organization that covers the domain wins; else the most
/// specific domain, and on the same domain the team's rule.
fn expected((team, org): &Combination, domain: &str) -> Option<RuleKind> {
    let covers = |rule: &str| domain == rule || domain.ends_with(&format!(".{rule}"));
    let mut covering = Vec::new();
    for (n, name) in DOMAINS.iter().enumerate().filter(|(_, name)| covers(name)) {
        let specificity = name.split('.').count();
        covering.extend(team[n].map(|rule| (specificity, true, rule)));
        covering.extend(org[n].map(|rule| (specificity, false, rule)));
    }
    if covering.iter().any(|(_, is_teams, rule)| !is_teams && *rule == RuleKind::Block) {
        return Some(RuleKind::Block);
    }
    let best =
        covering.into_iter().max_by_key(|(specificity, is_teams, _)| (*specificity, *is_teams));
    best.map(|(.., rule)| rule)
}

fn combinations() -> impl Iterator<Item = Combination> {
    (0..3usize.pow(6)).map(|n| {
        let digit = |place: u32| RULES[n / 3usize.pow(place) % 3];
        ([digit(0), digit(1), digit(2)], [digit(3), digit(4), digit(5)])
    })
}

fn insert(tx: &mut Tx, team: Option<Id<Team>>, domain: &str, rule: RuleKind) -> DomainRule {
    let domain = Domain::parse(domain).unwrap();
    let (id, created_by, created_at) = (tx.new_id(), Id::NIL, tx.now());
    let rule = DomainRule { id, team, domain, rule, created_by, created_at };
    tx.insert(&rule).unwrap();
    rule
}

#[test]
fn every_combination_of_rules_decides_as_the_reference_says() {
    const ASKED: [&str; 6] =
        ["a.test", "x.a.test", "y.x.a.test", "z.y.x.a.test", "other.a.test", "xa.test"];
    let Crew { fixture, team } = Crew::new();
    let other = crate::resources::teams::testing::team(&fixture, "other", None);
    let checked = fixture.store.write_blocking(fixture.org, move |tx| {
        // Rules of another team say nothing.
        DOMAINS.iter().for_each(|domain| drop(insert(tx, Some(other), domain, RuleKind::Block)));
        let mut checked = 0;
        for combination in combinations() {
            let mut made = Vec::new();
            for (owner, rules) in [(Some(team), combination.0), (None, combination.1)] {
                for (domain, rule) in DOMAINS.iter().zip(rules) {
                    made.extend(rule.map(|rule| insert(tx, owner, domain, rule)));
                }
            }
            for asked in ASKED {
                let found = rule_for(&tx.view(), team, &Domain::parse(asked).unwrap())?;
                assert_eq!(found, expected(&combination, asked), "{asked} {combination:?}");
                checked += 1;
            }
            made.iter().try_for_each(|rule| tx.remove(rule))?;
        }
        Ok(checked)
    });
    assert_eq!(checked.unwrap(), 729 * 6);
}

#[test]
fn a_second_rule_for_a_domain_replaces_the_first_and_only_admins_make_those_of_the_organization() {
    let Crew { fixture, team } = Crew::new();
    let set = |who: &Principal, domain: &str, rule: &str, org_wide: bool| {
        let body = json!({"domain": domain, "rule": rule, "orgWide": org_wide});
        fixture.write_as(who, rules::set, team, Fixture::input(body)?).map(|rule| json!(rule))
    };
    let first = set(&fixture.member, "Bücher.Test", "allow", false).unwrap();
    assert_eq!(first["domain"], "xn--bcher-kva.test");
    let second = set(&fixture.owner, "bücher.test", "block", false).unwrap();
    assert_eq!((&second["id"], &second["rule"]), (&first["id"], &json!("block")));
    let refused = set(&fixture.member, "bücher.test", "allow", true);
    assert_eq!(refusal(refused), (Kind::Forbidden, "admin_required"));
    let shared = set(&fixture.owner, "bücher.test", "allow", true).unwrap();
    assert_eq!((&shared["orgWide"], &first["orgWide"]), (&json!(true), &json!(false)));

    let other = crate::resources::teams::testing::team(&fixture, "other", None);
    let list = |team| json!(fixture.read(rules::list, team, ()).unwrap().items);
    assert_eq!(list(team), json!([shared, second]));
    assert_eq!(list(other), json!([shared]));
    fixture.assert_sound();
}

#[test]
fn the_rules_of_a_team_are_deleted_with_it() {
    let crew = Crew::new();
    crew.rule("a.test", "allow", false);
    crew.rule("b.test", "allow", true);
    crew.ask(&Sender::new(1, "a@c.test"), json!({})).unwrap();
    crew.fixture.write(crate::resources::teams::manage::delete, crew.team, ()).unwrap();
    crew.fixture.complete_removals();
    let left = |view: &crate::store::View| {
        Ok((
            view.count::<DomainRule>(ListSource::TABLE, &(), 9)?,
            view.count::<Peer>(ListSource::TABLE, &(), 9)?,
        ))
    };
    assert_eq!(crew.fixture.store.read_now(crew.fixture.org, left).unwrap(), (1, 0));
    crew.fixture.assert_sound();
}

#[test]
fn a_rule_is_deleted_through_its_team_and_one_of_the_organization_by_admins() {
    let crew = Crew::new();
    crew.rule("a.test", "block", false);
    crew.rule("a.test", "block", true);
    let listed = crew.fixture.read(rules::list, crew.team, ()).unwrap().items;
    let ids: Vec<Id<DomainRule>> =
        listed.iter().map(|rule| Id::parse(json!(rule)["id"].as_str().unwrap())).collect();
    let [shared, own] = ids[..] else { panic!("there are two") };
    let other = crate::resources::teams::testing::team(&crew.fixture, "other", None);
    let delete = |who: &Principal, team, rule| {
        crew.fixture.write_as(who, rules::delete, (team, rule), ()).map(|_| ())
    };
    let (member, owner) = (&crew.fixture.member, &crew.fixture.owner);
    assert_eq!(refusal(delete(member, other, own)), (Kind::NotFound, "not_found"));
    assert_eq!(refusal(delete(member, crew.team, shared)), (Kind::Forbidden, "admin_required"));
    let sender = Sender::new(1, "a@a.test");
    assert_eq!(refusal(crew.ask(&sender, json!({}))), (Kind::Forbidden, "domain_blocked"));
    delete(member, crew.team, own).unwrap();
    assert_eq!(refusal(crew.ask(&sender, json!({}))), (Kind::Forbidden, "domain_blocked"));
    delete(owner, other, shared).unwrap();
    assert_eq!(refusal(delete(owner, crew.team, shared)), (Kind::NotFound, "not_found"));
    assert_eq!(crew.ask(&sender, json!({})).unwrap()["state"], "pending");
}
