//! Signing out at the provider, too, and a provider that signs many out at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

use roadstead::app::ServerConfig;
use roadstead::auth::oidc::OidcProvider;
use roadstead::auth::{ProviderSession, Session};
use roadstead::base::Id;
use roadstead::store::{ListSource, Tx};
use serde_json::json;

use crate::html;
use crate::oidc_provider::{Provider, person};
use crate::outside::SITES;
use crate::server::Running;
use crate::sites::response;
use crate::visitor::{Page, Visitor};

fn serving(provider: OidcProvider, signs_out: bool) -> Running {
    let provider = OidcProvider { signs_out, ..provider };
    Running::with(ServerConfig { oidc: vec![provider], ..ServerConfig::default() })
}

/// Opens a page as a browser does that another site leads there.
fn led_to(visitor: &Visitor, path: &str) -> Page {
    visitor.request("GET", path, &[("Sec-Fetch-Site", "cross-site")], "")
}

/// Grace, who has signed in with the provider.
fn grace(provider: &Provider, server: &Running) -> Visitor {
    server.invite("grace@acme.test", "member");
    let grace = server.visitor();
    let url = grace.get("/sign-in/oidc/kc").location().to_string();
    let back = provider.sign_in(&url, person("grace"), "ES256");
    assert_eq!(led_to(&grace, &back).location(), "/");
    grace
}

fn sign_out(visitor: &Visitor) -> String {
    let page = visitor.get("/account");
    visitor.send(&page, "/sign-out", &[]).location().to_string()
}

#[test]
fn who_signs_out_is_led_to_the_provider_and_back_and_the_session_is_over_before() {
    let provider = Provider::start(&SITES, "leave.test");
    let server = serving(provider.configured(), true);
    let grace = grace(&provider, &server);
    let stolen = grace.clone();
    assert_eq!(sign_out(&grace), "/sign-out/kc");
    assert!(stolen.get("/account").location().starts_with("/sign-in"));
    let page = grace.get("/sign-out/kc");
    page.shows("You are signed out here").shows("Go on to Keycloak");
    assert!(page.text.contains("src=\"/signed-out\""), "the browser forgets the pages");
    let tags = html::tags(&page.text);
    let url = tags.iter().find_map(|tag| tag.get("href").filter(|url| url.contains("/end?")));
    let query = url.unwrap().strip_prefix("https://leave.test/end?").unwrap();
    let sent: BTreeMap<String, String> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    assert_eq!(sent["client_id"], "roadstead");
    assert!(sent["post_logout_redirect_uri"].ends_with("/sign-in"), "{sent:?}");
    // Nobody else's browser is told so, nor this one twice.
    let back = format!("/sign-in?state={}", sent["state"]);
    led_to(&server.visitor(), &back).hides("You are signed out");
    led_to(&grace, "/sign-in?state=another").hides("You are signed out");
    let page = led_to(&grace, &back);
    page.shows("You are signed out.");
    assert!(page.text.contains("src=\"/signed-out\""));
    led_to(&grace, &back).hides("You are signed out");
}

#[test]
fn nobody_is_led_to_a_provider_who_has_not_signed_out_here_just_now() {
    let provider = Provider::start(&SITES, "stay.test");
    let server = serving(provider.configured(), true);
    assert_eq!(server.visitor().get("/sign-out/kc").location(), "/sign-in");
    let ada = server.signed_in("ada@acme.test");
    assert_eq!(ada.get("/sign-out/kc").location(), "/sign-in");
    assert_eq!(sign_out(&ada), "/sign-in", "her session is of a password");
    let server = serving(provider.configured(), false);
    let grace = grace(&provider, &server);
    assert_eq!(sign_out(&grace), "/sign-in", "the operator does not want it");
}

#[test]
fn a_provider_that_does_not_answer_keeps_no_session() {
    SITES.serve_whole("away.test", |_| response(503, "", "{}"));
    let own = OidcProvider {
        name: "kc".into(),
        label: "Keycloak".into(),
        issuer: "https://away.test".into(),
        client_id: "roadstead".into(),
        secret: None,
        trusts_addresses: false,
        signs_out: true,
        session_secs: 3600,
    };
    let server = serving(own, true);
    let ada = server.signed_in("ada@acme.test");
    let begin = |tx: &mut Tx| {
        let sessions: Vec<Session> = tx.view().all(ListSource::TABLE, &())?;
        let of_provider = |session: &Session| ProviderSession {
            session: session.id,
            provider: "kc".into(),
            subject: None,
            sid: None,
        };
        sessions.iter().try_for_each(|session| tx.put(&of_provider(session)))
    };
    server.store.write_blocking(Id::NIL, begin).unwrap();
    let stolen = ada.clone();
    assert_eq!(sign_out(&ada), "/sign-out/kc");
    assert_eq!(ada.get("/sign-out/kc").location(), "/sign-in");
    ada.get("/sign-in").shows("You are signed out here.").shows("could not be asked");
    assert!(stolen.get("/account").location().starts_with("/sign-in"));
}

#[test]
fn a_provider_that_signs_many_out_at_once_is_asked_once_and_none_is_refused() {
    let provider = Provider::start(&SITES, "many.test");
    let server = serving(provider.configured(), false);
    let barrier = Arc::new(Barrier::new(30));
    let send = |n: usize| {
        let body = provider.logout(&format!("many-{n}"), &json!({"sub": "henry"}));
        let (visitor, barrier) = (server.visitor(), barrier.clone());
        std::thread::spawn(move || {
            barrier.wait();
            visitor.post("/sign-in/oidc/kc/logout", &[], &body).status
        })
    };
    let sent: Vec<_> = (0..30).map(send).collect();
    let statuses: Vec<u16> = sent.into_iter().map(|sent| sent.join().unwrap()).collect();
    assert_eq!(statuses, [200; 30]);
    assert_eq!(provider.asked(), 2, "its document, and its keys");
}
