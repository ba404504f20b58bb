//! `serve --ca-file` and `--allow-private-network`, by which a site without the internet runs its own
//! services (reference: command-line; agent-index, "Verification").

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Caller;
use crate::optional::{is_left_out, run, works};
use crate::process::{Place, Serving};
use crate::sites::{Sites, names, response};

/// The certificate of the site's own authority, in a file.
fn authority(sites: &Sites) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    fs::write(&file, sites.authority()).unwrap();
    (folder, file.to_str().unwrap().into())
}

/// The flags of each case, and what is said of a call without one of them.
fn cases<'a>(allow: &'a str, file: &'a str) -> [(Vec<&'a str>, &'static str); 4] {
    let (allow, file) = (["--allow-private-network", allow], ["--ca-file", file]);
    [
        (vec![], "--allow-private-network"),
        (file.to_vec(), "--allow-private-network"),
        (allow.to_vec(), "no TLS with"),
        ([file, allow].concat(), ""),
    ]
}

#[test]
fn a_private_service_with_a_certificate_of_the_site_is_called_with_both_flags() {
    let sites = Sites::new();
    let receiver = sites.receive("127.0.0.1", |_| response(204, "", ""));
    let (_folder, file) = authority(&sites);
    let (place, key) = Place::founded();
    let mut channel = None;
    for (flags, reason) in cases("127.0.0.1", &file) {
        let mut serving = Serving::start(&place, &flags);
        let caller = serving.caller(&key);
        let path = channel.get_or_insert_with(|| {
            let config = json!({"url": format!("https://{receiver}/")});
            let hook = json!({"name": "Hook", "workflow": "webhook", "config": config});
            format!(
                "/notifications/channels/{}/test",
                caller.post("/notifications/channels", hook).id()
            )
        });
        let tested = caller.post(path, json!({})).ok();
        assert_eq!(tested["ok"], reason.is_empty(), "{flags:?}: {tested}");
        assert!(tested["message"].as_str().unwrap().contains(reason), "{flags:?}: {tested}");
        serving.signal("TERM");
        serving.ends();
    }
    let missing = Place::new();
    missing.run(&["serve", "--ca-file", "no-such-file"]).fails(2, "no-such-file");
    missing.run(&["serve", "--allow-private-network", "10.0.0.0/64"]).fails(2, "10.0.0.0/64");
}

// ── Without a network ────────────────────────────────────────────────────────

const INSIDE: &str = "INSIDE_A_SITE";

/// The public key of the first test vector of BIP-340.
const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";

#[test]
fn a_site_without_a_network_verifies_its_own_domains() {
    // The network is the loopback interface, where ports below 1024 are free, and names are those of
    // a file.
    let namespace = ["--map-root-user", "--mount", "--net", "sh", "-c"];
    let up = "ip link set lo up && mount --bind";
    let tried = format!("{up} /etc/hosts /etc/hosts");
    let works = works("unshare", &[&namespace[..], &[&tried]].concat());
    let missing = (!works).then_some("no namespace can be made (unshare, ip)");
    if is_left_out("NAMESPACE", "a site without a network", missing) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost acme.test\n").unwrap();
    let script = format!("{up} \"$0\" /etc/hosts && exec \"$@\"");
    run(Command::new("unshare")
        .args(namespace)
        .arg(script)
        .args([hosts, std::env::current_exe().unwrap()])
        .args(["--exact", "outgoing::it_is_a_site_without_a_network", "--nocapture"])
        .env(INSIDE, "1"));
}

/// In the other process; as a test of the suite it has nothing to do.
#[test]
fn it_is_a_site_without_a_network() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let sites = Sites::new();
    let listener = TcpListener::bind("127.0.0.1:443").unwrap();
    sites.serve_at(listener, "acme.test", |name| names(name, KEY));
    let (_folder, file) = authority(&sites);
    let (place, key) = Place::founded();
    let mut claims = None;
    for (flags, reason) in cases("127.0.0.0/8", &file) {
        let mut serving = Serving::start(&place, &flags);
        let caller = serving.caller(&key);
        let [own, unknown] = claims.get_or_insert_with(|| claimed(&caller));
        let verified = caller.post(own, json!({})).ok();
        let result = &verified["results"][0];
        if reason.is_empty() {
            assert_eq!(
                (&verified["state"], &result["outcome"]),
                (&json!("verified"), &json!("match"))
            );
        } else {
            assert_eq!(
                (&verified["state"], &result["outcome"]),
                (&json!("failed"), &json!("unreachable"))
            );
            assert!(result["reason"].as_str().unwrap().contains(reason), "{flags:?}: {verified}");
        }
        let failed = caller.post(unknown, json!({})).ok();
        let why = failed["results"][0]["reason"].as_str().unwrap();
        assert!(why.contains("elsewhere.test cannot be resolved"), "{failed}");
        let found = caller.get("/agent-index/listings?q=scribe").items();
        assert_eq!(found.len(), 2, "everything else works");
        serving.signal("TERM");
        serving.ends();
    }
}

/// Claims a domain of the site and another, each with a listing; the paths of their verifications.
fn claimed(caller: &Caller) -> [String; 2] {
    caller.post("/agents", json!({"stableKey": "scribe", "name": "Scribe"})).ok();
    ["acme.test", "elsewhere.test"].map(|domain| {
        let listing: Value = json!({"stableKey": "scribe", "handle": format!("scribe@{domain}"),
            "pubkey": KEY, "displayName": "Scribe"});
        caller.post("/agent-index/listings", listing).ok();
        let claimed = caller.post("/organizations/domains", json!({ "domain": domain })).id();
        format!("/organizations/domains/{claimed}/verifications")
    })
}
