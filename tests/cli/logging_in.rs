//! Which server and which credential client commands use: flags, variables, profiles
//! (reference: command-line, "As a client").

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::client::Caller;
use crate::client::second_factor::App;
use crate::desk::Desk;
use crate::process::{PASSWORD, run};
use crate::sites::{Sites, response};
use crate::terminal::in_terminal;

#[test]
fn a_key_of_the_environment_says_itself_which_organization_it_is_for() {
    let desk = Desk::new();
    let who = desk.json(&["whoami"]);
    assert_eq!(who["userName"], "Ada Lovelace");
    assert_eq!(who["apiKey"]["access"], "full");
    assert_eq!(who["memberships"][0]["orgSlug"], "acme");
    assert_eq!(who["url"], json!(desk.url()));
    let text = desk.run(&["whoami"]);
    assert!(text.stdout.contains("Ada Lovelace") && text.stdout.contains("acme"), "{text:?}");
}

#[test]
fn a_narrow_key_sees_itself_and_its_own_organization_alone() {
    let desk = Desk::new();
    let session = desk.session();
    session.ask("POST", "/organizations").json(&json!({"slug": "other", "name": "Other"})).send();
    let key = desk.key_with(&["artifact:read@main"]);
    let mut command = desk.command(&["whoami", "--json"]);
    command.env("ROADSTEAD_API_KEY", key);
    let who = run(command, None).succeeds();
    assert_eq!(who["memberships"].as_array().unwrap().len(), 1);
    assert_eq!(who["apiKey"]["access"], json!(["artifact:read@main"]));
    let both = session.ask("GET", "/whoami").send().ok();
    assert_eq!(both["memberships"].as_array().unwrap().len(), 2);
    assert_eq!(both["apiKey"], json!(null));
}

#[test]
fn login_keeps_a_profile_that_only_its_owner_may_read() {
    let desk = Desk::new();
    let file = desk.file("key", format!("{}\n", desk.key));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let url = desk.url();
    let made = run(desk.bare(&["login", "--url", &url, "--key", &file, "--json"]), None).succeeds();
    assert_eq!((&made["profile"], &made["orgSlug"]), (&json!("default"), &json!("acme")));
    assert!(!made.to_string().contains(&desk.key));

    let kept = desk.path("roadstead/profiles.json");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(run(desk.bare(&["whoami"]), None).code, Some(0));

    let listed = run(desk.bare(&["profiles", "list", "--json"]), None).succeeds();
    assert_eq!(listed["items"][0]["name"], "default");
    assert!(!listed.to_string().contains(&desk.key));

    fs::set_permissions(&kept, fs::Permissions::from_mode(0o640)).unwrap();
    run(desk.bare(&["whoami"]), None).fails(2, "chmod 600");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&kept, "{\"current\": 7}").unwrap();
    run(desk.bare(&["whoami"]), None).fails(2, "no file of profiles");
}

