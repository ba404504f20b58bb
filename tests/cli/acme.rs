//! Certificates of an authority (reference: command-line, "A certificate of an authority"): with one of the
//! tests' own, and with Pebble, that of Let's Encrypt for tests.

mod authority;
mod look;
mod pebble;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use serde_json::{Value, json};
use time::Duration as Span;

use crate::client::{EndOfLoad, eventually, within};
use crate::process::{Place, Serving};
use crate::tls::{asked, client, connect_to, doctor, mode, usual};
use authority::{Authority, Mood};

/// What a server gets a certificate for, unless a test says otherwise.
const DOMAIN: &str = "agents.test";

/// Longer than a call to an authority that does not answer.
const CALL_ENDS: std::time::Duration = std::time::Duration::from_secs(100);

/// A place for a server, with the authority that it asks.
struct Case {
    authority: Authority,
    place: Place,
}

impl Case {
    fn new() -> Self {
        Self::at(Place::new())
    }

    fn at(place: Place) -> Self {
        let case = Case { authority: Authority::start(), place };
        fs::write(case.root_file(), &case.authority.root).unwrap();
        case
    }

    fn root_file(&self) -> String {
        self.place.data().with_file_name("root.pem").to_str().unwrap().to_string()
    }

    fn flags(&self, domains: &str) -> Vec<String> {
        let (directory, root) = (self.authority.directory(), self.root_file());
        let flags = ["--tls", "acme", "--domain", domains, "--acme-directory", &directory];
        flags.into_iter().chain(["--ca-file", &root]).map(String::from).collect()
    }

    /// Starts a server, which has agreed to the terms.
    fn start(&self, domains: &str, more: &[&str]) -> Serving {
        let flags = self.flags(domains);
        let flags = flags.iter().map(String::as_str).chain(["--acme-agree-tos"]);
        Serving::start(&self.place, &flags.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Starts a server to which the domains lead.
    fn serve(&self, domains: &str, more: &[&str]) -> Serving {
        let serving = self.start(domains, more);
        self.authority.look_at(Some(serving.address));
        serving
    }

    /// A server that has got its first certificate, and has ended.
    fn with_certificate(&self) {
        let mut serving = self.serve(DOMAIN, &[]);
        self.certificate(serving.address, DOMAIN);
        self.ended(&mut serving);
    }

    /// Waits for a certificate of the authority for this name.
    fn certificate(&self, address: SocketAddr, name: &str) -> Vec<u8> {
        eventually("a certificate", || self.shown(address, name))
    }

    /// The certificate that a client is shown that trusts the authority alone; `None` if that is of another.
    fn shown(&self, address: SocketAddr, name: &str) -> Option<Vec<u8>> {
        let name = ServerName::try_from(name.to_string()).unwrap();
        let stream = connect_to(address, name, &usual(&[&self.authority.root])).ok()?;
        Some(stream.conn.peer_certificates().unwrap()[0].to_vec())
    }

    fn get(&self, address: SocketAddr, path: &str) -> String {
        self.get_with(address, path, "")
    }

    /// Gets a path with this header, if there is one.
    fn get_with(&self, address: SocketAddr, path: &str, header: &str) -> String {
        let name = ServerName::try_from(DOMAIN).unwrap();
        let mut stream = connect_to(address, name, &usual(&[&self.authority.root])).unwrap();
        asked(&mut stream, &format!("GET {path} HTTP/1.1{header}"), DOMAIN).unwrap()
    }

    /// What the server says of the authority, once it says what is looked for.
    fn says(&self, look: impl Fn(&Value) -> bool) -> Value {
        within(CALL_ENDS, "what is looked for", || {
            let found = doctor(&self.place, &[]);
            found.into_iter().find(|one| one["check"] == "tls" && look(one))
        })
    }

    /// Waits for an attempt that has failed so, and returns how bad `doctor` finds that.
    fn fails_of(&self, part: &str) -> String {
        let says = |one: &Value| one["message"].as_str().is_some_and(|text| text.contains(part));
        self.says(says)["level"].as_str().unwrap().to_string()
    }

    fn ended(&self, serving: &mut Serving) -> String {
        serving.signal("TERM");
        let (code, _, log) = serving.ends();
        assert_eq!(code, Some(0), "{log}");
        log
    }

    fn stored(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.place.file("tls-acme.json")).unwrap())
            .unwrap()
    }

