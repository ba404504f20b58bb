//! Operations with a password.

use std::sync::Arc;

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{Action, HashAction, HashPlan};
use crate::api::calls::Outcome;
use crate::api::output::{EncodedOutput, Output};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Req};
use crate::auth::User;
use crate::auth::passwords::HashResult;
use crate::base::{Id, Result};
use crate::store::{Tx, View};

/// Writes, given the result of the hashing; returns the user who acted, `U`: always one, or perhaps.
pub type Complete<P, I, O, U> = fn(&mut Tx, &Req<P, I>, &HashResult) -> Result<(O, U)>;

/// The same for an operation whose refusals may be recorded ([`Outcome::Refused`]).
type CompleteCounting<P, I, O, U> = fn(&mut Tx, &Req<P, I>, &HashResult) -> Result<Outcome<(O, U)>>;

/// Prepares the hashing in a snapshot, hashes outside of any transaction, then writes. For routes
/// without an organization.
pub fn hash<
    P: PathParams,
    I: Input + JsonSchema,
    O: Output,
    U: Into<Option<Id<User>>> + 'static,
>(
    prepare: fn(&View, &Req<P, I>) -> Result<HashPlan>,
    complete: Complete<P, I, O, U>,
) -> Operation {
    operation(prepare, move |tx, req, hashed| Ok(Outcome::Done(complete(tx, req, hashed)?)))
}

/// As [`hash`], for an operation that records some of its refusals.
pub fn hash_counting<
    P: PathParams,
    I: Input + JsonSchema,
    O: Output,
    U: Into<Option<Id<User>>> + 'static,
>(
    prepare: fn(&View, &Req<P, I>) -> Result<HashPlan>,
    complete: CompleteCounting<P, I, O, U>,
) -> Operation {
    operation(prepare, complete)
}

fn operation<P, I, O, U>(
    prepare: fn(&View, &Req<P, I>) -> Result<HashPlan>,
    complete: impl Fn(&mut Tx, &Req<P, I>, &HashResult) -> Result<Outcome<(O, U)>>
    + Copy
    + Send
    + Sync
    + 'static,
) -> Operation
where
    P: PathParams,
    I: Input + JsonSchema,
    O: Output,
    U: Into<Option<Id<User>>> + 'static,
{
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let args = Arc::new(args);
        let of_prepare = args.clone();
        Action::Hash(HashAction {
            prepare: Box::new(move |view, who| prepare(view, &Req::new(&of_prepare, who))),
            complete: Box::new(move |tx, who, hashed| {
                let outcome = complete(tx, &Req::new(&args, who), hashed)?;
                outcome.try_map(|(out, user)| Ok((EncodedOutput::written(&out)?, user.into())))
            }),
        })
    };
    Operation::new::<P, I, O>(Shape::Write, bind).showing::<O>()
}
