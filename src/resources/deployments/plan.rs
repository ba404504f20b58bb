//! Planning: from the prompt, the agents and the tools in a request to the texts and configurations
//! that are deployed. A plan is frozen when its job is created: later changes of drafts, versions,
//! tools and variables do not affect it.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::access;
use super::contents::{ContentHash, Contents, DeployedTool, too_large};
use super::job::{JobKind, PlannedTool};
use super::target::{PlannedTarget, Subject, TargetAgent};
use crate::api::Input;
use crate::auth::{Caller, Restricted};
use crate::base::{
    BoundedList, Error, Id, Int, Issue, JsonMap, Result, Selector, StringMap, VariableName, Version,
};
use crate::resources::agents::{
    self, Agent, AgentConfig, MAX_TOOL_REFS, Model, Provider, RegistryRef, ToolRef, Variables,
    VariablesSchema,
};
use crate::resources::artifacts::{self, ArtifactId, VersionRecord};
use crate::resources::environments::{self, Environment};
use crate::resources::registries::{self, Registry};
use crate::resources::tools::{self, Tool};
use crate::store::View;
use crate::templates;

/// A job has at most 100 targets: its answer contains them all.
pub const MAX_TARGETS: usize = 100;

/// The texts and configurations of all targets have at most 8 MiB: the answer contains them for each
/// target, also where targets share them.
const MAX_PLAN_BYTES: u64 = 8 * 1024 * 1024;

/// The plan of a job lists at most 1,000 different tools, all in one record.
const MAX_TOOLS: usize = 1000;

/// At most 100 variables without a value are reported.
const MAX_MISSING: usize = 100;

// ── What callers send ────────────────────────────────────────────────────────

/// A prompt to deploy to agents.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"agentIds": ["scribe"], "promptName": "release-notes", "version": "^1",
        "environment": "production", "provider": "openai", "registryRef": "acme/main",
        "model": "gpt-4o", "agentVariables": {"TONE": "calm"}}],
    "if" = {"required": ["agentVersion"], "properties": {"agentVersion": {"type": "integer"}}},
    "then" = {"properties": {"promptName": {"type": "null"}, "version": {"type": "null"},
        "model": {"type": "null"}}},
    "else" = {"required": ["promptName", "version", "provider"], "properties":
        {"promptName": {"type": "string"}, "version": {"type": "string"},
        "provider": {"type": "string"}}},
))]
pub struct NewDeployment {
    /// The agents, by id or stable key; each once.
    agent_ids: BoundedList<String, 1, MAX_TARGETS>,
    /// The name of the prompt; required without `agentVersion`.
    prompt_name: Option<String>,
    /// A version, a range or a label; required without `agentVersion`.
    version: Option<String>,
    /// A version of the agent, whose configuration takes the place of the draft and names prompt,
    /// version and model.
    agent_version: Option<Int<1, { u32::MAX as i64 }>>,
    /// The environment, by id or slug.
    environment: String,
    /// The provider of the model; required without `agentVersion`, which may name one.
    provider: Option<Provider>,
    /// The registry of the prompt; by default that of each agent's draft.
    registry_ref: Option<String>,
    /// The model; by default that of each agent's draft.
    model: Option<Model>,
    /// The tools; by default those of each agent's draft.
    tool_refs: Option<BoundedList<ToolRef, 0, MAX_TOOL_REFS>>,
    /// Values of variables, by name. They take precedence over those of the draft, and these over
    /// those of the environment.
    #[schemars(with = "Option<VariablesSchema>")]
    agent_variables: Option<Variables>,
    /// Settings for the provider; by default those of each agent's draft.
    agent_provider_config: Option<JsonMap>,
    /// The hash of the plan that was previewed. If the plan is another one now, nothing is deployed.
    pub plan_hash: Option<String>,
}