    /// Changes what a server has stored that has ended: so much time has passed.
    fn forget_pause(&self) {
        let mut stored = self.stored();
        stored["earliest"] = Value::Null;
        stored["endedAt"] = Value::Null;
        stored["attemptedAt"] = "2026-01-01T00:00:00Z".into();
        fs::write(self.place.file("tls-acme.json"), stored.to_string()).unwrap();
    }
}

// ── Issuing ──────────────────────────────────────────────────────────────────

#[test]
fn a_server_starts_at_once_gets_a_certificate_and_asks_for_none_after_a_restart() {
    let (place, key) = Place::founded();
    let case = Case::at(place);
    case.authority.set(Mood::Forgetful);
    let domains = "agents.test,www.agents.test";
    let flags = ["--acme-contact", "ada@acme.test"];
    let mut serving = case.serve(domains, &flags);
    let announced = &serving.announced["tls"];
    assert_eq!(announced["selfSigned"], true);
    assert_eq!(announced["acme"]["domains"], json!(["agents.test", "www.agents.test"]));
    assert_eq!(announced["acme"]["directory"], case.authority.directory());
    assert_eq!(announced["names"][0], DOMAIN);
    let first = case.certificate(serving.address, "www.agents.test");
    assert_eq!(case.certificate(serving.address, DOMAIN), first);
    // It is served while it is written.
    for name in ["tls-acme.pem", "tls-acme.json"] {
        let file = case.place.file(name);
        eventually(name, || file.exists().then_some(()));
        assert_eq!(mode(&file), 0o600, "{name}");
    }
    let says = case.says(|one| one["level"] == "ok");
    let message = says["message"].as_str().unwrap();
    assert!(message.contains("is for agents.test, www.agents.test, until"), "{message}");
    assert!(message.contains("is asked for the next one at"), "{message}");
    assert_eq!(case.authority.contacts(), ["mailto:ada@acme.test"]);
    // It is measured every ten seconds.
    let tls = eventually("the state of the server", || {
        let header = format!("\r\nX-API-Key: {key}");
        let answer = case.get_with(serving.address, "/api/system?orgSlug=acme", &header);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: Value = serde_json::from_str(body).unwrap();
        (status["tls"]["selfSigned"] == false).then(|| status["tls"].clone())
    });
    assert_eq!(tls["acme"]["failures"], 0, "{tls}");
    assert_eq!((&tls["acme"]["error"], &tls["problem"]), (&Value::Null, &Value::Null));
    assert!(tls["acme"]["nextAttemptAt"].as_str() < tls["notAfter"].as_str(), "{tls}");
    let page = case.get(serving.address, "/sign-in");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(!page.contains("strict-transport-security"), "of an authority of one's own: {page}");
    let log = case.ended(&mut serving);
    assert!(log.contains("a self-signed one is served until it has issued one"), "{log}");
    assert!(log.contains("a new TLS certificate is served from now on"), "{log}");

    let requests = case.authority.requests();
    for _ in 0..2 {
        let mut again = case.serve(domains, &flags);
        assert_eq!(again.announced["tls"]["selfSigned"], false);
        assert_eq!(case.shown(again.address, DOMAIN), Some(first.clone()));
        // It is done with looking whether there is something to do.
        assert!(case.get(again.address, "/readyz").starts_with("HTTP/1.1 200"));
        let log = case.ended(&mut again);
        assert!(!log.contains("asking the authority"), "{log}");
    }
    assert_eq!((case.authority.requests(), case.authority.accounts()), (requests, 1));
}

