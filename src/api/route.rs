//! Routes: one value declares an endpoint with its method, path, policy and operation, whose
//! signature determines the types, the validation and the OpenAPI document.

use super::action::BoundRequest;
use super::op::{Operation, Shape};
use super::org_source::OrgSource;
use super::request::RawArgs;
use super::required_scope::{RequiredScope, ScopeReach, TargetFinder};
use crate::auth::{AuthPolicy, Role, ScopeName};
use crate::base::Result;

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates, or performs an action.
    Post,
    /// Creates or replaces a named resource.
    Put,
    /// Updates.
    Patch,
    Delete,
}

impl Method {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    /// Whether arguments are in the body. Otherwise they are in the query, and a body is ignored.
    pub fn has_body(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Patch)
    }
}

/// Whether a route asks a person in a session again who they are, if they proved it more than 15 minutes
/// ago ([`Identity::require_recent_proof`](crate::auth::Identity::require_recent_proof)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsksAgain {
    Never,
    Always,
    /// If the request does this, which the operation finds out: the end of "asks again … to …".
    To(&'static str),
}

/// An endpoint.
pub struct Route {
    pub method: Method,
    /// Its path below `/api`, in matchit's form.
    pub path: &'static str,
    /// Who may call it.
    pub policy: AuthPolicy,
    /// The scopes that an API key needs, all of them; none on routes that take no keys.
    pub required_scopes: Vec<RequiredScope>,
    /// Whether every API key may call it, whatever its scopes: it is about the key itself.
    pub needs_no_scope: bool,
    /// Whether it changes nothing but what is the caller's own: then viewers may call it, too.
    pub of_own_account: bool,
    /// Whether it asks a person again who they are.
    pub asks_again: AsksAgain,
    /// Noun and verb (`task.create`): its name in the audit log and in the document.
    pub name: &'static str,
    /// Its summary in one line.
    pub about: &'static str,
    /// How it finds its organization.
    pub org_source: OrgSource,
    /// Whether its answers are not stored for an `Idempotency-Key`: they are sessions.
    pub no_replay: bool,
    /// Whether what it writes leaves no audit entry: reports of machines, several a minute each.
    pub unaudited: bool,
    /// Whether it may be called before the server is set up. Its first success ends that state.
    pub open_before_setup: bool,
    /// Whether it takes much processor time however small its requests are: it runs in the turn of its
    /// organization, not on a thread that serves requests.
    pub costly: bool,
    /// A parameter of the query with which it is, too.
    pub costly_with: Option<&'static str>,
    /// Whether it reads the audit log: entries of what was answered before are appended first.
    pub reads_audit_log: bool,
    /// The read whose answer `If-Match` is compared with, where that is not the GET of its path.
    pub compared_with: Option<Operation>,
    pub operation: Operation,
}

impl Route {
    /// A route for `operation`. With a role in its `policy` it is about the organization that
    /// `orgSlug` names, otherwise about none.
    pub fn new(
        method: Method,
        path: &'static str,
        policy: AuthPolicy,
        name: &'static str,
        operation: Operation,
    ) -> Self {
        let org_source =
            if policy.role.is_some() { OrgSource::Organization } else { OrgSource::Installation };
        Route {
            method,
            path,
            policy,
            required_scopes: Vec::new(),
            needs_no_scope: false,
            of_own_account: false,
            asks_again: AsksAgain::Never,
            name,
            about: "",
            org_source,
            no_replay: false,
            unaudited: false,
            open_before_setup: false,
            costly: false,
            costly_with: None,
            reads_audit_log: false,
            compared_with: None,
            operation,
        }
    }

    /// A GET.
    pub fn get(
        path: &'static str,
        policy: AuthPolicy,
        name: &'static str,
        operation: Operation,
    ) -> Self {
        Self::new(Method::Get, path, policy, name, operation)
    }

    /// A POST.
    pub fn post(
        path: &'static str,
        policy: AuthPolicy,
        name: &'static str,
        operation: Operation,
    ) -> Self {
        Self::new(Method::Post, path, policy, name, operation)
    }

    /// A PUT.
    pub fn put(
        path: &'static str,
        policy: AuthPolicy,
        name: &'static str,
        operation: Operation,
    ) -> Self {
        Self::new(Method::Put, path, policy, name, operation)
    }

    /// A PATCH.
    pub fn patch(
        path: &'static str,
        policy: AuthPolicy,
        name: &'static str,
        operation: Operation,
    ) -> Self {
        Self::new(Method::Patch, path, policy, name, operation)
    }

    /// A DELETE.
    pub fn delete(
        path: &'static str,
        policy: AuthPolicy,
        name: &'static str,
        operation: Operation,
    ) -> Self {
        Self::new(Method::Delete, path, policy, name, operation)
    }

    /// Sets the summary: an imperative of at most eight words.
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Requires this scope of an API key, for everything of its kind.
    pub fn needs(self, name: ScopeName) -> Self {
        self.needs_reaching(name, ScopeReach::All)
    }

    /// Requires this scope of an API key, at least for the resource that the request names.
    pub fn needs_for(self, name: ScopeName, named: &'static TargetFinder) -> Self {
        self.needs_reaching(name, ScopeReach::One(named))
    }

