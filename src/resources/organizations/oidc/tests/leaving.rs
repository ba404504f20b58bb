//! Signing out at a provider, too.

use super::*;
use crate::resources::organizations::oidc::leaving::{NewSignOut, SignOut, leave};

fn left(world: &World, provider: &str) -> Result<SignOut> {
    world.run::<NewSignOut, _>(leave, json!({ "provider": provider }))
}

fn ending_at(endpoint: Value) -> World {
    let world = World::new();
    world.provider.lock().unwrap().discovery = json!({ "end_session_endpoint": endpoint });
    world
}

/// The parameters of a URL behind this beginning.
fn params(url: &str, begins: &str) -> BTreeMap<String, String> {
    let query = url.strip_prefix(begins).unwrap_or_else(|| panic!("{url}"));
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

#[test]
fn it_leads_to_the_provider_and_back_to_this_server_alone() {
    let world = ending_at(json!("https://id.test/end?a=b"));
    let [first, second] = [(); 2].map(|()| left(&world, "kc").unwrap());
    let sent = params(&first.url.unwrap(), "https://id.test/end?a=b&");
    assert_eq!(sent["client_id"], "roadstead");
    assert_eq!(sent["post_logout_redirect_uri"], "http://127.0.0.1:7420/sign-in");
    assert_eq!(Some(&sent["state"]), first.state.as_ref());
    // No ID token is kept, which would say who it is.
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert_ne!(first.state, second.state);
    let plain = ending_at(json!("https://id.test/end"));
    params(&left(&plain, "kc").unwrap().url.unwrap(), "https://id.test/end?");
}

#[test]
fn it_leads_nowhere_if_the_provider_has_no_usable_address_or_the_operator_does_not_want_it() {
    for endpoint in [Value::Null, json!("http://id.test/end"), json!("javascript:alert(1)")] {
        let answer = left(&ending_at(endpoint), "kc").unwrap();
        assert_eq!((answer.url, answer.state), (None, None));
    }
    let mut world = ending_at(json!("https://id.test/end"));
    let own = OidcProvider { signs_out: false, ..world.server.oidc.providers()[0].clone() };
    let oidc = Arc::new(Oidc::new(vec![own]));
    world.server = Arc::new(ServerInfo { oidc, ..ServerInfo::bare(Keys::new([7; 32])) });
    assert_eq!(left(&world, "kc").unwrap().url, None);
    assert!(world.provider.lock().unwrap().asked.is_empty(), "it is not asked");
    assert_eq!(refusal(left(&world, "other")).0, Kind::NotFound);
}

#[test]
fn a_provider_whose_document_is_of_another_one_leads_nowhere() {
    let world = ending_at(json!("https://evil.test/end"));
    world.provider.lock().unwrap().discovery["issuer"] = json!("https://evil.test");
    assert_eq!(refusal(left(&world, "kc")), (Kind::Upstream, "sign_in_provider_failed"));
}
