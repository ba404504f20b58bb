//! The API: routes, typed requests, pages, the OpenAPI document made from them, and their execution
//! for a caller.

mod action;
mod batch;
mod calls;
mod exchange;
pub mod execute;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod common_params;
pub mod audit;
pub mod idempotency;
pub mod op;
pub mod openapi;
mod org_source;
mod output;
mod public_document;
pub mod read;
pub mod used_events;
mod request;
mod required_scope;
mod resource;
mod route;
mod system;
mod webhook;

/// The version of the API. It rises when something goes on which clients may rely (reference:
/// compatibility, "The API").
pub const API_VERSION: u32 = 1;

pub use action::{
    Action, Attempt, BoundComplete, BoundDownload, BoundFollow, BoundPart, BoundRead, BoundRequest,
    BoundTake, BoundWrite, CallTime, ContentVersion, FollowAction, FollowFrom, FollowPoint,
    Followed, HashAction, HashPlan, Offset, Piece, Readiness, TakenItem, TakenPage, WaitAction,
    WatchAction,
};
pub use batch::{Batch, BatchEnd};
pub use calls::{Calls, KnownResults, Outcome, PendingCalls, Position, Search, Work, WorkResult};
pub use common_params::OrgRequired;
pub use exchange::{AnyExchange, Exchange, Heard, Prepared, PreparedBatch, StreamAction};
pub use org_source::{OrgHint, OrgResolver, OrgSlugMode, OrgSource, OutsideAccess, ResolvedOrg};
pub use output::{Deleted, Empty, EncodedOutput, Output, PeerRef, ResourceRef};
pub use public_document::{PublicDocument, PublicRequest, public_url_required};
pub use read::{Input, count_values, order_issue};
pub use request::{
    Args, Origin, PathParam, PathParams, Principal, RawArgs, Req, ServerInfo, Uploaded, path_names,
};
pub use required_scope::{RequiredScope, RouteRule, ScopeReach, TargetFinder, require_scopes};
pub use resource::{Check, Metric, OldestRow, Resource};
pub use route::{AsksAgain, Method, Route};
pub use system::{
    OrganizationCreators, SAMPLE_SECS, SystemAcme, SystemBackup, SystemHistory, SystemMonitor,
    SystemNode, SystemRetention, SystemSample, SystemStatus, SystemStorage, SystemTls,
};
pub use webhook::Webhook;