    /// Requires this scope of an API key, at least for one resource; the operation lists only what
    /// the key has it for.
    pub fn needs_listed(self, name: ScopeName) -> Self {
        self.needs_reaching(name, ScopeReach::Listed)
    }

    /// Lets every API key call it, whatever its scopes.
    pub fn needs_no_scope(mut self) -> Self {
        self.needs_no_scope = true;
        self
    }

    /// Lets viewers call it although it changes something: nothing but what is the caller's own.
    pub fn of_own_account(mut self) -> Self {
        self.of_own_account = true;
        self
    }

    /// Asks a person again who they are, if they proved it more than 15 minutes ago.
    pub fn asks_again(mut self) -> Self {
        self.asks_again = AsksAgain::Always;
        self
    }

    /// Says that the operation does so of requests to do this.
    pub fn asks_again_to(mut self, what: &'static str) -> Self {
        self.asks_again = AsksAgain::To(what);
        self
    }

    fn needs_reaching(mut self, name: ScopeName, reach: ScopeReach) -> Self {
        self.required_scopes.push(RequiredScope { name, reach });
        self
    }

    /// The arguments by which its requests name resources that scopes can be narrowed to.
    pub fn target_arguments(&self) -> Vec<&'static str> {
        let finders = self.required_scopes.iter().filter_map(|required| match required.reach {
            ScopeReach::One(finder) => Some(finder),
            ScopeReach::All | ScopeReach::Listed => None,
        });
        finders.flat_map(|finder| finder.arguments).copied().collect()
    }

    /// Sets how it finds its organization, if not by `orgSlug`.
    pub fn org_source(mut self, source: OrgSource) -> Self {
        self.org_source = source;
        self
    }

    /// Stores no answers for an `Idempotency-Key`.
    pub fn no_replay(mut self) -> Self {
        self.no_replay = true;
        self
    }

    /// Leaves no audit entry of what it writes; a refusal still leaves one.
    pub fn unaudited(mut self) -> Self {
        self.unaudited = true;
        self
    }

    /// Allows calls before the server is set up; the first success ends that state.
    pub fn open_before_setup(mut self) -> Self {
        self.open_before_setup = true;
        self
    }

    /// Runs it in the turn of its organization, not on a thread that serves requests: it takes much
    /// processor time however small its requests are.
    pub fn costly(mut self) -> Self {
        self.costly = true;
        self
    }

    /// Does the same for requests with this parameter in the query.
    pub fn costly_with(mut self, parameter: &'static str) -> Self {
        self.costly_with = Some(parameter);
        self
    }

    /// Appends the entries of what was answered before to the audit log before it runs.
    pub fn reads_audit_log(mut self) -> Self {
        self.reads_audit_log = true;
        self
    }

    /// Evaluates `If-Match` on a POST: `current` takes the same arguments, and reads what a GET of the
    /// thing answers that the request is about.
    pub fn compared_with(mut self, current: Operation) -> Self {
        self.compared_with = Some(current);
        self
    }

    /// Whether its answers are pages of a list.
    pub fn is_list(&self) -> bool {
        self.operation.shape.is_list()
    }

    /// Whether its answers have an `ETag`: a GET of one thing.
    pub fn has_tag(&self) -> bool {
        self.method == Method::Get && matches!(self.operation.shape, Shape::One | Shape::Watch)
    }

    /// Whether it takes `wait`.
    pub fn waits(&self) -> bool {
        self.operation.shape.waits()
    }

    /// Whether it takes an `Idempotency-Key`.
    pub fn is_idempotent(&self) -> bool {
        self.method == Method::Post && !self.no_replay
    }

    /// Whether a client that goes away ends it: it waits, or asks others on and on.
    pub fn may_be_given_up(&self) -> bool {
        self.waits() || self.operation.shape.streams()
    }

    /// Whether it changes anything.
    pub fn changes(&self) -> bool {
        self.operation.shape == Shape::Write
    }

    /// Whether viewers may call it: it changes nothing, and takes no scope of a key that would, or it is
    /// about the caller's own account. A new route that writes is not for them.
    pub fn is_for_viewers(&self) -> bool {
        let only_reads = self.required_scopes.iter().all(|scope| scope.name.is_read());
        self.of_own_account || self.operation.shape.only_reads() && only_reads
    }

    /// Requires what it asks of the role of a member of the organization; what is about none asks nothing.
    ///
    /// # Errors
    /// 403 as [`AuthPolicy::require_role`].
    pub fn require_role(&self, role: Role) -> Result<()> {
        match self.policy.role {
            Some(_) => self.policy.require_role(role, self.is_for_viewers()),
            None => Ok(()),
        }
    }

    /// Whether it evaluates `If-Match`.
    pub fn is_conditional_write(&self) -> bool {
        matches!(self.method, Method::Patch | Method::Put | Method::Delete)
            || self.compared_with.is_some()
    }

    /// Binds a request's arguments to the operation.
    ///
    /// # Errors
    /// 400 with every problem found.
    pub fn bind(&self, raw: RawArgs) -> Result<BoundRequest> {
        self.operation.bind(self.method == Method::Patch, self.path, raw)
    }
}