#[test]
fn looks_that_are_not_expected_are_refused_and_other_clients_are_not() {
    let case = Case::new();
    case.with_certificate();
    let serving = case.serve(DOMAIN, &[]);
    for name in [DOMAIN, "other.test"] {
        let look = look::look(serving.address, name, &[0; 32]);
        assert!(look.is_err_and(|why| why.contains("AccessDenied")), "{name}");
    }
    // Who speaks something else, too, is no authority.
    let root = [&*case.authority.root];
    let both = client(&root, &[&TLS13], &["acme-tls/1", "http/1.1"]);
    let mut stream =
        connect_to(serving.address, ServerName::try_from(DOMAIN).unwrap(), &both).unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let answer = asked(&mut stream, "GET /readyz HTTP/1.1", DOMAIN).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Beside a protocol that is not spoken here it is a look all the same.
    let look = look::connect(serving.address, DOMAIN, &["acme-tls/1", "x"]);
    assert!(look.is_err_and(|why| why.contains("AccessDenied")));
}

#[test]
fn other_domains_or_another_contact_are_asked_for_at_once_by_the_same_account() {
    let case = Case::new();
    case.with_certificate();
    let mut serving = case.serve("www.agents.test", &[]);
    case.certificate(serving.address, "www.agents.test");
    assert_eq!(case.shown(serving.address, DOMAIN), None);
    case.ended(&mut serving);
    // A contact alone is no reason for another certificate.
    let contact = ["--acme-contact", "ada@acme.test"];
    let mut serving = case.serve("www.agents.test", &contact);
    case.ended(&mut serving);
    let serving = case.serve("agents.test,www.agents.test", &contact);
    case.certificate(serving.address, DOMAIN);
    let orders = ["agents.test", "www.agents.test", "agents.test,www.agents.test"];
    assert_eq!(case.authority.orders(), orders);
    assert_eq!(case.authority.accounts(), 1);
    assert_eq!(case.authority.contacts(), ["", "mailto:ada@acme.test"]);
}

// ── Renewing ─────────────────────────────────────────────────────────────────

#[test]
fn a_certificate_is_renewed_under_load_without_a_failed_request() {
    let case = Case::new();
    case.authority.set_lifetime(Span::days(90), Span::days(70));
    case.with_certificate();
    case.authority.set_lifetime(Span::days(90), Span::ZERO);
    case.forget_pause();
    // Not before there is load.
    case.authority.look_at(None);
    let mut serving = case.start(DOMAIN, &[]);
    let address = serving.address;
    let first = case.shown(address, DOMAIN).unwrap();
    let (done, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _end = EndOfLoad(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let answer = case.get(address, "/readyz");
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        eventually("load", || (requests.load(Ordering::Relaxed) > 10).then_some(()));
        case.authority.look_at(Some(address));
        let is_next = || case.shown(address, DOMAIN).filter(|next| *next != first);
        eventually("the next certificate", is_next);
        let before = requests.load(Ordering::Relaxed);
        eventually("load", || (requests.load(Ordering::Relaxed) > before + 10).then_some(()));
    });
    case.says(|one| one["level"] == "ok");
    case.ended(&mut serving);
    assert_eq!(case.authority.accounts(), 1);
}

