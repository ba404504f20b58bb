//! Commands other than `serve` and `demo`.

use std::fs;

use serde_json::json;

use crate::process::{PASSWORD, Place, Serving, command, run};

#[test]
fn init_creates_an_organization_its_owner_and_a_key_that_is_printed_once() {
    let place = Place::new();
    let made = place.init(&["--json"], None).succeeds();
    assert_eq!(made["organization"]["slug"], "acme");
    assert_eq!(made["user"]["email"], "ada@acme.test");
    assert_eq!(made["apiKey"]["permissions"], json!(["deployment:approve-as"]));
    let expected = [
        ("organization", vec!["id", "slug", "name"]),
        ("user", vec!["id", "email", "name"]),
        ("apiKey", vec!["id", "name", "key", "permissions"]),
    ];
    for (part, fields) in expected {
        let there: Vec<_> = made[part].as_object().unwrap().keys().collect();
        assert_eq!(there, fields, "{part}");
    }
    let key = made["apiKey"]["key"].as_str().unwrap();
    for file in fs::read_dir(place.data()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()));
    }
    let serving = Serving::start(&place, &[]);
    assert_eq!(serving.announced["setupLink"], json!(null));
    let members = serving.caller(key).get("/organizations/members").items();
    assert_eq!(members[0]["role"], "owner");
    assert_eq!(members[0]["emailVerified"], true);
}

#[test]
fn init_prints_the_next_step() {
    let place = Place::new();
    let ended = place.init(&[], None);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for part in ["rsk_", "acme", "ada@acme.test", "roadstead serve --data"] {
        assert!(ended.stdout.contains(part), "{ended:?}");
    }
}

#[test]
fn the_password_is_the_first_line_without_its_newline() {
    for stdin in
        ["correct horse battery\r\nsecond", "correct horse battery\n", "correct horse battery"]
    {
        let place = Place::new();
        place.init(&["--json"], Some(stdin)).succeeds();
        let serving = Serving::start(&place, &[]);
        let sign_in = json!({"email": "ada@acme.test", "password": "correct horse battery"});
        serving.caller("x").with_fields(&[]).post("/auth/sign-in", sign_in).ok();
    }
    let place = Place::new();
    place.init(&[], Some("short\n")).fails(2, "at least 12 characters");
    assert!(!place.data().exists());
}

#[test]
fn a_second_init_changes_nothing() {
    let (place, key) = Place::founded();
    place.init(&["--json"], None).fails(1, "already");
    let other = ["init", "--org", "b", "--org-name", "B", "--email", "b@b.test", "--name", "B"];
    let other = [&other[..], &["--password-stdin"]].concat();
    run(place.command(&other), Some(PASSWORD)).fails(1, "already");
    let serving = Serving::start(&place, &[]);
    assert_eq!(serving.caller(&key).get("/organizations/members").items().len(), 1);
}

#[test]
fn invalid_usage_is_reported_and_creates_nothing() {
    let place = Place::new();
    let init = |org: &str, email: &str| {
        let args = ["init", "--org", org, "--org-name", "A", "--email", email, "--name", "A"];
        place.run(&args)
    };
    place.run(&["init", "--org", "acme"]).fails(2, "--org-name");
    init("No Slug", "a@b.test").fails(2, "--org");
    init("acme", "nobody").fails(2, "--email");
    place.run(&["serve", "--no-such-flag"]).fails(2, "--no-such-flag");
    place.run(&["serve", "--memory-retention", "soon"]).fails(2, "--memory-retention");
    place.run(&["serve", "--trusted-proxy", "example.com"]).fails(2, "--trusted-proxy");
    place.run(&["serve", "--ca-file", "/does/not/exist"]).fails(2, "--ca-file");
    place.run(&["nothing"]).fails(2, "nothing");
    assert!(!place.data().exists());
}

#[test]
fn a_flag_wins_over_its_variable() {
    let place = Place::new();
    let mut by_variables = command(&["init"], &place.data());
    by_variables.env("ROADSTEAD_ORG", "acme").env("ROADSTEAD_ORG_NAME", "Acme");
    by_variables.env("ROADSTEAD_EMAIL", "ada@acme.test").env("ROADSTEAD_NAME", "Ada");
    by_variables.env("ROADSTEAD_JSON", "true").args(["--org", "flag"]);
    by_variables.env("ROADSTEAD_PASSWORD_STDIN", "true");
    assert_eq!(run(by_variables, Some(PASSWORD)).succeeds()["organization"]["slug"], "flag");
}

