//! Looking for another database server than the one that hangs: an old primary that can still be reached,
//! and whose commits wait for the standby that was promoted.

use std::time::{Duration, Instant};

use super::connection::{Commit, Connection};
use super::failure::Failure;
use super::membership::Member;
use super::shared::Shared;
use super::sql::BEGIN_WRITE;
use super::waiting::wait;

/// How long the addresses are looked up, and a heartbeat may take to be committed.
const TIME: Duration = Duration::from_secs(3);

/// What was found elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// A server that stored a heartbeat: it is in force.
    Chosen,
    /// One without the row of this process, and none that has it. That says nothing: the others have removed
    /// this process there, or it has a store that was restored or founded anew.
    Unknown,
    Nothing,
}

impl Shared {
    /// Has this process use another database server than that of `epoch`, which hangs, or was chosen and is
    /// away, if there is one that stores a heartbeat of its member, and none has come into force meanwhile.
    /// Blocks.
    ///
    /// That server accepts writes and finishes commits, which another address of the one that hangs does not.
    /// And it goes on with the same store: no other has the row of this process, whose token is random. What
    /// was not acknowledged by the old one is resolved at the new one, by its slots there, as after any
    /// failover.
    pub fn look_elsewhere(&self, own: &Member, epoch: u64) -> Elsewhere {
        let connector = &self.pool.connector;
        let in_force = &connector.url.in_force;
        let current = in_force.now();
        if current.epoch != epoch {
            return Elsewhere::Nothing;
        }
        let url = connector.url.clone();
        let looked_up = connector.runtime.spawn(async move { url.targets().await });
        let Some(Ok(targets)) = wait(looked_up, Instant::now() + TIME) else {
            return Elsewhere::Nothing;
        };
        let mut found = Elsewhere::Nothing;
        for (target, config) in targets {
            if Some(target) == current.target {
                continue;
            }
            match connector.connect_to(config).and_then(|there| stores_heartbeat(&there, own)) {
                Ok(true) => {
                    if !in_force.choose(target, epoch) {
                        return Elsewhere::Nothing;
                    }
                    self.pool.clear();
                    tracing::warn!(
                        "the database server is away or does not finish what it is asked, and another \
                         one of the store does: that one is used from now on"
                    );
                    return Elsewhere::Chosen;
                }
                Ok(false) => found = Elsewhere::Unknown,
                Err(_) => {}
            }
        }
        found
    }
}

/// Stores a heartbeat at a server; returns false if it does not have the row of this process.
fn stores_heartbeat(there: &Connection, own: &Member) -> Result<bool, Failure> {
    there.execute(BEGIN_WRITE)?;
    if !own.renew(there)? {
        return Ok(false);
    }
    match there.commit(Instant::now() + TIME) {
        Commit::Done => Ok(true),
        Commit::Failed(failure) => Err(failure),
        Commit::Doubtful | Commit::Unanswered => Err(Failure::Blocked),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::super::connection::Connector;
    use super::super::in_force::Target;
    use super::super::membership::Node;
    use super::super::shared::start_runtime;
    use super::super::url::PostgresUrl;
    use super::*;

    #[test]
    fn no_other_server_is_asked_once_one_has_come_into_force_by_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, asked) = channel();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let _ = sender.send(());
                drop(connection);
            }
        });
        let url = format!("postgres://a@127.0.0.1:1,127.0.0.1:2,127.0.0.1:{port}/c");
        let url = PostgresUrl::parse(&url).unwrap();
        let runtime = start_runtime().unwrap();
        let connector = Connector::new(url, None, runtime.handle().clone());
        let shared = Shared::new(connector, Arc::default(), None);
        let own = Node::new("1.0", "a").member;
        let in_force = &shared.pool.connector.url.in_force;
        let at = |host| Target { host, address: None };
        in_force.prefer(at(0), 0).unwrap();
        let begun = shared.pool.in_force().epoch;
        let next = in_force.prefer(at(1), begun).unwrap();
        assert!(shared.look_elsewhere(&own, begun) == Elsewhere::Nothing);
        assert!(asked.try_recv().is_err());
        let now = shared.pool.in_force().epoch;
        assert!(shared.look_elsewhere(&own, now) == Elsewhere::Nothing);
        asked.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(next.is_in_force());
    }
}
