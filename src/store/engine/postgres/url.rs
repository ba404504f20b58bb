//! The address of a PostgreSQL store: `postgres://USER:PASSWORD@HOST[:PORT][,HOST…]/DATABASE`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::in_force::{InForce, Preferred, Target};
use super::tls::Tls;

/// How long connecting to one address may take: several are tried within the time of a request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the addresses of a name are looked up.
const LOOKUP_TIME: Duration = Duration::from_secs(2);

/// How long those of a name with a known address are: a heartbeat waits for a connection for two seconds, and
/// is to reach that address while no name is answered.
const KNOWN_LOOKUP_TIME: Duration = Duration::from_secs(1);

/// A connection whose peer is gone is noticed after this time: a statement that waits is given up
/// before that.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a PostgreSQL store, with how its connections are encrypted. It has no `Debug`: it
/// may hold a password.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(super) config: Config,
    /// `None`: connections are not encrypted.
    pub(super) tls: Option<Tls>,
    /// Whether the service is declared to replicate below the database, which no setting shows.
    pub(super) is_replicated_below: bool,
    /// What its connections are opened to.
    pub(super) in_force: InForce,
}

/// A host whose addresses are being looked up.
pub(super) struct Lookup {
    host: usize,
    config: Config,
    found: JoinHandle<Result<Vec<IpAddr>, String>>,
}

impl Lookup {
    /// Returns what to try of it, when its addresses are known: each alone. Each has a time of its own: one
    /// that never answers would use up that of the host.
    ///
    /// # Errors
    /// Why its name cannot be looked up. The driver could try by itself, but nobody would know which of the
    /// addresses a connection is at.
    pub(super) async fn targets(self) -> Result<Vec<(Target, Config)>, String> {
        let Lookup { host, config, found } = self;
        let found = found.await.unwrap_or_else(|error| Err(error.to_string()))?;
        if found.is_empty() {
            return Ok(vec![(Target { host, address: None }, config)]);
        }
        let each = found.into_iter().map(|address| {
            let mut config = config.clone();
            config.hostaddr(address);
            (Target { host, address: Some(address) }, config)
        });
        Ok(each.collect())
    }
}

/// What a URL has to look like.
const FORM: &str = "must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of \
                    the password percent-encoded";