#[test]
fn profiles_are_chosen_and_removed() {
    let desk = Desk::new();
    let url = desk.url();
    for name in ["one", "two"] {
        let login = desk.bare(&["login", "--url", &url, "--profile", name, "--key", "-", "--json"]);
        run(login, Some(&desk.key)).succeeds();
    }
    let current = |desk: &Desk| {
        let listed = run(desk.bare(&["profiles", "list", "--json"]), None).succeeds();
        let items = listed["items"].as_array().unwrap().clone();
        let items = items.into_iter().filter(|item| item["current"] == true);
        items.map(|item| item["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(current(&desk), ["two"]);
    let login = desk.bare(&["login", "--url", &url, "--profile", "three", "--key", "-"]);
    let said = run(login, Some(&desk.key)).stdout;
    assert!(said.contains("profile: three, the current one now"), "{said}");
    assert!(said.contains("back to two: roadstead profiles use two"), "{said}");
    run(desk.bare(&["profiles", "remove", "three", "--json"]), None).succeeds();
    run(desk.bare(&["profiles", "use", "one", "--json"]), None).succeeds();
    assert_eq!(current(&desk), ["one"]);
    run(desk.bare(&["profiles", "use", "three"]), None).fails(2, "no profile");
    run(desk.bare(&["whoami", "--profile", "three"]), None).fails(2, "no profile");
    run(desk.bare(&["profiles", "remove", "one", "--json"]), None).succeeds();
    assert!(current(&desk).is_empty());
    run(desk.bare(&["whoami"]), None).fails(2, "roadstead login");
    assert_eq!(run(desk.bare(&["whoami", "--profile", "two"]), None).code, Some(0));
}

#[test]
fn a_password_makes_a_session_which_may_do_what_no_key_may() {
    let desk = Desk::new();
    let url = desk.url();
    let login = ["login", "--url", &url, "--email", "ada@acme.test", "--password-stdin", "--json"];
    let made = run(desk.bare(&login), Some(&format!("{PASSWORD}\n"))).succeeds();
    assert!(made["expiresAt"].is_string());
    assert_eq!(made["apiKey"], json!(null));
    let kept = fs::read_to_string(desk.path("roadstead/profiles.json")).unwrap();
    assert!(!kept.contains(PASSWORD));
    run(desk.bare(&login), Some("a wrong password\n")).fails(1, "wrong");
    run(desk.bare(&login[..5]), None).fails(2, "--password-stdin");
}

#[test]
fn a_code_of_the_second_factor_is_asked_for_or_given() {
    let desk = Desk::new();
    let url = desk.url();
    let login = ["login", "--url", &url, "--email", "ada@acme.test", "--json"];
    let stdin = format!("{PASSWORD}\n");
    let from_stdin = [&login[..], &["--password-stdin"]].concat();
    let anonymous = Caller::anonymous(desk.serving.address, "acme").with_fields(&[]);
    let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = anonymous.post("/auth/sign-in", sign_in).ok()["token"].clone();
    let session = anonymous.with_bearer(session.as_str().unwrap());
    let app = App::turned_on(&session, PASSWORD);
    run(desk.bare(&from_stdin), Some(&stdin)).fails(2, "--code");
    let with_code = |code: &str| {
        let args = [&from_stdin[..], &["--code", code]].concat();
        run(desk.bare(&args), Some(&stdin))
    };
    with_code("000000").fails(1, "code is wrong");
    with_code(&app.recovery_codes[0]).succeeds();

    let typed = format!("{PASSWORD}\n000000\n{}\n", app.code(1));
    let asked = in_terminal(desk.bare(&login), &typed);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(asked.stderr.contains("Code of the second factor"), "{asked:?}");
    assert!(asked.stderr.contains("the code is wrong"), "{asked:?}");
    assert!(!asked.stderr.contains(PASSWORD), "{asked:?}");
}

#[test]
fn a_key_is_never_taken_from_the_command_line() {
    let desk = Desk::new();
    let url = desk.url();
    for args in [
        vec!["whoami", "--url", &url, "--key", &desk.key],
        vec!["login", "--url", &url, "--key", &desk.key],
    ] {
        let ended = run(desk.bare(&args), None);
        ended.fails(2, "ROADSTEAD_API_KEY");
        assert!(!ended.stderr.contains(&desk.key), "{ended:?}");
    }
    run(desk.bare(&["whoami", "--api-key", "x"]), None).fails(2, "--key FILE");
    let open = desk.file("open", &desk.key);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    run(desk.bare(&["whoami", "--url", &url, "--key", &open]), None).fails(2, "chmod 600");
    let from_stdin = desk.bare(&["whoami", "--url", &url, "--key", "-", "--json"]);
    run(from_stdin, Some(&format!("{}\n", desk.key))).succeeds();
    run(desk.bare(&["whoami", "--url", &url, "--key", "-"]), Some("two words"))
        .fails(2, "characters");
    let mut without = desk.bare(&["whoami", "--url", &url]);
    without.env("ROADSTEAD_API_KEY", "");
    run(without, None).fails(2, "ROADSTEAD_API_KEY is empty");
    let help = run(desk.command(&["whoami", "--help"]), None);
    assert!(help.stdout.contains("--key") && !help.stdout.contains(&desk.key), "{help:?}");
}

#[test]
fn a_profiles_credential_goes_to_its_own_server_only() {
    let desk = Desk::new();
    let url = desk.url();
    run(desk.bare(&["login", "--url", &url, "--key", "-"]), Some(&desk.key));
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let other = format!("http://{}", elsewhere.local_addr().unwrap());
    run(desk.bare(&["whoami", "--url", &other]), None).fails(2, "no key for");
    let named = desk.bare(&["whoami", "--url", &other, "--profile", "default"]);
    run(named, None).fails(2, "give one of --profile and --url");
    assert!(elsewhere.accept().is_err(), "nobody was called");
    let same = format!("{url}/");
    assert_eq!(run(desk.bare(&["whoami", "--url", &same]), None).code, Some(0));
}

#[test]
fn what_goes_wrong_is_said_with_what_to_do() {
    let desk = Desk::new();
    let mut wrong = desk.command(&["whoami"]);
    let other = if desk.key.ends_with('x') { 'y' } else { 'x' };
    wrong.env("ROADSTEAD_API_KEY", format!("{}{other}", &desk.key[..52]));
    run(wrong, None).fails(1, "roadstead login");
    // What the API's clients call its address works, too.
    let mut api = desk.command(&["whoami"]);
    api.env("ROADSTEAD_URL", format!("{}/api", desk.url()));
    assert_eq!(run(api, None).code, Some(0));
    let mut nobody = desk.command(&["whoami"]);
    nobody.env("ROADSTEAD_URL", "http://127.0.0.1:9");
    let nobody = run(nobody, None);
    nobody.fails(1, "cannot be connected to");
    nobody.fails(1, "(http://127.0.0.1:9); start the server there with roadstead serve");
    desk.run(&["whoami", "--org", "acme", "--url", "ftp://x"]).fails(2, "--url");
    desk.run(&["whoami", "--ca-file", "/does/not/exist"]).fails(2, "--ca-file");
    desk.run(&["task", "list", "--team", "nowhere"]).fails(1, "there is no team");
    desk.run(&["task", "list", "--team", "x", "--org", "other"]).fails(1, "organization_not_found");
}

#[test]
fn a_server_with_a_certificate_of_the_site_is_trusted_with_its_authority() {
    let desk = Desk::new();
    let sites = Sites::new();
    let refused = r#"{"message": "it is wrong", "code": "unauthenticated", "requestId": "1"}"#;
    let field = "Content-Type: application/json\r\n";
    let server = sites.receive("127.0.0.1", move |_| response(401, field, refused));
    let url = format!("https://{server}");
    let authority = desk.file("authority.pem", sites.authority());
    let login = ["login", "--url", &url, "--email", "a@b.test", "--password-stdin"];
    let refused = run(desk.bare(&login), Some("a password"));
    refused.fails(1, "no TLS with");
    refused.fails(1, "with --ca-file");
    let trusted = [&login[..], &["--ca-file", &authority]].concat();
    run(desk.bare(&trusted), Some("a password")).fails(1, "it is wrong (unauthenticated)");
}
