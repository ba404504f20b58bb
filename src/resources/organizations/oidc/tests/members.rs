//! What an organization is told of the providers with which its members sign in.

use super::*;
use crate::resources::organizations::members::{MemberFilter, list};

/// The providers of Ben, as this caller is shown them.
fn shown(world: &World, who: &Principal) -> Value {
    let filter = Fixture::input::<MemberFilter>(json!({})).unwrap();
    let (mut parts, who) = (args((), filter), who.clone());
    parts.server = world.server.clone();
    let read = |view: &crate::store::View| list(view, &Req::new(&parts, &who));
    let page = world.fixture.store.read_now(world.fixture.org, read).unwrap();
    let members = serde_json::to_value(page.items).unwrap();
    let members = members.as_array().unwrap();
    let ben = members.iter().find(|member| member["email"] == "ben@acme.test").unwrap();
    ben["signInProviders"].clone()
}

#[test]
fn an_admin_is_told_of_the_providers_alone_of_which_the_organization_asks_something() {
    for asks in [
        json!({"domains": [], "rules": [{"provider": "kc", "value": "ops", "role": "admin"}]}),
        json!({"domains": [{"domain": "acme.test", "provider": "kc", "role": "member"}]}),
    ] {
        let world = World::new();
        let cleo = world.fixture.person("cleo", Role::Owner);
        world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
        assert_eq!(shown(&world, &cleo), json!([]));
        assert_eq!(shown(&world, &world.fixture.owner), json!(["kc"]), "of the installation");
        world.settings(&world.fixture.owner, asks).unwrap();
        assert_eq!(shown(&world, &cleo), json!(["kc"]));
        assert_eq!(shown(&world, &world.fixture.member), Value::Null);
    }
    let world = World::new();
    let cleo = world.fixture.person("cleo", Role::Owner);
    world.sign_in(json!({"email": "ben@acme.test"})).unwrap();
    foreign_provider::require(&world);
    assert_eq!(shown(&world, &cleo), json!(["kc"]));
}