#[test]
fn what_cannot_be_renewed_is_still_served_and_asked_for_less_often_also_after_restarts() {
    let case = Case::new();
    case.authority.set_lifetime(Span::days(90), Span::days(70));
    case.with_certificate();
    case.forget_pause();
    case.authority.set(Mood::Limits);
    let mut serving = case.serve(DOMAIN, &[]);
    let first = case.shown(serving.address, DOMAIN).unwrap();
    assert_eq!(case.fails_of("too many of them; the server asks again later"), "warning");
    assert_eq!(case.shown(serving.address, DOMAIN), Some(first.clone()));
    // As long as the authority wants.
    let stored = case.stored();
    let at = |name: &str| stored[name].as_str().unwrap().to_string();
    let parsed = |text: String| {
        let format = &time::format_description::well_known::Rfc3339;
        time::OffsetDateTime::parse(&text, format).unwrap()
    };
    let pause = parsed(at("earliest")) - parsed(at("attemptedAt"));
    assert!((7200..7230).contains(&pause.whole_seconds()), "{stored}");
    let requests = case.authority.requests();
    // Not within a minute.
    serving.signal("HUP");
    let log = case.ended(&mut serving);
    assert!(log.contains("the TLS certificate is not renewed yet: the authority says"), "{log}");
    for _ in 0..2 {
        let mut again = case.serve(DOMAIN, &[]);
        assert_eq!(case.shown(again.address, DOMAIN), Some(first.clone()));
        case.fails_of("too many of them");
        case.ended(&mut again);
    }
    assert_eq!(case.authority.requests(), requests);

    // Later somebody asks for it.
    let mut stored = case.stored();
    stored["attemptedAt"] = "2026-01-01T00:00:00Z".into();
    stored["endedAt"] = "2026-01-01T00:01:00Z".into();
    fs::write(case.place.file("tls-acme.json"), stored.to_string()).unwrap();
    case.authority.set(Mood::Good);
    case.authority.set_lifetime(Span::days(90), Span::ZERO);
    let mut serving = case.serve(DOMAIN, &[]);
    case.fails_of("too many of them");
    serving.signal("HUP");
    let is_next = || case.shown(serving.address, DOMAIN).filter(|next| *next != first);
    eventually("the next certificate", is_next);
    case.says(|one| one["level"] == "ok");
    assert_eq!(case.stored()["failures"], 0);
    case.ended(&mut serving);
}

#[test]
fn an_account_that_the_authority_has_forgotten_or_deactivated_is_made_again_at_once_and_kept() {
    for (is_forgotten, why) in [(true, "who is that"), (false, "that account was deactivated")] {
        let case = Case::new();
        case.authority.set_lifetime(Span::days(90), Span::days(70));
        case.with_certificate();
        case.forget_pause();
        case.authority.set_lifetime(Span::days(90), Span::ZERO);
        let before = case.stored()["account"]["url"].clone();
        match is_forgotten {
            true => case.authority.forget_accounts(),
            false => case.authority.deactivate_accounts(),
        }
        let mut serving = case.serve(DOMAIN, &[]);
        case.says(|one| one["level"] == "ok");
        let log = case.ended(&mut serving);
        assert!(
            log.contains("does not take the account any more, and another one is made"),
            "{log}"
        );
        assert!(log.contains(why), "{log}");
        assert_ne!(case.stored()["account"]["key"], Value::Null);
        // It is used from then on.
        case.forget_pause();
        let made = case.authority.accounts();
        let mut serving = case.serve("www.agents.test", &[]);
        case.certificate(serving.address, "www.agents.test");
        case.ended(&mut serving);
        assert_eq!(case.authority.accounts(), made);
        assert!(is_forgotten || case.stored()["account"]["url"] != before);
    }
}

#[test]
fn an_authority_that_takes_no_account_at_all_is_not_given_one_after_the_other() {
    for (mood, part) in [(Mood::Deactivates, "was deactivated"), (Mood::Disowns, "who is that")] {
        let case = Case::new();
        case.authority.set_lifetime(Span::days(90), Span::days(70));
        case.with_certificate();
        case.authority.set(mood);
        for made in [2, 2, 2] {
            case.forget_pause();
            let mut serving = case.serve(DOMAIN, &[]);
            let said = case.says(|one| {
                let has_ended = case.stored()["endedAt"].is_string();
                has_ended && one["message"].as_str().is_some_and(|text| text.contains(part))
            });
            let said = said["message"].as_str().unwrap();
            assert!(said.contains("stop the server and remove tls-acme.json"), "{said}");
            case.ended(&mut serving);
            assert_eq!(case.authority.accounts(), made);
        }
    }
}

