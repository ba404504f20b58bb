//! What the tables of a store and the settings of its database have to be, and who says so.

use crate::client::eventually;
use crate::open;
use crate::postgres_nodes::Node;
use crate::postgres_server::{PostgresServer, new_schema, shared};

#[test]
fn rows_are_vacuumed_often_unless_somebody_has_set_otherwise() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let options = || {
        let table = format!("'{schema}.kv'::regclass");
        server.sql(&format!("SELECT reloptions FROM pg_class WHERE oid = {table}"))
    };
    let vacuum = "autovacuum_vacuum_scale_factor";
    drop(open(server, &schema, None));
    assert!(options().contains(&format!("{vacuum}=0.005")), "{}", options());
    server.sql(&format!("ALTER TABLE {schema}.kv SET ({vacuum} = 0.1)"));
    drop(open(server, &schema, None));
    assert!(options().contains(&format!("{vacuum}=0.1")), "{}", options());
    // As of a store from before there were any.
    server.sql(&format!(
        "ALTER TABLE {schema}.kv RESET ({vacuum}, autovacuum_vacuum_threshold, \
         autovacuum_vacuum_cost_delay)"
    ));
    assert_eq!(options(), "");
    drop(open(server, &schema, None));
    assert!(options().contains(&format!("{vacuum}=0.005")), "{}", options());
}

#[test]
fn the_log_of_a_server_says_which_settings_of_its_database_are_too_small() {
    let Some(database) = PostgresServer::start(&["fsync=off", "max_connections=100"]) else {
        return;
    };
    let node = Node::start(&database.url());
    for setting in ["max_pred_locks_per_transaction is 64", "max_pred_locks_per_relation is -2"] {
        eventually(setting, || node.log().contains(setting).then_some(()));
    }
    node.stop();
}