impl Input for NewDeployment {
    fn check(&self, issues: &mut Vec<Issue>) {
        let given = [
            ("promptName", self.prompt_name.is_some()),
            ("version", self.version.is_some()),
            ("model", self.model.is_some()),
            ("provider", self.provider.is_some()),
        ];
        for (path, is_given) in given {
            if self.agent_version.is_some() && is_given && path != "provider" {
                issues.push(Issue::new(path, "must not be sent together with agentVersion"));
            } else if self.agent_version.is_none() && !is_given && path != "model" {
                issues.push(Issue::new(path, "is required"));
            }
        }
    }
}

/// Versions of tools to use in an environment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"toolIds": ["01890a5d-ac96-774b-bcce-b302099a8057"],
        "environment": "production", "version": "1.2.0"}],
    "if" = {"required": ["version"], "properties": {"version": {"type": "string"}}},
    "then" = {"properties": {"toolIds": {"maxItems": 1}}},
))]
pub struct NewToolDeployment {
    /// The tools; each once.
    tool_ids: BoundedList<Id<Tool>, 1, MAX_TARGETS>,
    /// The environment, by id or slug.
    environment: String,
    /// The version, of a single tool; by default the newest of each.
    version: Option<Version>,
}

impl Input for NewToolDeployment {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.version.is_some() && self.tool_ids.len() > 1 {
            issues.push(Issue::new("version", "must be sent with a single tool only"));
        }
    }
}

// ── Plans ────────────────────────────────────────────────────────────────────

/// A planned job.
pub struct Plan {
    /// Where to.
    pub environment: Environment,
    /// The provider, of a deployment of agents.
    pub provider: Option<Provider>,
    pub targets: Vec<PlannedTarget>,
    /// The tools of all targets.
    pub tools: Vec<PlannedTool>,
    pub contents: Contents,
    /// Whether all targets are applied in one transaction, unless they are posted.
    pub at_once: bool,
}

impl Plan {
    /// A plan without targets.
    pub fn new(environment: Environment, provider: Option<Provider>) -> Self {
        let (targets, tools, contents) = (Vec::new(), Vec::new(), Contents::default());
        Plan { environment, provider, targets, tools, contents, at_once: false }
    }

    /// What it deploys: its targets are all of one kind.
    pub fn kind(&self) -> JobKind {
        match self.targets.first().map(PlannedTarget::subject) {
            Some(Subject::Tool(_)) => JobKind::Tools,
            Some(Subject::Agent(_)) | None => JobKind::Agents,
        }
    }

    /// Adds a target.
    ///
    /// # Errors
    /// 413 if the plan becomes too large.
    pub fn add_target(&mut self, target: PlannedTarget) -> Result<()> {
        self.targets.push(target);
        let bytes: u64 = self.targets.iter().map(|target| target.bytes).sum();
        if bytes > MAX_PLAN_BYTES { Err(too_large()) } else { Ok(()) }
    }

    /// Adds a tool, unless it is in the plan already.
    ///
    /// # Errors
    /// 413 if the plan has too many.
    pub fn add_tool(&mut self, tool: PlannedTool) -> Result<()> {
        if self.tools.contains(&tool) {
            return Ok(());
        }
        if self.tools.len() == MAX_TOOLS {
            return Err(too_large());
        }
        self.tools.push(tool);
        Ok(())
    }
}

// ── Agents ───────────────────────────────────────────────────────────────────

/// Plans a deployment of agents.
///
/// # Errors
/// 404 for what does not exist, 403 without a grant, 400 for variables without a value, 413 if
/// the plan is too large.
pub fn plan_agents(view: &View, caller: &Caller, new: &NewDeployment) -> Result<Plan> {
    let environment = access::find_environment(view, &new.environment)?;
    let agents = find_agents(view, &new.agent_ids)?;
    let environment = environment.open(view, caller)?;
    let agents: Vec<Agent> =
        agents.into_iter().map(|agent| agent.open(view, caller)).collect::<Result<_>>()?;
    let mut planner = Planner {
        view,
        caller,
        new,
        values: environments::variables(view, environment.id)?,
        plan: Plan::new(environment, None),
        texts: HashMap::new(),
        definitions: BTreeMap::new(),
        missing: BTreeMap::new(),
    };
    agents.into_iter().try_for_each(|agent| planner.add(agent))?;
    planner.finish()
}

