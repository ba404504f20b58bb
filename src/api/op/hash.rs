//! Operations with a password.

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{Action, HashAction, HashPlan};
use crate::api::calls::Outcome;
use crate::api::output::{EncodedOutput, Output};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Principal, Req};
use crate::auth::User;
use crate::auth::passwords::HashResult;
use crate::base::{Id, Result};
use crate::store::{Tx, View};

type PrepareFn<P, I> = fn(&View, &Req<P, I>) -> Result<HashPlan>;
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
    operation(prepare, Completion::Plain(complete))
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
    operation(prepare, Completion::Counting(complete))
}

fn operation<P, I, O, U>(prepare: PrepareFn<P, I>, complete: Completion<P, I, O, U>) -> Operation
where
    P: PathParams,
    I: Input + JsonSchema,
    O: Output,
    U: Into<Option<Id<User>>> + 'static,
{
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        let complete = match complete {
            Completion::Plain(complete) => Completion::Plain(complete),
            Completion::Counting(complete) => Completion::Counting(complete),
        };
        Action::Hash(Box::new(Hash { args, prepare, complete }))
    };
    Operation::new::<P, I, O>(Shape::Write, bind).showing::<O>()
}

/// What writes.
enum Completion<P, I, O, U> {
    Plain(Complete<P, I, O, U>),
    Counting(CompleteCounting<P, I, O, U>),
}

struct Hash<P, I, O, U> {
    args: Args<P, I>,
    prepare: PrepareFn<P, I>,
    complete: Completion<P, I, O, U>,
}

impl<P: PathParams, I: Input, O: Output, U> HashAction for Hash<P, I, O, U>
where
    U: Into<Option<Id<User>>> + 'static,
{
    fn prepare(&self, view: &View, who: &Principal) -> Result<HashPlan> {
        (self.prepare)(view, &Req::new(&self.args, who))
    }

    fn complete(
        &mut self,
        tx: &mut Tx,
        who: &Principal,
        hashed: &HashResult,
    ) -> Result<Outcome<(EncodedOutput, Option<Id<User>>)>> {
        let req = Req::new(&self.args, who);
        let outcome = match self.complete {
            Completion::Plain(complete) => Outcome::Done(complete(tx, &req, hashed)?),
            Completion::Counting(complete) => complete(tx, &req, hashed)?,
        };
        outcome.try_map(|(out, user)| Ok((EncodedOutput::written(&out)?, user.into())))
    }
}