#[test]
fn an_account_is_kept_until_the_authority_has_made_another() {
    let case = Case::new();
    case.authority.set_lifetime(Span::days(90), Span::days(70));
    case.with_certificate();
    let account = case.stored()["account"].clone();
    case.authority.set(Mood::Closed);
    case.forget_pause();
    let mut serving = case.serve(DOMAIN, &[]);
    case.fails_of("no more accounts");
    case.ended(&mut serving);
    let stored = case.stored();
    assert_eq!((&stored["account"], &stored["isAccountReplaced"]), (&account, &json!(false)));
    // It was another reason.
    case.authority.set(Mood::Good);
    case.authority.set_lifetime(Span::days(90), Span::ZERO);
    case.forget_pause();
    let mut serving = case.serve(DOMAIN, &[]);
    case.says(|one| one["level"] == "ok");
    case.ended(&mut serving);
    assert_eq!((case.authority.accounts(), &case.stored()["account"]), (1, &account));
}

#[test]
fn what_cannot_be_kept_of_a_certificate_is_served_and_written_once_that_is_possible() {
    for (name, part) in [
        ("tls-acme.pem", "so that a restart loses it"),
        ("tls-acme.json", "so that a start asks for another"),
    ] {
        let case = Case::new();
        let mut serving = case.start(DOMAIN, &[]);
        serving.expect_errors(&["the TLS certificate that was issued is served, and "]);
        eventually("an order", || (!case.authority.orders().is_empty()).then_some(()));
        let file = case.place.file(name);
        // A directory in its place, which no file replaces.
        let _ = fs::remove_file(&file);
        fs::create_dir(&file).unwrap();
        fs::write(file.join("x"), "x").unwrap();
        case.authority.look_at(Some(serving.address));
        let served = case.certificate(serving.address, DOMAIN);
        assert_eq!(case.fails_of(part), "error");
        let requests = case.authority.requests();
        fs::remove_dir_all(&file).unwrap();
        within(CALL_ENDS, "the file", || file.is_file().then_some(()));
        case.says(|one| one["level"] == "ok");
        assert_eq!(case.stored()["failures"], 0);
        let log = case.ended(&mut serving);
        assert!(log.contains("the TLS certificate that is served is written now"), "{log}");
        let mut again = case.serve(DOMAIN, &[]);
        assert_eq!(case.shown(again.address, DOMAIN), Some(served));
        case.ended(&mut again);
        assert_eq!((case.authority.requests(), mode(&file)), (requests, 0o600));
    }
}

// ── What goes wrong ──────────────────────────────────────────────────────────

#[test]
fn an_authority_that_refuses_lies_hangs_or_floods_costs_nothing_but_the_certificate() {
    let moods = [
        (
            Mood::Refuses,
            "not for this name; the authority issues no certificates for one of --domain",
        ),
        (Mood::Limits, "too many of them; the server asks again later"),
        (Mood::OtherProof, "cannot look by TLS-ALPN-01"),
        (Mood::OtherNames, "has issued a certificate that is not for agents.test"),
        (Mood::Hangs, "gave no complete answer within 30 s"),
        (Mood::Nonsense, "--acme-directory must be the URL of its directory"),
        (Mood::Floods, "is longer than 61440 bytes"),
    ];
    let cases = moods.map(|(mood, part)| {
        let case = Case::new();
        case.authority.set(mood);
        let mut serving = case.serve(DOMAIN, &[]);
        serving.expect_errors(&["there is no new TLS certificate: "]);
        (case, serving, part)
    });
    for (case, mut serving, part) in cases {
        assert_eq!(case.fails_of(part), "error", "{part}");
        let (name, own) = (DOMAIN, case.place.file("tls-self-signed.pem"));
        let name = ServerName::try_from(name).unwrap();
        let trusted = usual(&[&fs::read_to_string(own).unwrap()]);
        let mut stream = connect_to(serving.address, name, &trusted).unwrap();
        let page = asked(&mut stream, "GET /setup HTTP/1.1", DOMAIN).unwrap();
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(!page.contains("strict-transport-security"), "of a self-signed one: {page}");
        case.ended(&mut serving);
        // So it does without a server.
        let flags = case.flags(DOMAIN);
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(["--acme-agree-tos"]).collect();
        let found = doctor(&case.place, &flags);
        let one = found.iter().find(|one| one["check"] == "tls").unwrap();
        assert_eq!(one["level"], "error", "{one}");
        assert!(one["message"].as_str().unwrap().contains(part), "{one}");
    }
}

