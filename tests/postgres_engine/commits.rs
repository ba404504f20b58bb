//! The writes of a transaction and its commit, which are sent together.

use roadstead::base::{Error, Result};
use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::{Engine as _, WriteBatch, WriteOp, is_outcome_unknown};

use super::{commit, get, put};
use crate::client::eventually;
use crate::open;
use crate::postgres_server::{PostgresServer, new_schema, shared};

#[test]
fn a_write_that_fails_is_told_by_its_own_error_and_nothing_of_its_transaction_is_stored() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    // Too long for an index, however it is compressed.
    let key: Vec<u8> = (0..9_000_u64)
        .flat_map(|n| n.wrapping_mul(n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes())
        .collect();
    // The answers to those after it may come in the same moment.
    for nth in 0..100_u8 {
        let key = key.clone();
        let end = commit(&engine, move |_| {
            let mut writes = WriteBatch::default();
            writes.add(TABLE, key.clone(), WriteOp::Put(Vec::new()));
            writes.add(TABLE, vec![b'i', nth], WriteOp::Insert(Vec::new()));
            writes.add(TABLE, vec![b'd', nth], WriteOp::Delete);
            Ok(writes)
        });
        let error = end.as_ref().map_err(Error::to_string).unwrap_err();
        assert!(error.contains("index row"), "{nth}: {error}");
        assert_eq!(get(&*engine.snapshot(), &[b'i', nth]), None);
    }
    commit(&engine, |_| Ok(put(&[("after", b"")]))).unwrap();
    assert_eq!(get(&*engine.snapshot(), b"after"), Some(Vec::new()));
}

#[test]
fn a_warning_that_comes_with_a_write_leaves_no_doubt_about_its_commit() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let engine = open(server, &schema, None);
    // As of a database whose transaction ids run out, which warns at the first write of each transaction.
    server.sql(&format!(
        "CREATE FUNCTION {schema}.warn() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE WARNING 'must be vacuumed'; RETURN NULL; END $$; \
         CREATE TRIGGER warns AFTER INSERT ON {schema}.kv \
         FOR EACH STATEMENT EXECUTE FUNCTION {schema}.warn()"
    ));
    let slots = || server.sql(&format!("SELECT count(*) FROM {schema}.kv_slot"));
    for nth in 0..100_u8 {
        commit(&engine, move |_| Ok(put(&[("row", &[nth])]))).unwrap();
        assert_eq!(get(&*engine.snapshot(), b"row"), Some(vec![nth]));
        assert_eq!(slots(), "1", "the same connection goes on");
    }
}

#[test]
fn a_commit_whose_wait_for_a_standby_was_cancelled_is_not_acknowledged() {
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let engine = open(&server, &new_schema(), None);
    commit(&engine, |_| Ok(put(&[("row", b"before")]))).unwrap();
    let standby = |name: &str| {
        server.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        server.sql("SELECT pg_reload_conf()");
    };
    standby("nobody");
    std::thread::scope(|scope| {
        // The setting may come into force a moment later.
        let committing = scope.spawn(|| -> Result<()> {
            loop {
                commit(&engine, |_| Ok(put(&[("row", b"after")])))?;
            }
        });
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
                      WHERE wait_event = 'SyncRep'";
        eventually("cancelled", || (server.sql(cancel) == "1").then_some(()));
        let end = committing.join().unwrap();
        assert!(end.as_ref().is_err_and(is_outcome_unknown), "{end:?}");
    });
    assert_eq!(get(&*engine.snapshot(), b"row"), Some(b"after".to_vec()));
    standby("");
    commit(&engine, |_| Ok(put(&[("row", b"last")]))).unwrap();
}
