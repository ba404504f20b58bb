//! promtool finds nothing to say about `/metrics`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::client::{Connection, eventually};
use crate::optional::program;
use crate::server::Acme;

#[test]
fn promtool_has_nothing_to_say() {
    let Some(promtool) = program("promtool", "promtool", "prometheus") else { return };
    let acme = Acme::start(&[]);
    let team = acme.team("shipping", None);
    acme.assign(&team, "Be counted");
    acme.owner.get("/no/such/path");
    let text = eventually("the size of the database", || {
        let mut connection = Connection::open(acme.serving.address).unwrap();
        connection.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let text = connection.reply(false).unwrap().text();
        Some(text).filter(|text| text.contains("roadstead_database_free_pages"))
    });
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