impl PostgresUrl {
    /// Parses a URL. Of several hosts the one that accepts writes is used.
    ///
    /// `sslmode` is `disable`, `require` or `verify-full`; the last two both verify the
    /// certificate, against Mozilla's roots or the PEM file `sslrootcert`. Without it connections
    /// are encrypted, except to this machine. `replicated=storage` declares that the service replicates
    /// below the database.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err("must begin with postgres://".into());
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        // The driver would take what follows the first @ for a host, and name it in messages.
        if address.matches('@').count() > 1 {
            return Err(FORM.into());
        }
        let (mut mode, mut roots, mut is_replicated_below) = (None, None, false);
        let mut others = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => roots = Some(value.into_owned()),
                "replicated" if value == "storage" => is_replicated_below = true,
                "replicated" => return Err("replicated must be storage, or left out".into()),
                _ => others.push((name.into_owned(), value.into_owned())),
            }
        }
        let mut rest = form_urlencoded::Serializer::new(String::new());
        rest.extend_pairs(others);
        // The driver does not take `+` for a space.
        let rest = rest.finish().replace('+', "%20");
        let parsed = format!("{address}?{rest}").parse::<Config>();
        // Its message may repeat a part of the URL, and so the password.
        let mut config = parsed.map_err(|_| FORM.to_string())?;
        if config.get_hosts().is_empty() {
            return Err("names no host".into());
        }
        let tls = encryption(&config, mode.as_deref(), roots.as_deref())?;
        config
            .ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable })
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(PEER_TIMEOUT)
            .keepalives_idle(PEER_TIMEOUT)
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .application_name("roadstead");
        Ok(PostgresUrl { config, tls, is_replicated_below, in_force: InForce::default() })
    }

    /// Returns what is in force, after looking its name up: without a target if the name does not have its
    /// address, which then is not to be opened. It stays in force until another one is: an answer may be
    /// incomplete. While the name is not answered, the target is returned.
    pub(super) async fn preferred_now(&self) -> Preferred {
        let preferred = self.in_force.now();
        let Some(Target { host, address: Some(address) }) = preferred.target else {
            return preferred;
        };
        let Some(name) = self.config.get_hosts().get(host) else { return preferred };
        match addresses(self.only(host, name), KNOWN_LOOKUP_TIME).await {
            Ok(found) if !found.is_empty() && !found.contains(&address) => {
                Preferred { target: None, ..preferred }
            }
            _ => preferred,
        }
    }

    /// Returns how to reach a target. Nothing is looked up for it, which may take long.
    pub(super) fn config_of(&self, target: Target) -> Option<Config> {
        let mut config = self.only(target.host, self.config.get_hosts().get(target.host)?);
        // The one that the URL itself gives for the host is in it already.
        if let Some(address) = target.address {
            config.hostaddr(address);
        }
        Some(config)
    }

    /// Begins to look up all hosts at once. Take their targets in turn: one whose name is not answered
    /// holds up only those after it.
    pub(super) fn lookups(&self) -> Vec<Lookup> {
        let begin = |(host, config): (usize, Config)| {
            let found = tokio::spawn(addresses(config.clone(), LOOKUP_TIME));
            Lookup { host, config, found }
        };
        self.each().into_iter().map(begin).collect()
    }

    /// Returns all targets: each host at each address of its name. One whose name is not answered has none.
    pub(super) async fn targets(&self) -> Vec<(Target, Config)> {
        let mut targets = Vec::new();
        for lookup in self.lookups() {
            targets.extend(lookup.targets().await.unwrap_or_default());
        }
        targets
    }

    /// Returns the address of each host alone, with its number; first the one that is in force. Trying them
    /// one by one bounds the time that each may take: one whose processes are stopped, or that is cut off
    /// after a connection was begun, never answers.
    pub(super) fn each(&self) -> Vec<(usize, Config)> {
        let hosts = self.config.get_hosts();
        let last = self.in_force.now().target.map_or(0, |target| target.host);
        let first = last.min(hosts.len().saturating_sub(1));
        let numbers = (first..hosts.len()).chain(0..first);
        numbers.filter_map(|at| Some((at, self.only(at, hosts.get(at)?)))).collect()
    }

    fn only(&self, at: usize, host: &Host) -> Config {
        let all = &self.config;
        let mut config = self.without_hosts();
        match host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(path) => config.host_path(path),
        };
        if let Some(address) = all.get_hostaddrs().get(at) {
            config.hostaddr(*address);
        }
        if let Some(port) = all.get_ports().get(at).or(all.get_ports().first()) {
            config.port(*port);
        }
        config
            .tcp_user_timeout(PEER_TIMEOUT)
            .keepalives_idle(PEER_TIMEOUT)
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3);
        config
    }

    fn without_hosts(&self) -> Config {
        let (old, mut config) = (&self.config, Config::new());
        if let Some(user) = old.get_user() {
            config.user(user);
        }
        if let Some(password) = old.get_password() {
            config.password(password);
        }
        if let Some(name) = old.get_dbname() {
            config.dbname(name);
        }
        if let Some(options) = old.get_options() {
            config.options(options);
        }
        config
            .ssl_mode(old.get_ssl_mode())
            .channel_binding(old.get_channel_binding())
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(CONNECT_TIMEOUT)
            .application_name("roadstead");
        config
    }

    /// Returns hosts, ports and database, without user and password.
    pub fn shown(&self) -> String {
        let places = self.places().into_iter().map(|(host, port)| format!("{host}:{port}"));
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("postgres://{}/{database}", places.collect::<Vec<_>>().join(","))
    }

    /// The hosts with their ports.
    pub(crate) fn places(&self) -> Vec<(String, u16)> {
        let ports = self.config.get_ports();
        let port = |at: usize| *ports.get(at).or(ports.first()).unwrap_or(&5432);
        let hosts = self.config.get_hosts().iter().enumerate();
        hosts.map(|(at, host)| (name_of(host), port(at))).collect()
    }

    /// Returns the same address with each host reached at a port of this machine.
    pub(crate) fn via(&self, ports: &[u16]) -> Self {
        let mut config = self.without_hosts();
        for ((host, _), port) in self.places().iter().zip(ports) {
            config.host(host).hostaddr(IpAddr::V4(Ipv4Addr::LOCALHOST)).port(*port);
        }
        PostgresUrl { config, in_force: InForce::default(), ..self.clone() }
    }
}

/// The addresses of the only host of `config`, if it is a name without one; else there are none.
async fn addresses(config: Config, time: Duration) -> Result<Vec<IpAddr>, String> {
    let Some(name) = name_to_look_up(&config) else { return Ok(Vec::new()) };
    let failed = |why: &str| Err(format!("the name {name} cannot be looked up: {why}"));
    let found = match tokio::time::timeout(time, tokio::net::lookup_host((name, 0))).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return failed(&error.to_string()),
        Err(_) => return failed("no answer in time"),
    };
    let mut addresses = Vec::new();
    for address in found.map(|found| found.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { failed("it has no address") } else { Ok(addresses) }
}

