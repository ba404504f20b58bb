//! The environment of the deployment that a request names, for keys whose scopes are narrowed to
//! some.

use super::job::DeploymentJob;
use super::live::Deployment;
use crate::api::TargetFinder;
use crate::auth::{Restricted, ScopeTarget};
use crate::base::{Id, Result};
use crate::resources::environments::{self, Environment};
use crate::store::View;

/// The environment of the job in the first parameter of the path.
pub static JOB_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| {
        let id = hint.params.first().map_or(Id::NIL, |param| Id::parse(param));
        let job = view.get::<DeploymentJob>(&id)?;
        job.map_or(Ok(None), |job| environment(view, job.environment))
    },
};

/// The environment of the deployment in the second parameter of the path.
pub static DEPLOYMENT_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| {
        let id = hint.params.get(1).map_or(Id::NIL, |param| Id::parse(param));
        let deployment = view.get::<Deployment>(&id)?;
        deployment.map_or(Ok(None), |deployment| environment(view, deployment.environment))
    },
};

fn environment(view: &View, id: Id<Environment>) -> Result<Option<ScopeTarget>> {
    let found = view.get::<Restricted<Environment>>(&id)?;
    Ok(found.map(|found| environments::scope_target(found.without_caller())))
}
