// The calls of the README's loop, by the classes that openapi-generator has made for Java.

import java.util.List;
import java.util.Timer;
import java.util.TimerTask;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.RegistriesApi;
import org.openapitools.client.api.TeamsApi;
import org.openapitools.client.model.*;

class Loop {
    static void same(Object found, Object expected) {
        if (!found.equals(expected)) throw new AssertionError(found + " is not " + expected);
    }

    public static void main(String[] none) throws ApiException {
        // What is awaited and never ends ends this.
        new Timer(true).schedule(new TimerTask() {
            @Override
            public void run() {
                System.err.println("no answer for a minute");
                Runtime.getRuntime().halt(1);
            }
        }, 60_000);
        String org = "acme", texts = "acme/texts";
        UUID team = UUID.fromString(System.getenv("TEAM"));
        UUID agent = UUID.fromString(System.getenv("AGENT"));
        ApiClient client = new ApiClient();
        client.updateBaseUri(System.getenv("BASE"));
        client.setRequestInterceptor(request -> request.header("X-API-Key", System.getenv("KEY")));
        TeamsApi teams = new TeamsApi(client);
        RegistriesApi registries = new RegistriesApi(client);

        ArtifactVersion version = registries.artifactVersionPublish(
            new CreateArtifactVersion().registryRef(texts).artifactType(ArtifactType.PROMPT)
                .name("coffee").version("1.0.0").source("Test {{WHAT}}."), null, null);
        same(version.getVariables(), List.of("WHAT"));
        registries.artifactLabelMove(
            new SetLabel().registryRef(texts).promptName("coffee").version("1.0.0")
                .label("production"), null, null);

        Task task = teams.taskCreate(
            team, new CreateTask().orgSlug(org).title("Try it").assigneeAgentId(agent), null, null);
        List<Wake> wakes = teams.wakeTake(team, agent, org, null, null, 5, null, null).getItems();
        same(wakes.stream().map(Wake::getTaskId).toList(), List.of(task.getId()));
        ClaimedTask claimed = teams.taskClaim(
            team, task.getId(), new ClaimTask().orgSlug(org).agentId(agent), null, null);
        same(claimed.getStatus(), TaskStatus.IN_PROGRESS);
        same(teams.taskGet(team, task.getId(), org, null, null).getTitle(), "Try it");
        ArtifactContent text = registries.artifactVersionContent(
            texts, "coffee", null, null, null, "production", null, null, null);
        same(text.getCompiled(), "Test {{WHAT}}.");
        teams.inboxMessageCreate(
            team, new CreateInboxMessage().orgSlug(org).fromAgentId(agent).taskId(task.getId())
                .body("It happens."), null, null);
        Task done = teams.taskUpdate(
            team, task.getId(), new TaskPatch().orgSlug(org).status(TaskStatus.DONE), null, null);
        same(done.getStatus(), TaskStatus.DONE);
        same(done.getAssigneeAgentId(), agent);
        AckWakes taken = new AckWakes().orgSlug(org).wakeIds(wakes.stream().map(Wake::getId).toList());
        same(teams.wakeAcknowledge(team, agent, taken, null, null).getAcknowledged(), 1);
        try {
            teams.taskGet(team, task.getId(), "other", null, null);
            throw new AssertionError("another organization is found");
        } catch (ApiException error) {
            same(error.getCode(), 404);
        }
        System.out.println("done");
    }
}
