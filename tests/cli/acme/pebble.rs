//! Pebble, the authority for tests of Let's Encrypt, with its server of names.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use serde_json::json;

use crate::client::eventually;
use crate::optional::program;
use crate::process::{Place, Serving};
use crate::tls::{connect_to, usual};

/// A process that ends with its test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ports that are free now.
fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

#[test]
fn pebble_issues_a_certificate() {
    let what = "an authority of certificates";
    let Some(pebble) = program("pebble", what, "pebble") else { return };
    let Some(names) = program("pebble-challtestsrv", what, "pebble") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [own, acme, management, dns, control] = free_ports::<5>();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    };
    let root = file("own.pem", &certificate.pem());
    let config = json!({"pebble": {
        "listenAddress": format!("127.0.0.1:{acme}"),
        "managementListenAddress": format!("127.0.0.1:{management}"),
        "certificate": root,
        "privateKey": file("own.key", &key.serialize_pem()),
        "httpPort": 1,
        "tlsPort": own,
    }});
    let config = file("config.json", &config.to_string());
    let run = |program: &std::path::Path, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A few of the nonces are refused, as they are by default.
        Ending(command.env("PEBBLE_VA_NOSLEEP", "1").spawn().unwrap())
    };
    let (dns, control) = (format!("127.0.0.1:{dns}"), format!("127.0.0.1:{control}"));
    let other = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""];
    let at = ["-dns01", &*dns, "-management", &*control, "-defaultIPv4", "127.0.0.1"];
    let _names = run(&names, &[&other[..], &at].concat());
    let _pebble = run(&pebble, &["-config", &config, "-strict", "-dnsserver", &dns]);
    for port in [acme, management] {
        eventually("pebble", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    }

    let place = Place::new();
    let directory = format!("https://127.0.0.1:{acme}/dir");
    let listen = format!("127.0.0.1:{own}");
    let flags = ["serve", "--json", "--listen", &listen, "--tls", "acme", "--acme-agree-tos"];
    let more = ["--domain", "agents.test,www.agents.test", "--acme-contact", "ada@acme.test"];
    let whom = ["--acme-directory", &directory, "--ca-file", &root];
    let mut serving = Serving::of(place.command(&[&flags[..], &more, &whom].concat()));
    let file = place.file("tls-acme.pem");
    let pem = eventually("a certificate", || fs::read_to_string(&file).ok());
    // Pebble makes its own at each start: the last of the chain is trusted here.
    let chain: Vec<&str> = pem.split_inclusive("-----END CERTIFICATE-----").collect();
    let issuer = chain.iter().rfind(|part| part.contains("BEGIN CERTIFICATE")).unwrap();
    for name in ["agents.test", "www.agents.test"] {
        let name = ServerName::try_from(name).unwrap();
        let shown = || connect_to(serving.address, name.clone(), &usual(&[issuer])).ok();
        eventually("the certificate", shown);
    }
    serving.signal("TERM");
    let (code, _, log) = serving.ends();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("a new TLS certificate is served from now on"), "{log}");
}