fn find_agents(view: &View, references: &[String]) -> Result<Vec<Restricted<Agent>>> {
    let mut found: Vec<Restricted<Agent>> = Vec::with_capacity(references.len());
    let mut issues = Vec::new();
    for (n, reference) in references.iter().enumerate() {
        let path = format!("agentIds[{n}]");
        let agent = agents::find(view, reference).map_err(|error| error.at(path.clone()))?;
        if found.iter().any(|other| other.id() == agent.id()) {
            issues.push(Issue::new(path, "must not name the same agent as one before it"));
        }
        found.push(agent);
    }
    if issues.is_empty() { Ok(found) } else { Err(Error::invalid(issues)) }
}

/// Plans one agent after the other; what they share is read once.
struct Planner<'a> {
    view: &'a View<'a>,
    caller: &'a Caller,
    new: &'a NewDeployment,
    /// The variables of the environment.
    values: StringMap,
    plan: Plan,
    texts: HashMap<Id<VersionRecord>, String>,
    definitions: BTreeMap<(Id<Tool>, Version), (ContentHash, u64)>,
    /// Variables without a value, each with an agent that lacks it.
    missing: BTreeMap<String, String>,
}

impl Planner<'_> {
    fn add(&mut self, mut agent: Agent) -> Result<()> {
        if let Some(number) = self.new.agent_version {
            let version = agents::version(self.view, agent.id, number.get() as u32)?;
            agent.draft = version
                .ok_or_else(|| Error::no_such("version of the agent").at("agentVersion"))?
                .config;
        }
        let provider = self.provider(&agent)?;
        let (registry, row) = self.prompt(&agent)?;
        let variables = self.variables(&agent);
        let text = self.fill(&agent, &row, &variables)?;
        let refs = match &self.new.tool_refs {
            Some(refs) => refs.to_vec(),
            None => agent.draft.tool_refs.clone(),
        };
        let (tool_refs, tools, tool_bytes) = self.tools(&agent, &refs)?;
        // Where neither the request nor the draft names one, that of the version is shown.
        let version_model = || Model::from_trusted(row.model.to_string());
        let model = self.new.model.clone().or(agent.draft.model).unwrap_or_else(version_model);
        let given = self.new.agent_provider_config.clone();
        let config = AgentConfig {
            registry_ref: Some(RegistryRef::from_trusted(registry.reference.clone())),
            prompt_name: Some(agents::PromptName::from_trusted(row.of.name.to_string())),
            prompt_version: Some(agents::PromptVersion::from_trusted(row.version.to_string())),
            model: Some(model.clone()),
            provider: Some(provider.clone()),
            tool_refs,
            variables,
            provider_config: given.unwrap_or(agent.draft.provider_config),
        };
        let (config, config_bytes) = self.plan.contents.add_json(&config)?;
        let subject = Subject::Agent(TargetAgent {
            id: agent.id,
            stable_key: agent.stable_key,
            registry: registry.id,
            registry_ref: registry.reference,
            prompt_name: row.of.name,
            model,
        });
        let mut target = PlannedTarget::new(subject, row.version, config);
        target.bytes = (text.len() + config_bytes) as u64;
        target.text = Some(self.plan.contents.add(text)?);
        (target.tools, target.tool_bytes) = (tools, tool_bytes);
        self.plan.add_target(target.hashed(Some(&provider))?)
    }

    /// The provider of the job: that of the request, or the one that all agents' versions name.
    fn provider(&mut self, agent: &Agent) -> Result<Provider> {
        let own = || agent.draft.provider.clone().filter(|_| self.new.agent_version.is_some());
        let Some(provider) = self.new.provider.clone().or_else(own) else {
            let key = &agent.stable_key;
            let message = format!("must be sent, since the version of the agent {key} names none");
            return Err(Error::invalid_at("provider", message));
        };
        if self.plan.provider.get_or_insert_with(|| provider.clone()) != &provider {
            let message = "must be sent, since the versions of the agents name different ones";
            return Err(Error::invalid_at("provider", message));
        }
        Ok(provider)
    }

    /// The registry of an agent's prompt, and the version that is selected for its model.
    fn prompt(&self, agent: &Agent) -> Result<(Registry, VersionRecord)> {
        let given = self.new.registry_ref.as_deref();
        let reference = given.or(agent.draft.registry_ref.as_deref()).ok_or_else(|| {
            let key = &agent.stable_key;
            let message = format!("must be sent, since the draft of the agent {key} names none");
            Error::invalid_at("registryRef", message)
        })?;
        let registry = registries::require_usable(self.view, self.caller, reference)?;
        let of_version = |given: &Option<String>, own: Option<&str>| match self.new.agent_version {
            None => given.clone(),
            Some(_) => own.map(String::from),
        };
        let name = of_version(&self.new.prompt_name, agent.draft.prompt_name.as_deref());
        let name = name.ok_or_else(|| {
            let message =
                format!("must name a prompt, which that of {} does not", agent.stable_key);
            Error::invalid_at("agentVersion", message)
        })?;
        let id = ArtifactId::parse(&registry, None, &name)?;
        let model = self.new.model.as_deref().or(agent.draft.model.as_deref());
        let version = of_version(&self.new.version, agent.draft.prompt_version.as_deref());
        let selector = version.map_or(Selector::Newest, |version| Selector::parse(&version));
        let row = artifacts::resolve(self.view, &id, &selector, model)?;
        Ok((registry, row.ok_or_else(|| artifacts::none_selected(self.view, &id, "version"))?))
    }

    /// The agent's own variables, with those of the request.
    fn variables(&self, agent: &Agent) -> Variables {
        let mut variables = agent.draft.variables.clone();
        if let Some(given) = &self.new.agent_variables {
            variables.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        variables
    }

    /// The filled text of a version. Variables without a value are noted.
    fn fill(
        &mut self,
        agent: &Agent,
        row: &VersionRecord,
        variables: &Variables,
    ) -> Result<String> {
        if !self.texts.contains_key(&row.id) {
            let text = artifacts::text(self.view, row)?.compiled().to_string();
            self.texts.insert(row.id, text);
        }
        let value = |name: &str| {
            let own = VariableName::parse(name).ok();
            let own = own.and_then(|name| variables.get(&name)).map(|value| value.to_string());
            own.or_else(|| self.values.get(name).cloned())
        };
        let rendering = templates::render(&self.texts[&row.id], value)
            .map_err(|message| Error::invalid_at("agentVariables", message))?;
        for name in rendering.missing {
            self.missing.entry(name).or_insert_with(|| agent.stable_key.to_string());
        }
        Ok(rendering.text)
    }

    /// The tools of an agent: their exact versions, their definitions and the size of these.
    fn tools(
        &mut self,
        agent: &Agent,
        refs: &[ToolRef],
    ) -> Result<(Vec<ToolRef>, Vec<ContentHash>, u64)> {
        let (mut exact, mut hashes, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (index, reference) in refs.iter().enumerate() {
            let id = reference.tool_id;
            let version = self.tool_version(agent, reference, index)?;
            let (hash, size) = match self.definitions.get(&(id, version.clone())) {
                Some(known) => *known,
                None => self.define(id, &version, index)?,
            };
            exact.push(ToolRef { tool_id: id, version: Some(version) });
            hashes.push(hash);
            bytes += size;
        }
        Ok((exact, hashes, bytes))
    }

    /// The version of the tool of the `index`th reference: its own, else the environment's, else the
    /// newest.
    fn tool_version(&self, agent: &Agent, reference: &ToolRef, index: usize) -> Result<Version> {
        let id = reference.tool_id;
        let Some(tool) = self.view.get::<Tool>(&id)? else {
            return Err(match &self.new.tool_refs {
                Some(_) => Error::no_such("tool").at(format!("toolRefs[{index}].toolId")),
                None => Error::conflict(
                    "tool_deleted",
                    format!(
                        "the draft of the agent {} has a tool that was deleted; change its \
                         toolRefs or send others",
                        agent.stable_key
                    ),
                ),
            });
        };
        if let Some(version) = &reference.version {
            return Ok(version.clone());
        }
        let environment = self.plan.environment.id;
        let used = environments::tool_version(self.view, environment, id.cast())?;
        Ok(used.unwrap_or(tool.version))
    }

    fn define(
        &mut self,
        id: Id<Tool>,
        version: &Version,
        index: usize,
    ) -> Result<(ContentHash, u64)> {
        let tool = tools::version(self.view, id, version)?.ok_or_else(|| {
            Error::no_such("version of the tool").at(format!("toolRefs[{index}].version"))
        })?;
        self.plan.add_tool(PlannedTool {
            tool: id,
            name: tool.name.clone(),
            version: tool.version.clone(),
        })?;
        let (hash, bytes) = self.plan.contents.add_json(&DeployedTool::new(id, tool))?;
        self.definitions.insert((id, version.clone()), (hash, bytes as u64));
        Ok((hash, bytes as u64))
    }

    fn finish(self) -> Result<Plan> {
        if self.missing.is_empty() {
            return Ok(self.plan);
        }
        let issue = |(name, stable_key): (String, String)| {
            let message = format!("must have a value: the prompt of {stable_key} uses it");
            Issue::new(format!("agentVariables.{name}"), message)
        };
        Err(Error::invalid(self.missing.into_iter().take(MAX_MISSING).map(issue).collect()))
    }
}

// ── Tools ────────────────────────────────────────────────────────────────────

/// Plans a deployment of tools.
///
/// # Errors
/// 404 for what does not exist, 403 without a grant, 400 for a tool that is named twice.
pub fn plan_tools(view: &View, caller: &Caller, new: &NewToolDeployment) -> Result<Plan> {
    let environment = access::find_environment(view, &new.environment)?;
    let tools: Vec<Tool> = new.tool_ids.iter().map(|id| view.fetch(id)).collect::<Result<_>>()?;
    let mut plan = Plan::new(environment.open(view, caller)?, None);
    for (n, tool) in tools.into_iter().enumerate() {
        if new.tool_ids[..n].contains(&tool.id) {
            let path = format!("toolIds[{n}]");
            return Err(Error::invalid_at(path, "must not name the same tool as one before it"));
        }
        let version = new.version.as_ref().unwrap_or(&tool.version);
        let tool = tools::version(view, tool.id, version)?
            .map(|version| (tool.id, version))
            .ok_or_else(|| Error::no_such("version of the tool").at("version"))?;
        add_tool_target(&mut plan, tool)?;
    }
    Ok(plan)
}

/// Adds a version of a tool to a plan.
///
/// # Errors
/// 413 if the plan becomes too large.
pub fn add_tool_target(plan: &mut Plan, (id, tool): (Id<Tool>, tools::ToolVersion)) -> Result<()> {
    let config = json!({"name": tool.name, "type": tool.kind});
    let (config, bytes) = plan.contents.add_json(&config)?;
    let definition = DeployedTool::new(id, tool.clone());
    let (definition, tool_bytes) = plan.contents.add_json(&definition)?;
    plan.add_tool(PlannedTool { tool: id, name: tool.name, version: tool.version.clone() })?;
    let mut target = PlannedTarget::new(Subject::Tool(id), tool.version, config);
    target.bytes = bytes as u64;
    (target.tools, target.tool_bytes) = (vec![definition], tool_bytes as u64);
    plan.add_target(target.hashed(None)?)
}