#[test]
fn a_directory_that_cannot_be_opened_is_reported_with_the_reason() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["check"]] {
        place.run(args).fails(2, "another process");
    }
    place.init(&[], None).fails(2, "another process");
    drop(serving);

    let mark = place.file("format");
    let all = [&["serve", "--listen", "127.0.0.1:0"][..], &["check"]];
    let good = fs::read(&mark).unwrap();
    fs::write(&mark, "999\n").unwrap();
    all.iter().for_each(|args| place.run(args).fails(2, "newer"));
    fs::write(&mark, good).unwrap();
    assert_eq!(place.run(&["check"]).code, Some(0));
    let nowhere = Place::new();
    nowhere.run(&["check"]).fails(2, "roadstead init");
    assert!(!nowhere.data().exists());
}

#[test]
fn check_distinguishes_sound_from_damaged() {
    let (place, _) = Place::founded();
    let sound = place.run(&["check", "--json"]).succeeds();
    assert_eq!((&sound["sound"], &sound["wrong"]), (&json!(true), &json!(0)));
    assert!(sound["records"].as_u64().unwrap() >= 4, "{sound}");

    // Flips a bit in every copy of a user record.
    let file = place.file("roadstead.redb");
    let mut bytes = fs::read(&file).unwrap();
    let name = b"Ada Lovelace";
    let places: Vec<_> =
        (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] ^= 1;
    }
    fs::write(&file, &bytes).unwrap();
    let ended = place.run(&["check", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(found["sound"], false);
    let findings = found["findings"].to_string();
    assert!(findings.contains("the file is damaged; make a copy"), "{findings}");
    assert!(findings.contains("then restore a backup"), "{findings}");

    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let ended = place.run(&["check"]);
    assert!(matches!(ended.code, Some(1 | 2)), "{ended:?}");
    fs::write(&file, "").unwrap();
    assert!(matches!(place.run(&["check"]).code, Some(1 | 2)));
    // A lost database is not silently created again.
    assert_eq!(place.run(&["serve", "--listen", "127.0.0.1:0"]).code, Some(2));
}

#[test]
fn version_licenses_routes_and_document_are_printed_without_any_data() {
    let place = Place::new();
    let version = place.run(&["version", "--json"]).succeeds();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let text = place.run(&["version"]).stdout;
    assert!(text.contains(env!("CARGO_PKG_VERSION")));
    for part in ["commit", "features", "storage", "api"] {
        assert!(version.get(part).is_some(), "{version}");
    }
    assert_eq!(version["storage"]["dataDirectory"], 1);
    assert_eq!(version["api"]["version"], 1);

    let licenses = place.run(&["licenses", "--json"]).succeeds();
    assert_eq!(licenses["license"], "Apache-2.0");
    let text = place.run(&["licenses"]).stdout;
    assert_eq!(licenses["notices"], text.as_str());
    for one in licenses["contains"].as_array().unwrap() {
        assert!(text.contains(one["name"].as_str().unwrap()), "{one}");
    }

    let routes = place.run(&["routes", "--json"]).succeeds();
    let routes = routes["routes"].as_array().unwrap();
    let table = place.run(&["routes"]);
    assert_eq!(table.code, Some(0));
    for route in routes {
        let path = route["path"].as_str().unwrap();
        assert!(path.starts_with("/api/"), "{path}");
        assert!(table.stdout.contains(path.strip_prefix("/api").unwrap()), "{path}");
    }
    assert!(routes.len() > 80);

    let document = place.run(&["openapi", "--json"]).succeeds();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    let pretty: serde_json::Value = serde_json::from_str(&place.run(&["openapi"]).stdout).unwrap();
    assert_eq!(pretty, document);
    let routes = place.run(&["openapi", "--json", "--without-webhooks"]).succeeds();
    assert!(document["webhooks"].is_object() && routes.get("webhooks").is_none());
    assert_eq!(routes["paths"], document["paths"]);
    assert!(!place.data().exists());
}

#[test]
fn settings_of_mail_that_cannot_work_are_refused_without_the_password() {
    let place = Place::new();
    for (url, from, why) in [
        ("http://u:geheim@mail.test", "a@b.test", "--smtp-url must be smtps://"),
        ("smtp://u:geheim@mail.test?tls=none", "a@b.test", "--smtp-url must not send a password"),
        ("smtps://u:geheim@mail.test", "nobody", "--mail-from must be an e-mail address"),
    ] {
        let ended = place.run(&["serve", "--smtp-url", url, "--mail-from", from]);
        ended.fails(2, why);
        assert!(!ended.stderr.contains("geheim"), "{ended:?}");
    }
    place.run(&["serve", "--mail-from", "a@b.test"]).fails(2, "--smtp-url");
    assert!(!place.data().exists());
}
