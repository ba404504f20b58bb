"""The calls of the README's loop, by the package `made` that openapi-generator has made."""

import importlib
import os
import pkgutil

import made
from made import models
from made.rest import ApiException

# Each module can be imported.
for module in pkgutil.walk_packages(made.__path__, "made."):
    importlib.import_module(module.name)

org, team, agent = "acme", os.environ["TEAM"], os.environ["AGENT"]
configuration = made.Configuration(host=os.environ["BASE"])
configuration.api_key["apiKeyHeader"] = os.environ["KEY"]
client = made.ApiClient(configuration)
teams, registries = made.TeamsApi(client), made.RegistriesApi(client)

version = registries.artifact_version_publish(models.CreateArtifactVersion.from_dict({
    "registryRef": "acme/texts", "artifactType": "prompt", "name": "tester",
    "version": "1.0.0", "source": "Test {{WHAT}}."}))
assert version.variables == ["WHAT"], version
registries.artifact_label_move(models.SetLabel.from_dict({
    "registryRef": "acme/texts", "promptName": "tester", "version": "1.0.0", "label": "production"}))

task = teams.task_create(team, models.CreateTask(
    org_slug=org, title="Try it", assignee_agent_id=agent))
wakes = teams.wake_take(team, agent, org_slug=org, wait=5).items
assert [wake.task_id for wake in wakes] == [task.id], wakes
claimed = teams.task_claim(team, task.id, models.ClaimTask(org_slug=org, agent_id=agent))
assert claimed.status == models.TaskStatus.IN_PROGRESS, claimed
assert teams.task_get(team, task.id, org_slug=org).title == "Try it"
text = registries.artifact_version_content(
    registry_ref="acme/texts", prompt_name="tester", version="production")
assert text.compiled == "Test {{WHAT}}.", text
teams.inbox_message_create(team, models.CreateInboxMessage(
    org_slug=org, from_agent_id=agent, task_id=task.id, body="It happens."))
done = teams.task_update(team, task.id, models.TaskPatch(org_slug=org, status="done"))
assert done.status == models.TaskStatus.DONE, done
acknowledged = teams.wake_acknowledge(team, agent, models.AckWakes(
    org_slug=org, wake_ids=[wake.id for wake in wakes]))
assert acknowledged.acknowledged == 1, acknowledged
try:
    teams.task_get(team, task.id, org_slug="other")
    raise SystemExit("another organization is found")
except ApiException as error:
    assert error.status == 404, error
print("done")