/// The name of the only host of `config`, unless its address is known.
fn name_to_look_up(config: &Config) -> Option<&str> {
    match config.get_hosts().first() {
        Some(Host::Tcp(name))
            if name.parse::<IpAddr>().is_err() && config.get_hostaddrs().is_empty() =>
        {
            Some(name)
        }
        _ => None,
    }
}

fn name_of(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

fn is_on_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let name = name.trim_start_matches('[').trim_end_matches(']');
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

fn encryption(
    config: &Config,
    mode: Option<&str>,
    roots: Option<&str>,
) -> Result<Option<Tls>, String> {
    match mode {
        None if config.get_hosts().iter().all(is_on_this_machine) => Ok(None),
        Some("disable") => Ok(None),
        None | Some("require" | "verify-full") => Tls::new(roots.map(Path::new)).map(Some),
        Some(_) => Err("sslmode must be disable, require or verify-full".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        PostgresUrl::parse(text).err().expect("it should be refused")
    }

    #[test]
    fn hosts_elsewhere_are_reached_encrypted_unless_the_url_says_otherwise() {
        for (url, is_encrypted) in [
            ("postgres://a:b@127.0.0.1/c", false),
            ("postgres://a@localhost:1,127.0.0.1:2/c", false),
            ("postgres://a@%2Fvar%2Frun/c", false),
            ("postgres://a@localhost/c?sslmode=require", true),
            ("postgresql://a@db.example/c", true),
            ("postgres://a@localhost,db.example/c", true),
            ("postgres://a@db.example/c?sslmode=verify-full", true),
            ("postgres://a@db.example/c?sslmode=disable", false),
        ] {
            let parsed = PostgresUrl::parse(url).unwrap();
            assert_eq!(parsed.tls.is_some(), is_encrypted, "{url}");
            assert_eq!(parsed.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
    }

    #[test]
    fn a_refused_url_is_not_repeated_and_the_password_is_never_shown() {
        for url in [
            "mysql://a:hunter2@h/c",
            "postgres://a:hunter2@h:port/c",
            "postgres://a:hunter2@h/c?sslmode=prefer",
            "postgres://a:hunter2@h/c?hunter2=1",
            "postgres://a:hunter2@h/c?sslmode=require&sslrootcert=/nowhere",
            "postgres:///c?password=hunter2",
        ] {
            assert!(!refusal(url).contains("hunter2"), "{url}");
        }
        let url = PostgresUrl::parse("postgres://a:hunter2@h,i:6000/c").unwrap();
        assert!(!url.shown().contains("hunter2"), "{}", url.shown());
    }

    #[test]
    fn no_part_of_a_password_is_taken_for_a_host() {
        for url in
            ["postgres://a:p@ss@localhost/c", "postgres://a:@@localhost", "postgres://a:p/a@ss@c/d"]
        {
            assert!(PostgresUrl::parse(url).err().unwrap().contains("percent-encoded"));
        }
        assert!(PostgresUrl::parse("postgres://a:p%40ss@localhost/c").is_ok());
    }

    #[test]
    fn hosts_are_tried_one_by_one_from_the_last_right_one_on() {
        let url = PostgresUrl::parse("postgres://a:b@one:1,two:2,three:3/c").unwrap();
        let order = || -> Vec<_> {
            let each = url.each().into_iter();
            each.map(|(_, config)| {
                assert_eq!(config.get_hosts().len(), 1);
                assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
                (name_of(&config.get_hosts()[0]), config.get_ports()[0])
            })
            .collect()
        };
        let [one, two, three] =
            [("one", 1u16), ("two", 2), ("three", 3)].map(|(name, port)| (name.to_string(), port));
        assert_eq!(order(), [one.clone(), two.clone(), three.clone()]);
        assert!(url.clone().in_force.prefer(Target { host: 1, address: None }, 0).is_some());
        assert_eq!(order(), [two, three, one]);
    }

    #[tokio::test]
    async fn all_addresses_of_a_name_are_tried_first_the_last_right_one() {
        let url = PostgresUrl::parse("postgres://a:b@localhost:1,192.0.2.7:2/c").unwrap();
        let targets = url.targets().await;
        let own = |(target, config): &(Target, Config)| {
            let addresses = config.get_hostaddrs();
            assert_eq!(target.address, addresses.first().copied());
            assert_eq!((config.get_hosts().len(), config.get_ports().len()), (1, 1));
            target.host == 0 && addresses.iter().all(IpAddr::is_loopback)
        };
        let (last, named) = targets.split_last().unwrap();
        assert!(!named.is_empty() && named.iter().all(own), "{named:?}");
        assert_eq!((last.0, last.1.get_ports()), (Target { host: 1, address: None }, &[2][..]));
        assert!(url.in_force.prefer(last.0, 0).is_some());
        assert_eq!(url.targets().await[0].0, last.0);
        for (target, config) in targets {
            let found = url.config_of(target).unwrap();
            let place = |config: &Config| {
                (
                    config.get_hostaddrs().to_vec(),
                    config.get_ports().to_vec(),
                    config.get_hosts().to_vec(),
                )
            };
            assert_eq!(place(&found), place(&config), "{target:?} without looking it up");
        }
    }

    #[tokio::test]
    async fn an_address_that_its_name_does_not_have_is_not_opened_and_stays_in_force() {
        let url = PostgresUrl::parse("postgres://a:b@localhost:1,nowhere.invalid:2/c").unwrap();
        let at = |host, address: [u8; 4]| Target { host, address: Some(address.into()) };
        for kept in [at(0, [127, 0, 0, 1]), at(1, [192, 0, 2, 7])] {
            assert!(url.in_force.prefer(kept, url.in_force.now().epoch).is_some());
            assert_eq!(url.preferred_now().await.target, Some(kept));
        }
        let gone = at(0, [192, 0, 2, 7]);
        let open = url.in_force.prefer(gone, url.in_force.now().epoch).unwrap();
        let seen = url.preferred_now().await;
        assert_eq!(seen.target, None);
        assert_eq!(url.in_force.now().target, Some(gone));
        // The next answer has it again.
        assert!(url.in_force.prefer(gone, seen.epoch).is_some());
        assert!(open.is_in_force());
        assert!(url.in_force.prefer(at(0, [127, 0, 0, 1]), seen.epoch).is_some());
        assert!(!open.is_in_force());
    }

    #[tokio::test]
    async fn a_name_that_is_not_answered_holds_up_only_those_after_it() {
        let url = PostgresUrl::parse("postgres://a:b@192.0.2.7:1,localhost:2/c").unwrap();
        let [first, mut stalled] = <[Lookup; 2]>::try_from(url.lookups()).ok().unwrap();
        stalled.found = tokio::spawn(std::future::pending());
        assert_eq!(first.targets().await.unwrap()[0].0, Target { host: 0, address: None });
        drop(stalled);
        assert!(url.in_force.prefer(Target { host: 1, address: None }, 0).is_some());
        assert_eq!(url.lookups()[0].host, 1, "the host that was the right one last is the first");
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_looked_up_is_no_target_and_says_so() {
        let url = PostgresUrl::parse("postgres://a:b@nowhere.invalid:1,127.0.0.1:2/c").unwrap();
        let [nowhere, here] = <[Lookup; 2]>::try_from(url.lookups()).ok().unwrap();
        let why = nowhere.targets().await.unwrap_err();
        assert!(why.starts_with("the name nowhere.invalid cannot be looked up: "), "{why}");
        assert_eq!(here.targets().await.unwrap().len(), 1);
        let all: Vec<_> = url.targets().await.into_iter().map(|(target, _)| target).collect();
        assert_eq!(all, [Target { host: 1, address: None }]);
    }

    #[test]
    fn replication_below_the_database_is_declared_in_the_url() {
        let parse = |query: &str| PostgresUrl::parse(&format!("postgres://a:b@localhost/c{query}"));
        assert!(!parse("").unwrap().is_replicated_below);
        let declared = parse("?replicated=storage&sslmode=disable").unwrap();
        assert!(declared.is_replicated_below && declared.via(&[7]).is_replicated_below);
        assert!(parse("?replicated=yes").err().unwrap().contains("must be storage"));
    }

    #[test]
    fn a_store_is_reached_through_other_ports_with_its_own_names() {
        let url = PostgresUrl::parse("postgres://a:b@one.example:1,two.example:2/c").unwrap();
        let via = url.via(&[7, 8]);
        assert_eq!(via.places(), [("one.example".into(), 7), ("two.example".into(), 8)]);
        assert_eq!(via.config.get_hostaddrs().len(), 2);
        assert_eq!(via.config.get_password(), Some(&b"b"[..]));
        assert!(via.tls.is_some());
    }
}
