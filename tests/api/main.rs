//! What a client sees: a real server, real sockets, requests and answers (contract, shapes).

#[path = "../client/mod.rs"]
mod client;
mod schema;
mod world;

mod conditions;
mod lists;
mod order;
mod records;
mod repeats;
mod routes;
mod wire;