#[test]
fn a_pause_longer_than_numbers_are_is_no_end_of_the_world() {
    let case = Case::new();
    case.authority.set(Mood::Overflows);
    // It does not get so far as to look.
    let mut serving = case.start(DOMAIN, &[]);
    serving.expect_errors(&["there is no new TLS certificate: "]);
    assert_eq!(case.fails_of("did not decide in time"), "error");
    case.ended(&mut serving);
}

#[test]
fn a_domain_that_leads_elsewhere_gets_no_certificate_and_the_error_names_it() {
    let case = Case::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    case.authority.look_at(Some(nobody));
    let mut serving = case.start(DOMAIN, &[]);
    serving.expect_errors(&["there is no new TLS certificate: agents.test: "]);
    assert_eq!(case.fails_of("agents.test: the authority says: Connection refused"), "error");
    case.fails_of("the authority reach it at port 443");
    case.ended(&mut serving);
}

#[test]
fn terms_and_contacts_that_the_authority_does_not_take_are_named_with_the_flag() {
    let case = Case::new();
    let flags = case.flags(DOMAIN);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let contact = ["--acme-agree-tos", "--acme-contact", "ada@acme.invalid"];
    for (more, part) in
        [(&[][..], "and give --acme-agree-tos"), (&contact, "correct --acme-contact")]
    {
        let mut serving = Serving::start(&case.place, &[&flags, more].concat());
        serving.expect_errors(&["there is no new TLS certificate: "]);
        assert_eq!(case.fails_of(part), "error");
        case.ended(&mut serving);
    }
    assert_eq!((case.authority.accounts(), case.authority.orders().len()), (0, 0));
    // Put right, it is asked at once.
    let serving = case.serve(DOMAIN, &[]);
    case.certificate(serving.address, DOMAIN);
}

#[test]
fn settings_that_fit_no_certificate_are_refused_before_anything_is_made() {
    let place = Place::new();
    let acme = ["serve", "--tls", "acme"];
    let domain = ["--domain", DOMAIN];
    for (more, part) in [
        (&[][..], "--tls acme needs --domain"),
        (&["--domain", "*.agents.test"], "--domain"),
        (&["--domain", "10.0.0.7"], "--domain"),
        (&domain, "https://letsencrypt.org/repository/"),
        (&["--acme-directory", "http://ca.test/dir"], "must begin with https://"),
        (&["--acme-contact", "ada"], "must be an e-mail address"),
    ] {
        place.run(&[&acme[..], more].concat()).fails(2, part);
    }
    let many = (0..101).map(|n| format!("a{n}.test")).collect::<Vec<_>>().join(",");
    place.run(&[&acme[..], &["--domain", &many]].concat()).fails(2, "at most 100");
    place.run(&[&["serve"][..], &domain].concat()).fails(2, "--domain is about the certificate");
    let store = ["--store", "postgres://roadstead@127.0.0.1:1/roadstead", "--acme-agree-tos"];
    let shared = [&acme[..], &domain, &store].concat();
    place.run(&shared).fails(2, "which a store in PostgreSQL has not: give --tls-cert");
    let own = ["serve", "--tls", "self-signed", "--acme-agree-tos"];
    place.run(&own).fails(2, "--acme-agree-tos is about the certificate of --tls acme");
    assert!(!place.data().exists());
}

#[test]
fn files_that_others_may_read_are_refused_and_broken_ones_are_made_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let case = Case::new();
    case.with_certificate();
    let flags = case.flags(DOMAIN);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let serve = [&["serve", "--listen", "127.0.0.1:0"], &flags[..]].concat();
    for name in ["tls-acme.pem", "tls-acme.json"] {
        let file = case.place.file(name);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        case.place.run(&serve).fails(2, "chmod 600");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "text").unwrap();
    }
    let mut serving = case.serve(DOMAIN, &[]);
    assert_eq!(serving.announced["tls"]["selfSigned"], true);
    case.certificate(serving.address, DOMAIN);
    case.ended(&mut serving);
    assert_eq!(case.authority.accounts(), 2);
}
