//! Operations with a password.

use schemars::JsonSchema;

use super::{CommonParams, Operation, Shape};
use crate::api::action::{Action, HashAction, Work};
use crate::api::output::{Answer, Output};
use crate::api::read::Input;
use crate::api::request::{Args, PathParams, Req, Who};
use crate::auth::User;
use crate::auth::passwords::HashResult;
use crate::base::{Id, Result};
use crate::store::{Tx, View};

type LookFn<P, I> = fn(&View, &Req<P, I>) -> Result<Work>;
/// Writes, knowing what came of the hashing; says whose doing it was.
pub type Settle<P, I, O> = fn(&mut Tx, &Req<P, I>, &HashResult) -> Result<(O, Id<User>)>;

/// Looks what is to be hashed, has it hashed outside of any transaction, and writes. For routes
/// about no organization.
pub fn hash<P: PathParams, I: Input + JsonSchema, O: Output>(
    look: fn(&View, &Req<P, I>) -> Result<Work>,
    settle: Settle<P, I, O>,
) -> Operation {
    let bind = move |args: Args<P, I>, _: &mut CommonParams| {
        Action::Hash(Box::new(Hash { args, look, settle }))
    };
    Operation::new::<P, I, O>(Shape::Change, bind).showing::<O>()
}

struct Hash<P, I, O> {
    args: Args<P, I>,
    look: LookFn<P, I>,
    settle: Settle<P, I, O>,
}

impl<P: PathParams, I: Input, O: Output> HashAction for Hash<P, I, O> {
    fn look(&self, view: &View, who: &Who) -> Result<Work> {
        (self.look)(view, &Req::new(&self.args, who))
    }

    fn settle(
        &mut self,
        tx: &mut Tx,
        who: &Who,
        hashed: &HashResult,
    ) -> Result<(Answer, Id<User>)> {
        let (out, user) = (self.settle)(tx, &Req::new(&self.args, who), hashed)?;
        Ok((Answer::written(&out)?, user))
    }
}
